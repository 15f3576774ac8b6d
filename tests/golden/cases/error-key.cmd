rehearse run experiments/seeds/toy-ddp.json --set data.bach=3 2>&1
