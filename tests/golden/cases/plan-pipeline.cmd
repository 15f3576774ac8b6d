# 1F1B over four stages, one role each.
rehearse plan experiments/seeds/toy-ddp.json --set strategy.type=pipeline --set devices=2 \
    --set data.batch=8 | grep -v "^  buffer"
