rehearse rum experiments/seeds/toy-ddp.json 2>&1
