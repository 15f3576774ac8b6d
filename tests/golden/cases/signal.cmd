# SIGTERM ends a training after a step, with a checkpoint from which it goes on.
rehearse run experiments/seeds/toy-ddp.json --backend reference --numbers --steps 1000000 \
    --set train.save=stopped --set train.save_every=10 2>error &
job=$!
for _ in $(seq 300); do [ -e stopped ] && break; sleep 0.1; done
kill -TERM $job
wait $job
echo "exit $?"
sed 's/step [0-9]* of/step N of/' error
steps=$(head -c 200 stopped | grep -a -o '"step":"[0-9]*"' | tr -dc 0-9)
[ "$steps" -ge 10 ] && rehearse run experiments/seeds/toy-ddp.json --backend reference --numbers \
    --steps $((steps + 3)) --set train.resume=stopped | grep -c "resumed after step $steps"
