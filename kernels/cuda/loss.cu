#include "kernels/cuda/launch.cuh"
#include "op/sum_cut.h"

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

/* The sum over all blocks, in the block that ends last, whose other threads get it too; the counter
 * is 0 again afterwards. Always in the same order. */
static __device__ bool total_sum(float mine, const loss_store &to, float *total)
{
    __shared__ bool last;
    mine = block_sum(mine);
    if (gridDim.x == 1) {
        *total = mine;
        return true;
    }
    if (threadIdx.x == 0) {
        to.sums[blockIdx.x] = mine;
        __threadfence();
        last = atomicAdd(to.counter, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return false;
    float sum = 0;
    for (int i = threadIdx.x; i < (int)gridDim.x; i += blockDim.x)
        sum += __ldcg(&to.sums[i]);
    *total = block_sum(sum);
    if (threadIdx.x == 0)
        *to.counter = 0;
    return true;
}

template <typename T>
__global__ static void mse_grad(const T *x, const T *t, const float *scaler, T *gx, int64_t n,
                                float scale, loss_store to)
{
    float times = 2 * scale * (scaler ? scaler[SCALE] : 1), sum = 0, total;
    FOR_EACH(i, n) {
        float difference = wide(x[i]) - wide(t[i]);
        store(&gx[i], difference * times);
        sum += difference * difference;
    }
    if (to.losses && total_sum(sum, to, &total) && threadIdx.x == 0)
        store_loss(to.losses, to.control, total * scale, to.accumulate);
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

static __device__ float warp_max(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    return value;
}

static __device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

/* One warp a row. */
template <typename T>
__global__ static void cross_entropy_grad(const T *x, const int64_t *t, const float *scaler, T *gx,
                                          int rows, int classes, float weight, int sum_all,
                                          loss_store to)
{
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float count = sum_all ? 1.0f : counted(t, rows);
    float scale = weight / count, times = scale * (scaler ? scaler[SCALE] : 1), sum = 0, loss;
    for (int r = blockIdx.x * warps + threadIdx.x / 32; r < rows; r += gridDim.x * warps) {
        const T *row = x + (int64_t)r * classes;
        T *gradient = gx + (int64_t)r * classes;
        bool ignored = t[r] == IGNORED;
        float most = -INFINITY, total = 0;
        for (int k = lane; k < classes; k += 32)
            most = fmaxf(most, wide(row[k]));
        most = warp_max(most);
        for (int k = lane; k < classes; k += 32)
            total += expf(wide(row[k]) - most);
        total = warp_sum(total);
        if (lane == 0 && !ignored)
            sum += logf(total) + most - wide(row[t[r]]);
        for (int k = lane; k < classes; k += 32) {
            float p = expf(wide(row[k]) - most) / total - (k == t[r] ? 1.0f : 0.0f);
            store(&gradient[k], ignored ? 0 : p * times);
        }
    }
    if (to.losses && total_sum(sum, to, &loss) && threadIdx.x == 0)
        store_loss(to.losses, to.control, loss * scale, to.accumulate);
}

extern "C" void kernel_mse(cudaStream_t s, enum kernel_type type, const void *x, const void *t,
                           const float *control, float *losses, int64_t n, float scale, int accumulate)
{
    WITH_TYPE(type, mse<<<1, 1024, 0, s>>>((const T *)x, (const T *)t, control, losses, n, scale,
                                           accumulate));
}

static_assert(threads_per_block == LOSS_BLOCK_ELEMENTS, "the plan counts blocks by it");
static_assert(threads_per_block / 32 == LOSS_BLOCK_SAMPLES, "the plan counts blocks by it");

extern "C" void kernel_mse_grad(cudaStream_t s, enum kernel_type type, const void *x, const void *t,
                                const float *scaler, void *gx, int64_t n, float scale,
                                struct loss_store to)
{
    int blocks = loss_blocks(n, LOSS_BLOCK_ELEMENTS);
    WITH_TYPE(type, mse_grad<<<blocks, threads_per_block, 0, s>>>((const T *)x, (const T *)t, scaler,
                                                                  (T *)gx, n, scale, to));
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
                                          int classes, float weight, int sum, struct loss_store to)
{
    int blocks = loss_blocks(rows, LOSS_BLOCK_SAMPLES);
    WITH_TYPE(type, cross_entropy_grad<<<blocks, threads_per_block, 0, s>>>(
                        (const T *)x, t, scaler, (T *)gx, rows, classes, weight, sum, to));
}
