/* How our kernels are launched: grids that cover n elements with a stride, and element types that
 * are stored in 16 bits and computed in fp32. */
#ifndef REHEARSE_KERNELS_CUDA_LAUNCH_CUH
#define REHEARSE_KERNELS_CUDA_LAUNCH_CUH

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

/* An element in fp32, and back, rounded to the nearest. */
static __device__ inline float wide(float x)
{
    return x;
}
static __device__ inline float wide(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
static __device__ inline float wide(__half x)
{
    return __half2float(x);
}
static __device__ inline void store(float *to, float x)
{
    *to = x;
}
static __device__ inline void store(__nv_bfloat16 *to, float x)
{
    *to = __float2bfloat16(x);
}
static __device__ inline void store(__half *to, float x)
{
    *to = __float2half(x);
}

/* Runs the statement with T as the C++ type of `type`. */
#define WITH_TYPE(type, ...)                                                                       \
    switch (type) {                                                                                \
    case KERNEL_BF16: {                                                                            \
        using T = __nv_bfloat16;                                                                   \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    case KERNEL_F16: {                                                                             \
        using T = __half;                                                                          \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    default: {                                                                                     \
        using T = float;                                                                           \
        __VA_ARGS__;                                                                               \
        break;                                                                                     \
    }                                                                                              \
    }

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
