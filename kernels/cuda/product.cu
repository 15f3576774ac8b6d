#include "kernels/cuda/launch.cuh"

/* Products that are too small for a library's tiles: one block an output tile, all in one launch. */
static const int side = 16;

template <typename T, typename Out>
__global__ static void product(const T *a, const T *b, Out *out, product_shape p)
{
    __shared__ float of_a[side][side + 1], of_b[side][side + 1];
    int64_t row = blockIdx.x * (int64_t)side + threadIdx.y;
    int64_t column = blockIdx.y * (int64_t)side + threadIdx.x;
    float sum = 0, row_sum = 0;
    for (int64_t first = 0; first < p.inner; first += side) {
        int64_t k = first + threadIdx.x, l = first + threadIdx.y;
        of_a[threadIdx.y][threadIdx.x] =
            row < p.rows && k < p.inner ? wide(a[row * p.a_row + k * p.a_inner]) : 0;
        of_b[threadIdx.y][threadIdx.x] =
            column < p.columns && l < p.inner ? wide(b[l * p.b_inner + column * p.b_column]) : 0;
        __syncthreads();
        for (int i = 0; i < side; i++) {
            sum += of_a[threadIdx.y][i] * of_b[i][threadIdx.x];
            row_sum += of_a[threadIdx.y][i];
        }
        __syncthreads();
    }
    if (row >= p.rows)
        return;
    if (p.row_sums && column == 0)
        p.row_sums[row] = p.accumulate ? p.row_sums[row] + row_sum : row_sum;
    if (column >= p.columns)
        return;
    int64_t at = row * p.columns + column;
    if (p.bias)
        sum += wide(((const T *)p.bias)[column]);
    if (p.accumulate)
        sum += wide(out[at]);
    if ((p.relu && sum <= 0) || (p.mask && wide(((const T *)p.mask)[at]) <= 0))
        sum = 0;
    store(&out[at], sum);
}

extern "C" void kernel_product(cudaStream_t s, enum kernel_type type, const void *a, const void *b,
                               int wide_out, void *out, struct product_shape p)
{
    dim3 blocks((unsigned)((p.rows + side - 1) / side), (unsigned)((p.columns + side - 1) / side));
    dim3 threads(side, side);
    WITH_TYPE(type, if (wide_out) product<<<blocks, threads, 0, s>>>((const T *)a, (const T *)b,
                                                                     (float *)out, p);
              else product<<<blocks, threads, 0, s>>>((const T *)a, (const T *)b, (T *)out, p));
}
