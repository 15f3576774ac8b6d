# tolerance 1e-6
rehearse compare experiments/seeds/resnet50-pipeline.json --set strategy.split_size=10,20 --csv - |
    cut -d, -f 1-3,5-8,11-14
