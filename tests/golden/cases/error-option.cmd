rehearse run experiments/seeds/toy-ddp.json --number 2>&1
