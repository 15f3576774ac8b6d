#include "kernels/cuda/launch.cuh"

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
            store(&piece.at[k], relu && !(value > 0) ? 0.0f : value);
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
