rehearse run experiments/seeds/toy-ddp.json --set cluster=dgx-1w 2>&1
