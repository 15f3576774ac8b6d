/* How our kernels are launched: grids that cover n elements with a stride. */
#ifndef REHEARSE_KERNELS_CUDA_LAUNCH_CUH
#define REHEARSE_KERNELS_CUDA_LAUNCH_CUH

#include <cstdint>

#include "kernels/cuda/kernels.h"

static const int threads_per_block = 256;

static inline int blocks_for(int64_t n)
{
    int64_t blocks = (n + threads_per_block - 1) / threads_per_block;
    return (int)(blocks < 1 ? 1 : blocks > 16384 ? 16384 : blocks);
}

/* Element indices of this thread, grid-strided. */
#define FOR_EACH(i, n)                                                                             \
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (n);                       \
         i += (int64_t)gridDim.x * blockDim.x)

/* Sum over a block of at most 1024 threads; every thread gets it. */
static __device__ inline float block_sum(float value)
{
    __shared__ float partial[32];
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    int warps = (blockDim.x + 31) / 32;
    value = (int)threadIdx.x < warps ? partial[threadIdx.x] : 0;
    if (threadIdx.x < 32) {
        for (int offset = 16; offset > 0; offset /= 2)
            value += __shfl_down_sync(0xffffffffu, value, offset);
        if (threadIdx.x == 0)
            partial[0] = value;
    }
    __syncthreads();
    value = partial[0];
    __syncthreads();
    return value;
}

#endif
