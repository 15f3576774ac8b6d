# 1,024 GPUs, folded: the same time as unfolded is held by a unit test.
# tolerance 1e-6
rehearse run experiments/scale/resnet50-ddp.json --set devices=1024 | grep -E "step time|rate|speed-up|exposed"
