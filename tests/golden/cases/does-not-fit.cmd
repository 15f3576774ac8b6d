rehearse run experiments/resnet50-8xv100.json --set data.batch=8192 2>&1
