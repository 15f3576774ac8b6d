# A fabric slower than NCCL's table of latencies counts.
# tolerance 1e-6
for seconds in 5e-7 5e-5 5e-4; do
    rehearse run experiments/seeds/toy-ddp.json --set model=mlp --set devices=16 --set data.batch=64 \
        --set 'cluster={"name":"c","node":"hgx-h100","fabric":{"type":"fat_tree","latency_seconds":'$seconds'}}' |
        grep 'step time'
done
