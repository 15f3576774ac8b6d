#include "kernels/cuda/vector.cuh"

/* A NaN stays one, as on the CPU. */
template <typename T, int V> __global__ static void relu(const T *x, T *y, int64_t n)
{
    FOR_EACH(i, n) {
        vector<T, V> value = load<T, V>(x, i);
        for (int k = 0; k < V; k++)
            store(&value.at[k], wide(value.at[k]) <= 0 ? 0 : wide(value.at[k]));
        store<T, V>(y, i, value);
    }
}

template <typename T, int V>
__global__ static void relu_grad(const T *gy, const T *y, T *gx, int64_t n)
{
    FOR_EACH(i, n) {
        vector<T, V> value = load<T, V>(gy, i), out = load<T, V>(y, i);
        for (int k = 0; k < V; k++)
            store(&value.at[k], wide(out.at[k]) <= 0 ? 0 : wide(value.at[k]));
        store<T, V>(gx, i, value);
    }
}

template <typename T, int V> __global__ static void add(const T *a, const T *b, T *y, int64_t n)
{
    FOR_EACH(i, n) {
        vector<T, V> value = load<T, V>(a, i), other = load<T, V>(b, i);
        for (int k = 0; k < V; k++)
            store(&value.at[k], wide(value.at[k]) + wide(other.at[k]));
        store<T, V>(y, i, value);
    }
}

template <typename T>
__global__ static void scale_add(const T *x, T *y, float alpha, float beta, int64_t n)
{
    FOR_EACH(i, n)
        store(&y[i], beta != 0 ? alpha * wide(x[i]) + beta * wide(y[i]) : alpha * wide(x[i]));
}

template <typename From, typename To>
__global__ static void cast(const From *x, To *y, int64_t n)
{
    FOR_EACH(i, n)
        store(&y[i], wide(x[i]));
}

template <typename T> __global__ static void widen(const T *x, float *y, int64_t n, int accumulate)
{
    FOR_EACH(i, n)
        y[i] = accumulate ? y[i] + wide(x[i]) : wide(x[i]);
}

/* One block a channel, in a fixed order: always the same sum. */
template <typename T>
__global__ static void channel_sums(const T *x, float *sum, int64_t rows, int64_t channels,
                                    int64_t area, int accumulate)
{
    for (int64_t c = blockIdx.x; c < channels; c += gridDim.x) {
        float mine = 0;
        for (int64_t i = threadIdx.x; i < rows * area; i += blockDim.x)
            mine += wide(x[(i / area * channels + c) * area + i % area]);
        float total = block_sum(mine);
        if (threadIdx.x == 0)
            sum[c] = accumulate ? sum[c] + total : total;
    }
}

template <typename T>
__global__ static void strided_copy(const T *from, T *to, struct strided shape, int64_t n)
{
    FOR_EACH(i, n) {
        int64_t rest = i, a = 0, b = 0;
        for (int d = shape.rank - 1; d >= 0; d--) {
            int64_t index = rest % shape.dim[d];
            rest /= shape.dim[d];
            a += index * shape.from[d];
            b += index * shape.to[d];
        }
        to[b] = from[a];
    }
}

/* Whole vectors only, and all of them aligned. */
template <typename T> static bool in_vectors(int64_t n, const void *a, const void *b, const void *c)
{
    return n % (16 / (int64_t)sizeof(T)) == 0 && is_aligned(a) && is_aligned(b) && is_aligned(c);
}

extern "C" void kernel_relu(cudaStream_t s, enum kernel_type type, const void *x, void *y, int64_t n)
{
    WITH_TYPE(type, WITH_VECTOR(in_vectors<T>(n, x, y, y),
                                relu<T, V><<<blocks_for(n / V), threads_per_block, 0, s>>>(
                                    (const T *)x, (T *)y, n / V)));
}

extern "C" void kernel_relu_grad(cudaStream_t s, enum kernel_type type, const void *gy, const void *y,
                                 void *gx, int64_t n)
{
    WITH_TYPE(type, WITH_VECTOR(in_vectors<T>(n, gy, y, gx),
                                relu_grad<T, V><<<blocks_for(n / V), threads_per_block, 0, s>>>(
                                    (const T *)gy, (const T *)y, (T *)gx, n / V)));
}

