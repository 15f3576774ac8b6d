/* Elements that are read and written together: 16 bytes at once where the layout allows, else one. */
#ifndef REHEARSE_KERNELS_CUDA_VECTOR_CUH
#define REHEARSE_KERNELS_CUDA_VECTOR_CUH

#include "kernels/cuda/launch.cuh"

template <typename T, int V> struct alignas(sizeof(T) * V) vector {
    T at[V];
};

/* The vector at index `i`, counted in vectors. */
template <typename T, int V> static __device__ inline vector<T, V> load(const T *from, int64_t i)
{
    return reinterpret_cast<const vector<T, V> *>(from)[i];
}

template <typename T, int V>
static __device__ inline void store(T *to, int64_t i, const vector<T, V> &value)
{
    reinterpret_cast<vector<T, V> *>(to)[i] = value;
}

/* x as it is when stored and read again. */
template <typename T> static __device__ inline float rounded(float x)
{
    T stored;
    store(&stored, x);
    return wide(stored);
}

/* i / by and i % by; a division of 64 bits is slow and seldom needed. */
static __device__ inline int64_t divide(int64_t i, int by, int *rest)
{
    if (i >> 32) {
        *rest = (int)(i % by);
        return i / by;
    }
    unsigned quotient = (unsigned)i / (unsigned)by;
    *rest = (int)((unsigned)i - quotient * (unsigned)by);
    return quotient;
}

static inline bool is_aligned(const void *at)
{
    return (uintptr_t)at % 16 == 0;
}

/* Runs the statement with V as the vector's elements: of 16 bytes if `whole`, else 1. */
#define WITH_VECTOR(whole, ...)                                                                    \
    if (whole) {                                                                                   \
        constexpr int V = 16 / sizeof(T);                                                          \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        constexpr int V = 1;                                                                       \
        __VA_ARGS__;                                                                               \
    }

#endif
