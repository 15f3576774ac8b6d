# The researcher: strategies side by side, one of which does not fit.
# tolerance 1e-6
rehearse compare experiments/resnet50-8xv100.json --set data.batch=512 \
    --strategy single,data_parallel,ddp,model_parallel,pipeline
