#include "kernels/cuda/launch.cuh"

template <typename T>
__global__ static void embedding(const int64_t *index, const T *w, T *y, int64_t rows, int64_t width)
{
    FOR_EACH(i, rows * width)
        y[i] = w[index[i / width] * width + i % width];
}

/* Each cell of the table gathers its rows in order: no atomics, so always the same sum. */
template <typename T>
__global__ static void embedding_grad(const T *gy, const int64_t *index, float *gw, int64_t rows,
                                      int64_t width, int64_t vocabulary, int accumulate)
{
    FOR_EACH(i, vocabulary * width) {
        int64_t word = i / width, column = i % width;
        float sum = accumulate ? gw[i] : 0;
        for (int64_t r = 0; r < rows; r++)
            if (index[r] == word)
                sum += wide(gy[r * width + column]);
        gw[i] = sum;
    }
}

extern "C" void kernel_embedding(cudaStream_t s, enum kernel_type type, const int64_t *index,
                                 const void *w, void *y, int64_t rows, int64_t width)
{
    WITH_TYPE(type, embedding<<<blocks_for(rows * width), threads_per_block, 0, s>>>(
                        index, (const T *)w, (T *)y, rows, width));
}

extern "C" void kernel_embedding_grad(cudaStream_t s, enum kernel_type type, const void *gy,
                                      const int64_t *index, float *gw, int64_t rows, int64_t width,
                                      int64_t vocabulary, int accumulate)
{
    WITH_TYPE(type, embedding_grad<<<blocks_for(vocabulary * width), threads_per_block, 0, s>>>(
                        (const T *)gy, index, gw, rows, width, vocabulary, accumulate));
}
