#include "kernels/cuda/launch.cuh"
#include "op/sum_cut.h"

/* 16 bytes of elements at once where all of them have whole vectors. */
template <typename T, int width> struct alignas(sizeof(T) * width) pieces {
    T at[width];
};

template <typename T, int width>
__global__ static void bias_relu(T *y, const T *bias, int64_t n, int64_t channels, int64_t area,
                                 int channels_last, int relu)
{
    FOR_EACH(i, n / width) {
        pieces<T, width> piece = ((pieces<T, width> *)y)[i];
        int64_t first = i * width;
        int64_t c = channels_last ? first % channels : first / area % channels;
        for (int k = 0; k < width; k++) {
            float value = wide(piece.at[k]) + (bias ? wide(bias[channels_last ? c + k : c]) : 0.0f);
            store(&piece.at[k], relu && value <= 0 ? 0.0f : value);
        }
        ((pieces<T, width> *)y)[i] = piece;
    }
}

template <typename T>
static void launch(cudaStream_t s, T *y, const T *bias, int64_t n, int64_t channels, int64_t area,
                   int channels_last, int relu)
{
    const int width = 16 / sizeof(T);
    if ((channels_last ? channels : area) % width == 0 && (uintptr_t)y % 16 == 0)
        bias_relu<T, width><<<blocks_for(n / width), threads_per_block, 0, s>>>(
            y, bias, n, channels, area, channels_last, relu);
    else
        bias_relu<T, 1><<<blocks_for(n), threads_per_block, 0, s>>>(y, bias, n, channels, area,
                                                                    channels_last, relu);
}

extern "C" void kernel_bias_relu(cudaStream_t s, enum kernel_type type, void *y, const void *bias,
                                 int64_t rows, int64_t channels, int64_t area, int channels_last,
                                 int relu)
{
    WITH_TYPE(type, launch(s, (T *)y, (const T *)bias, rows * channels * area, channels, area,
                           channels_last, relu));
}

/* Sums of columns: a block takes 32 of them, its warps every 32nd row of a slice of the rows, and
 * several slices are added up by a second launch, always in the same order. */
enum { COLUMNS = SUM_COLUMNS, LANES = 32 };

template <typename T>
__global__ static void column_sums(const T *x, float *sum, int64_t rows, int64_t columns,
                                   int64_t slice_rows, int accumulate)
{
    __shared__ float partial[LANES][COLUMNS + 1];
    int64_t column = blockIdx.x * (int64_t)COLUMNS + threadIdx.x;
    int64_t first = blockIdx.y * slice_rows;
    int64_t end = first + slice_rows < rows ? first + slice_rows : rows;
    float mine = 0;
    if (column < columns) {
#pragma unroll 8
        for (int64_t r = first + threadIdx.y; r < end; r += LANES)
            mine += wide(x[r * columns + column]);
    }
    partial[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    mine = partial[threadIdx.x][threadIdx.y];
    for (int offset = 16; offset > 0; offset /= 2)
        mine += __shfl_down_sync(0xffffffffu, mine, offset);
    column = blockIdx.x * (int64_t)COLUMNS + threadIdx.y;
    if (threadIdx.x > 0 || column >= columns)
        return;
    float *to = &sum[blockIdx.y * columns + column];
    *to = accumulate ? *to + mine : mine;
}

__global__ static void add_slices(const float *partial, int slices, int64_t columns, float *sum,
                                  int accumulate)
{
    FOR_EACH(c, columns) {
        float total = accumulate ? sum[c] : 0;
        for (int i = 0; i < slices; i++)
            total += partial[i * columns + c];
        sum[c] = total;
    }
}

extern "C" void kernel_column_sums(cudaStream_t s, enum kernel_type type, const void *x, float *sum,
                                   int64_t rows, int64_t columns, int accumulate, void *sums)
{
    if (columns < 1)
        return;
    int slices = column_slices(rows, columns);
    int64_t slice_rows = (rows + slices - 1) / slices;
    dim3 blocks((unsigned)((columns + COLUMNS - 1) / COLUMNS), (unsigned)slices);
    float *to = slices > 1 ? (float *)sums : sum;
    WITH_TYPE(type, column_sums<<<blocks, dim3(COLUMNS, LANES), 0, s>>>(
                        (const T *)x, to, rows, columns, slice_rows, slices == 1 && accumulate));
    if (slices > 1)
        add_slices<<<blocks_for(columns), threads_per_block, 0, s>>>(to, slices, columns, sum,
                                                                     accumulate);
}
