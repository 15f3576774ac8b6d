# experiments/seeds/comm.c: the article's four calls, and what really happens.
build/seed_comm && build/seed_comm simgrid | cmp - <(build/seed_comm reference) && build/seed_comm simgird 2>&1
