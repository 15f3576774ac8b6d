rehearse run experiments/seeds/toy-ddp.json --set devices=9 --set data.batch=90 2>&1
