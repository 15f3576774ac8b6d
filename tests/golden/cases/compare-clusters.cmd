# The buyer: clusters and batches side by side.
# tolerance 1e-6
rehearse compare experiments/resnet50-8xv100.json --cluster dgx-1v,dgx-a100-40gb,hgx-h100 \
    --set data.batch=256,1024
