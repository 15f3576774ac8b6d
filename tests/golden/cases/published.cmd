# tolerance 1e-6
rehearse published experiments/published/pytorch-ddp.json
