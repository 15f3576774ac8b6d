# needs gnuplot
rehearse compare experiments/seeds/resnet50-pipeline.json --set strategy.split_size=10,20 \
    --plot plot.svg >table && grep -o "<svg" plot.svg && rm plot.svg table