extern "C" void kernel_add(cudaStream_t s, enum kernel_type type, const void *a, const void *b,
                           void *y, int64_t n)
{
    WITH_TYPE(type, WITH_VECTOR(in_vectors<T>(n, a, b, y),
                                add<T, V><<<blocks_for(n / V), threads_per_block, 0, s>>>(
                                    (const T *)a, (const T *)b, (T *)y, n / V)));
}

extern "C" void kernel_scale_add(cudaStream_t s, enum kernel_type type, const void *x, void *y,
                                 float alpha, float beta, int64_t n)
{
    WITH_TYPE(type, scale_add<<<blocks_for(n), threads_per_block, 0, s>>>((const T *)x, (T *)y, alpha,
                                                                          beta, n));
}

template <typename From>
static void cast_from(cudaStream_t s, const From *x, enum kernel_type to, void *y, int64_t n)
{
    WITH_TYPE(to, cast<<<blocks_for(n), threads_per_block, 0, s>>>(x, (T *)y, n));
}

extern "C" void kernel_cast(cudaStream_t s, enum kernel_type from, const void *x, enum kernel_type to,
                            void *y, int64_t n)
{
    WITH_TYPE(from, cast_from(s, (const T *)x, to, y, n));
}

template <typename From, typename To, int V> static __device__ void cast_row(const cast_table &t)
{
#pragma unroll 4
    for (int i = threadIdx.x; i < (int)t.n / V; i += threads_per_block) {
        vector<From, V> x = load<From, V>((const From *)t.x, i);
        vector<To, V> y;
        for (int k = 0; k < V; k++)
            store(&y.at[k], wide(x.at[k]));
        store<To, V>((To *)t.y, i, y);
    }
}

template <typename From, typename To> __global__ static void cast_rows(const cast_table *table)
{
    cast_table t = table[blockIdx.x];
    if (t.n % 4 == 0 && (uintptr_t)t.x % sizeof(vector<From, 4>) == 0 &&
        (uintptr_t)t.y % sizeof(vector<To, 4>) == 0)
        cast_row<From, To, 4>(t);
    else
        cast_row<From, To, 1>(t);
}

template <typename From>
static void cast_rows_from(cudaStream_t s, enum kernel_type to, const cast_table *table, int rows)
{
    WITH_TYPE(to, cast_rows<From, T><<<rows, threads_per_block, 0, s>>>(table));
}

extern "C" void kernel_cast_all(cudaStream_t s, enum kernel_type from, enum kernel_type to,
                                const struct cast_table *device_table, int rows)
{
    if (rows > 0)
        WITH_TYPE(from, cast_rows_from<T>(s, to, device_table, rows));
}

extern "C" void kernel_widen(cudaStream_t s, enum kernel_type type, const void *x, float *y, int64_t n,
                             int accumulate)
{
    WITH_TYPE(type, widen<<<blocks_for(n), threads_per_block, 0, s>>>((const T *)x, y, n, accumulate));
}

extern "C" void kernel_channel_sums(cudaStream_t s, enum kernel_type type, const void *x, float *sum,
                                    int64_t rows, int64_t channels, int64_t area, int accumulate)
{
    int blocks = (int)(channels < 16384 ? channels : 16384);
    WITH_TYPE(type, channel_sums<<<blocks, threads_per_block, 0, s>>>((const T *)x, sum, rows,
                                                                      channels, area, accumulate));
}

extern "C" void kernel_strided_copy(cudaStream_t s, const void *from, void *to, struct strided shape,
                                    int element_bytes)
{
    int64_t n = 1;
    for (int d = 0; d < shape.rank; d++)
        n *= shape.dim[d];
    int blocks = blocks_for(n);
    if (element_bytes == 8)
        strided_copy<<<blocks, threads_per_block, 0, s>>>((const int64_t *)from, (int64_t *)to, shape,
                                                          n);
    else if (element_bytes == 2)
        strided_copy<<<blocks, threads_per_block, 0, s>>>((const int16_t *)from, (int16_t *)to, shape,
                                                          n);
    else
        strided_copy<<<blocks, threads_per_block, 0, s>>>((const int32_t *)from, (int32_t *)to, shape,
                                                          n);
}
