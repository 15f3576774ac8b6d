# The listing of a whole plan: two ranks, one bucket.
rehearse plan experiments/seeds/toy-ddp.json
