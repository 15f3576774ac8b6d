# A training that stops and goes on, also on another mesh, has the losses of one that never stopped.
# tolerance 1e-5
run() { rehearse run experiments/seeds/toy-ddp.json --backend reference --numbers "$@" 2>&1 | grep -E '^  losses|^rehearse'; }
for optimizer in '{"type":"sgd","lr":0.1,"momentum":0.9}' '{"type":"adamw","lr":0.01}'; do
    run --set train.optimizer="$optimizer" --set devices=4 --steps 6
    run --set train.optimizer="$optimizer" --set devices=4 --steps 3 --set train.save=saved
    for mesh in ddp:4 ddp:2 single:1 data_parallel:2 model_parallel:2 pipeline:2; do
        run --set train.optimizer="$optimizer" --set strategy=${mesh%:*} --set devices=${mesh#*:} \
            --steps 6 --set train.resume=saved
    done
done
# Bit-equal on the same mesh: whole and resumed trainings end in the same file.
run --steps 6 --set train.save=whole
run --steps 5 --set train.save=part --set train.save_every=2
run --steps 6 --set train.save=end --set train.resume=part
cmp whole end && echo same
ls -A | grep '\.tmp$' || echo 'no temporary file left'
# The loss's scale goes on where it was: it grows in step 4, not in step 5.
scaled_run() { rehearse run experiments/seeds/toy-ddp.json --backend reference --numbers --set train.precision=fp16 --set 'train.loss_scale={"initial":8,"interval":4}' "$@" 2>&1 | grep -E '^  losses|^  gradients|^rehearse'; }
scaled_run --steps 6
scaled_run --steps 3 --set train.save=scaled
scaled_run --steps 6 --set train.resume=scaled --set strategy=single --set devices=1
