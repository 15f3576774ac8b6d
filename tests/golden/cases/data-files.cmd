# Images and labels from files: the same losses on every strategy, and paths beside the experiment.
# needs python3
# tolerance 1e-5
mkdir -p set && python3 "$srcdir/tests/golden/images.py" set
cat >set/idx.json <<'J'
{"name": "idx", "model": {"input": [1, 4, 4], "layers": [
  {"name": "flat", "op": "flatten"}, {"name": "fc1", "op": "linear", "out": 6},
  {"name": "relu", "op": "relu"}, {"name": "fc2", "op": "linear", "out": 5}]},
 "data": {"batch": 8, "source": {"kind": "idx", "images": "images.idx", "labels": "labels.idx",
   "normalize": {"mean": [0.5], "std": [0.25]}}},
 "train": {"steps": 5}, "cluster": "dgx-1v", "devices": 1, "backend": "reference"}
J
cat >set/cifar.json <<'J'
{"name": "cifar", "model": {"input": [3, 32, 32], "layers": [
  {"name": "flat", "op": "flatten"}, {"name": "fc1", "op": "linear", "out": 16},
  {"name": "relu", "op": "relu"}, {"name": "fc2", "op": "linear", "out": 10}]},
 "data": {"batch": 4, "source": {"kind": "cifar10", "files": ["cifar-a.bin", "cifar-b.bin"]}},
 "train": {"steps": 5}, "cluster": "dgx-1v", "devices": 1, "backend": "reference"}
J
run() { rehearse run "$@" --numbers 2>&1 | grep -E '^  losses|^rehearse'; }
for mesh in single:1 ddp:2 ddp:4 data_parallel:2 pipeline:2; do
    run set/idx.json --set strategy=${mesh%:*} --set devices=${mesh#*:}
    run set/cifar.json --set strategy=${mesh%:*} --set devices=${mesh#*:}
done
run set/idx.json --set data.source.shuffle=false
run set/idx.json --set data.seed=1
run set/idx.json --set data.batch=4 --set train.accumulate=2
run set/idx.json --set data.batch=4 --set train.accumulate=2 --set strategy=ddp --set devices=2
run set/idx.json --steps 3 --set train.save=saved
run set/idx.json --set train.resume=saved --set strategy=ddp --set devices=2
echo 'wrong:'
run set/idx.json --set data.batch=21
run set/idx.json --set data.source.labels=set/few-labels.idx
run set/idx.json --set data.source.labels=set/images.idx
run set/idx.json --set data.source.images=/dev/zero
head -c 100 set/images.idx >cut; run set/idx.json --set data.source.images=cut
head -c 9 set/images.idx >cut; run set/idx.json --set data.source.images=cut
gzip -c set/images.idx >zipped; run set/idx.json --set data.source.images=zipped
run set/idx.json --set 'model.input=[1,4,5]'
run set/idx.json --set data.source.normalize='{"mean":[0,0],"std":[1,1]}'
run set/idx.json --set data.source.normalize='{"mean":[0],"std":[0]}'
run set/idx.json --set data.source.kind=ixd
run set/idx.json --set train.loss=mse
head -c 4000 set/cifar-a.bin >cut; run set/cifar.json --set 'data.source.files=["cut"]'
run set/cifar.json --set 'data.source.files=[]'
sed -i 's/"out": 10/"out": 3/' set/cifar.json; run set/cifar.json
