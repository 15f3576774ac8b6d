#include "kernels/cuda/launch.cuh"

__global__ static void embedding(const int64_t *index, const float *w, float *y, int64_t rows,
                                 int64_t width)
{
    FOR_EACH(i, rows * width)
        y[i] = w[index[i / width] * width + i % width];
}

/* Each cell of the table gathers its rows in order: no atomics, so always the same sum. */
__global__ static void embedding_grad(const float *gy, const int64_t *index, float *gw, int64_t rows,
                                      int64_t width, int64_t vocabulary, int accumulate)
{
    FOR_EACH(i, vocabulary * width) {
        int64_t word = i / width, column = i % width;
        float sum = accumulate ? gw[i] : 0;
        for (int64_t r = 0; r < rows; r++)
            if (index[r] == word)
                sum += gy[r * width + column];
        gw[i] = sum;
    }
}

extern "C" void kernel_embedding(cudaStream_t s, const int64_t *index, const float *w, float *y,
                                 int64_t rows, int64_t width)
{
    embedding<<<blocks_for(rows * width), threads_per_block, 0, s>>>(index, w, y, rows, width);
}

extern "C" void kernel_embedding_grad(cudaStream_t s, const float *gy, const int64_t *index, float *gw,
                                      int64_t rows, int64_t width, int64_t vocabulary, int accumulate)
{
    embedding_grad<<<blocks_for(vocabulary * width), threads_per_block, 0, s>>>(
        gy, index, gw, rows, width, vocabulary, accumulate);
}
