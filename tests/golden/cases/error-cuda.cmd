rehearse run experiments/seeds/toy-ddp.json --backend cuda 2>&1
