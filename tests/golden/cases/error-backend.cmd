rehearse run experiments/seeds/toy-ddp.json --backend simgird 2>&1
