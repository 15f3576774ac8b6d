run() { rehearse run experiments/seeds/toy-ddp.json --backend reference --numbers "$@" 2>&1 | grep -E '^  losses|^rehearse'; echo "exit ${PIPESTATUS[0]}"; }
run --steps 2 --set train.save=saved
head -c 300 saved >cut; run --set train.resume=cut
head -c 1300 saved >cut; run --set train.resume=cut
printf 'not a checkpoint' >foreign; run --set train.resume=foreign
printf '\0\0\0\0\0\1\0\0{}' >long; run --set train.resume=long
printf '\2\0\0\0\0\0\0\0{}' >empty; run --set train.resume=empty
run --set train.resume=/dev/zero
run --set train.resume=experiments
run --set train.resume=saved --steps 2
run --set train.resume=saved --set train.optimizer.type=adam --set train.optimizer.momentum=null
run --set train.resume=saved --set train.optimizer.momentum=null
run --set train.resume=saved --set data.seed=1
run --set train.resume=saved --set data.batch=40
run --set train.resume=saved --set train.init=saved
run --set train.resume=saved --set 'model={"name":"mlp"}' --set train.loss=cross_entropy
run --set train.save=experiments
run --set train.save_every=2
sed 's/net1.bias/net9.bias/' saved >renamed; run --set train.resume=renamed
sed 's/\[10,10\]/[5, 20]/' saved >reshaped; run --set train.resume=reshaped
rehearse run experiments/seeds/toy-ddp.json --set train.save=other 2>&1
ls other 2>/dev/null || echo "nothing written"
