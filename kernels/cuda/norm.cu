#include "kernels/cuda/launch.cuh"

/* One block a channel throughout. */
static __device__ inline int64_t place(int64_t i, int c, int channel, int64_t area)
{
    return (i / area * c + channel) * area + i % area;
}

template <typename T>
__global__ static void batch_norm(const T *x, const float *gamma, const float *beta, float *mean,
                                  float *var, int64_t *count, T *y, float *save_mean,
                                  float *save_invstd, int n, int c, int64_t area, float epsilon,
                                  float momentum, int training)
{
    int channel = blockIdx.x;
    int64_t cells = n * area;
    float m = mean[channel];
    float v = var[channel];
    if (training) {
        float sum = 0;
        for (int64_t i = threadIdx.x; i < cells; i += blockDim.x)
            sum += wide(x[place(i, c, channel, area)]);
        m = block_sum(sum) / (float)cells;
        float squares = 0;
        for (int64_t i = threadIdx.x; i < cells; i += blockDim.x) {
            float d = wide(x[place(i, c, channel, area)]) - m;
            squares += d * d;
        }
        v = block_sum(squares) / (float)cells;
        if (threadIdx.x == 0) {
            save_mean[channel] = m;
            save_invstd[channel] = rsqrtf(v + epsilon);
            mean[channel] = (1 - momentum) * mean[channel] + momentum * m;
            var[channel] =
                (1 - momentum) * var[channel] + momentum * v * ((float)cells / (float)(cells - 1));
            if (channel == 0)
                *count += 1;
        }
    }
    float scale = gamma[channel] / sqrtf(v + epsilon);
    for (int64_t i = threadIdx.x; i < cells; i += blockDim.x) {
        int64_t at = place(i, c, channel, area);
        store(&y[at], (wide(x[at]) - m) * scale + beta[channel]);
    }
}

template <typename T>
__global__ static void batch_norm_input_grad(const T *gy, const T *x, const float *gamma,
                                             const float *mean, const float *invstd, T *gx, int n,
                                             int c, int64_t area)
{
    int channel = blockIdx.x;
    int64_t cells = n * area;
    float sum = 0, dot = 0;
    for (int64_t i = threadIdx.x; i < cells; i += blockDim.x) {
        int64_t at = place(i, c, channel, area);
        sum += wide(gy[at]);
        dot += wide(gy[at]) * (wide(x[at]) - mean[channel]);
    }
    sum = block_sum(sum) / (float)cells;
    dot = block_sum(dot) / (float)cells;
    float s = invstd[channel];
    for (int64_t i = threadIdx.x; i < cells; i += blockDim.x) {
        int64_t at = place(i, c, channel, area);
        float centred = wide(x[at]) - mean[channel];
        store(&gx[at], gamma[channel] * s * (wide(gy[at]) - sum - centred * s * s * dot));
    }
}

template <typename T>
__global__ static void batch_norm_weight_grad(const T *gy, const T *x, const float *mean,
                                              const float *invstd, float *ggamma, float *gbeta, int n,
                                              int c, int64_t area, int accumulate)
{
    int channel = blockIdx.x;
    int64_t cells = n * area;
    float sum = 0, dot = 0;
    for (int64_t i = threadIdx.x; i < cells; i += blockDim.x) {
        int64_t at = place(i, c, channel, area);
        sum += wide(gy[at]);
        dot += wide(gy[at]) * (wide(x[at]) - mean[channel]);
    }
    sum = block_sum(sum);
    dot = block_sum(dot) * invstd[channel];
    if (threadIdx.x == 0) {
        ggamma[channel] = accumulate ? ggamma[channel] + dot : dot;
        gbeta[channel] = accumulate ? gbeta[channel] + sum : sum;
    }
}

extern "C" void kernel_batch_norm(cudaStream_t s, enum kernel_type type, const void *x,
                                  const float *gamma, const float *beta, float *mean, float *var,
                                  int64_t *count, void *y, float *save_mean, float *save_invstd, int n,
                                  int c, int64_t area, float epsilon, float momentum, int training)
{
    WITH_TYPE(type, batch_norm<<<c, 512, 0, s>>>((const T *)x, gamma, beta, mean, var, count, (T *)y,
                                                 save_mean, save_invstd, n, c, area, epsilon, momentum,
                                                 training));
}

extern "C" void kernel_batch_norm_input_grad(cudaStream_t s, enum kernel_type type, const void *gy,
                                             const void *x, const float *gamma, const float *mean,
                                             const float *invstd, void *gx, int n, int c, int64_t area)
{
    WITH_TYPE(type, batch_norm_input_grad<<<c, 512, 0, s>>>((const T *)gy, (const T *)x, gamma, mean,
                                                            invstd, (T *)gx, n, c, area));
}

extern "C" void kernel_batch_norm_weight_grad(cudaStream_t s, enum kernel_type type, const void *gy,
                                              const void *x, const float *mean, const float *invstd,
                                              float *ggamma, float *gbeta, int n, int c, int64_t area,
                                              int accumulate)
{
    WITH_TYPE(type, batch_norm_weight_grad<<<c, 512, 0, s>>>((const T *)gy, (const T *)x, mean, invstd,
                                                             ggamma, gbeta, n, c, area, accumulate));
}
