# The same losses on every strategy: one device is the measure.
# tolerance 1e-5
for strategy in single data_parallel ddp model_parallel pipeline; do
    rehearse run experiments/seeds/toy-ddp.json --numbers --set strategy=$strategy |
        grep -E "^  (strategy|losses)"
done
