rehearse run experiments/seeds/toy-ddp.json --set strategy=dpp 2>&1
