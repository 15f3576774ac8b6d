#include "kernels/cuda/launch.cuh"

__global__ static void relu(const float *x, float *y, int64_t n)
{
    FOR_EACH(i, n)
        y[i] = x[i] > 0 ? x[i] : 0;
}

__global__ static void relu_grad(const float *gy, const float *y, float *gx, int64_t n)
{
    FOR_EACH(i, n)
        gx[i] = y[i] > 0 ? gy[i] : 0;
}

__global__ static void add(const float *a, const float *b, float *y, int64_t n)
{
    FOR_EACH(i, n)
        y[i] = a[i] + b[i];
}

__global__ static void scale_add(const float *x, float *y, float alpha, float beta, int64_t n)
{
    FOR_EACH(i, n)
        y[i] = beta != 0 ? alpha * x[i] + beta * y[i] : alpha * x[i];
}

/* One block a column. */
__global__ static void column_sums(const float *x, float *sum, int64_t rows, int64_t columns,
                                   int accumulate)
{
    for (int64_t c = blockIdx.x; c < columns; c += gridDim.x) {
        float mine = 0;
        for (int64_t r = threadIdx.x; r < rows; r += blockDim.x)
            mine += x[r * columns + c];
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

extern "C" void kernel_relu(cudaStream_t s, const float *x, float *y, int64_t n)
{
    relu<<<blocks_for(n), threads_per_block, 0, s>>>(x, y, n);
}

extern "C" void kernel_relu_grad(cudaStream_t s, const float *gy, const float *y, float *gx, int64_t n)
{
    relu_grad<<<blocks_for(n), threads_per_block, 0, s>>>(gy, y, gx, n);
}

extern "C" void kernel_add(cudaStream_t s, const float *a, const float *b, float *y, int64_t n)
{
    add<<<blocks_for(n), threads_per_block, 0, s>>>(a, b, y, n);
}

extern "C" void kernel_scale_add(cudaStream_t s, const float *x, float *y, float alpha, float beta,
                                 int64_t n)
{
    scale_add<<<blocks_for(n), threads_per_block, 0, s>>>(x, y, alpha, beta, n);
}

extern "C" void kernel_column_sums(cudaStream_t s, const float *x, float *sum, int64_t rows,
                                   int64_t columns, int accumulate)
{
    int blocks = (int)(columns < 16384 ? columns : 16384);
    column_sums<<<blocks, threads_per_block, 0, s>>>(x, sum, rows, columns, accumulate);
}

extern "C" void kernel_strided_copy(cudaStream_t s, const void *from, void *to, struct strided shape,
                                    int element_bytes)
{
    int64_t n = 1;
    for (int d = 0; d < shape.rank; d++)
        n *= shape.dim[d];
    if (element_bytes == 8)
        strided_copy<<<blocks_for(n), threads_per_block, 0, s>>>((const double *)from, (double *)to,
                                                                 shape, n);
    else
        strided_copy<<<blocks_for(n), threads_per_block, 0, s>>>((const float *)from, (float *)to,
                                                                 shape, n);
}
