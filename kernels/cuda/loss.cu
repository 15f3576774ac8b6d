#include "kernels/cuda/launch.cuh"

enum { LOSS_SLOT = 1, SCALE = 0, IGNORED = -100 }; /* op.h: CONTROL_*, SCALER_*; torch's ignore_index */

static __device__ void store_loss(float *losses, const float *control, float value, int accumulate)
{
    float *slot = &losses[(int)control[LOSS_SLOT]];
    *slot = accumulate ? *slot + value : value;
}

/* One block: losses are small beside everything else, and the order of the sum stays the same. */
template <typename T>
__global__ static void mse(const T *x, const T *t, const float *control, float *losses, int64_t n,
                           float scale, int accumulate)
{
    float sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        sum += (wide(x[i]) - wide(t[i])) * (wide(x[i]) - wide(t[i]));
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        store_loss(losses, control, sum * scale, accumulate);
}

template <typename T>
__global__ static void mse_grad(const T *x, const T *t, const float *scaler, T *gx, int64_t n,
                                float scale)
{
    scale *= scaler ? scaler[SCALE] : 1;
    FOR_EACH(i, n)
        store(&gx[i], 2 * (wide(x[i]) - wide(t[i])) * scale);
}

static __device__ float counted(const int64_t *t, int rows)
{
    float count = 0;
    for (int r = threadIdx.x; r < rows; r += blockDim.x)
        count += t[r] != IGNORED;
    return block_sum(count);
}

template <typename T>
__global__ static void cross_entropy(const T *x, const int64_t *t, const float *control,
                                     float *losses, int rows, int classes, float weight, int sum_all,
                                     int accumulate)
{
    float count = counted(t, rows);
    float sum = 0;
    for (int r = threadIdx.x; r < rows; r += blockDim.x) {
        if (t[r] == IGNORED)
            continue;
        const T *row = x + (int64_t)r * classes;
        float most = wide(row[0]), total = 0;
        for (int k = 1; k < classes; k++)
            most = fmaxf(most, wide(row[k]));
        for (int k = 0; k < classes; k++)
            total += expf(wide(row[k]) - most);
        sum += logf(total) + most - wide(row[t[r]]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        store_loss(losses, control, weight * (sum_all ? sum : sum / count), accumulate);
}

/* One block a row. */
template <typename T>
__global__ static void cross_entropy_grad(const T *x, const int64_t *t, const float *scaler, T *gx,
                                          int rows, int classes, float weight, int sum_all)
{
    __shared__ float most;
    float scale = weight / (sum_all ? 1.0f : counted(t, rows)) * (scaler ? scaler[SCALE] : 1);
    int r = blockIdx.x;
    const T *row = x + (int64_t)r * classes;
    if (threadIdx.x == 0) {
        most = wide(row[0]);
        for (int k = 1; k < classes; k++)
            most = fmaxf(most, wide(row[k]));
    }
    __syncthreads();
    float total = 0;
    for (int k = threadIdx.x; k < classes; k += blockDim.x)
        total += expf(wide(row[k]) - most);
    total = block_sum(total);
    for (int k = threadIdx.x; k < classes; k += blockDim.x) {
        float p = expf(wide(row[k]) - most) / total - (k == t[r] ? 1.0f : 0.0f);
        store(&gx[(int64_t)r * classes + k], t[r] == IGNORED ? 0 : p * scale);
    }
}

extern "C" void kernel_mse(cudaStream_t s, enum kernel_type type, const void *x, const void *t,
                           const float *control, float *losses, int64_t n, float scale, int accumulate)
{
    WITH_TYPE(type, mse<<<1, 1024, 0, s>>>((const T *)x, (const T *)t, control, losses, n, scale,
                                           accumulate));
}

extern "C" void kernel_mse_grad(cudaStream_t s, enum kernel_type type, const void *x, const void *t,
                                const float *scaler, void *gx, int64_t n, float scale)
{
    WITH_TYPE(type, mse_grad<<<blocks_for(n), threads_per_block, 0, s>>>((const T *)x, (const T *)t,
                                                                         scaler, (T *)gx, n, scale));
}

extern "C" void kernel_cross_entropy(cudaStream_t s, enum kernel_type type, const void *x,
                                     const int64_t *t, const float *control, float *losses, int rows,
                                     int classes, float weight, int sum, int accumulate)
{
    WITH_TYPE(type, cross_entropy<<<1, 1024, 0, s>>>((const T *)x, t, control, losses, rows, classes,
                                                     weight, sum, accumulate));
}

extern "C" void kernel_cross_entropy_grad(cudaStream_t s, enum kernel_type type, const void *x,
                                          const int64_t *t, const float *scaler, void *gx, int rows,
                                          int classes, float weight, int sum)
{
    WITH_TYPE(type, cross_entropy_grad<<<rows, 128, 0, s>>>((const T *)x, t, scaler, (T *)gx, rows,
                                                            classes, weight, sum));
}
