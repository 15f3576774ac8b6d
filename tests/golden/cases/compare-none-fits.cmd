rehearse compare experiments/resnet50-8xv100.json --set data.batch=8192,16384 2>&1
