# Fusion: relu with its linear layer, both ways, and the loss with its gradient; over DDP's buckets, too.
rehearse plan experiments/seeds/toy-ddp.json --set strategy=single --set devices=1 --set data.resident=true \
    --set train.fusion=true | grep -e "^  list" -e "^    .* compute  " -e ^total | cut -c 1-110
rehearse plan experiments/seeds/toy-ddp.json --set train.fusion=true --set train.precision=bf16 \
    --set cluster=hgx-h200 | sed -n "/list 1/,\$p" | cut -c 1-110
