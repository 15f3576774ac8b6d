REHEARSE_CUDA_MODULE=/missing.so rehearse run experiments/seeds/toy-ddp.json --backend cuda 2>&1 |
    sed "s/^rehearse: .*cuda.*/one line that names cuda/"
