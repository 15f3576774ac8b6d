#include "kernels/cuda/launch.cuh"

enum { LEARNING_RATE = 0, MULTIPLIER = 2, SKIP = 3 }; /* op.h: CONTROL_*, SCALER_* */

static __device__ float sgd(float p, float g, float *m, float rate, int64_t step,
                            const optimizer_options &o)
{
    g += o.weight_decay * p;
    if (o.momentum != 0) {
        float buffer = step == 1 ? g : o.momentum * *m + (1 - o.dampening) * g;
        *m = buffer;
        g = o.nesterov ? g + o.momentum * buffer : buffer;
    }
    return p - rate * g;
}

static __device__ float adam(float p, float g, float *m, float *v, float rate, float scale_m,
                             float scale_v, const optimizer_options &o)
{
    if (o.kind == 2)
        p *= 1 - rate * o.weight_decay;
    else
        g += o.weight_decay * p;
    *m += (float)(1 - o.beta1) * (g - *m);
    *v = (float)o.beta2 * *v + (float)(1 - o.beta2) * g * g;
    return p - rate / scale_m * *m / (sqrtf(*v) / scale_v + o.epsilon);
}

/* One block a row. The last one to end counts the step, which all others have read by then. */
__global__ static void update(const optimizer_table *table, unsigned *ended, const float *control,
                              int64_t *count, const float *scaler, optimizer_options o)
{
    if (scaler && scaler[SKIP] != 0)
        return;
    float multiplier = scaler ? scaler[MULTIPLIER] : 1;
    optimizer_table t = table[blockIdx.x];
    int64_t step = *count + 1;
    float rate = control[LEARNING_RATE];
    if (o.kind == 0) {
#pragma unroll 4
        for (int i = threadIdx.x; i < (int)t.n; i += threads_per_block)
            t.p[i] = sgd(t.p[i], t.g[i] * multiplier, t.m ? &t.m[i] : nullptr, rate, step, o);
    } else {
        float scale_m = (float)(1 - pow(o.beta1, (double)step));
        float scale_v = (float)sqrt(1 - pow(o.beta2, (double)step));
#pragma unroll 4
        for (int i = threadIdx.x; i < (int)t.n; i += threads_per_block)
            t.p[i] = adam(t.p[i], t.g[i] * multiplier, &t.m[i], &t.v[i], rate, scale_m, scale_v, o);
    }
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    __threadfence();
    if (atomicAdd(ended, 1u) == gridDim.x - 1) {
        *ended = 0;
        *count = step;
    }
}

extern "C" void kernel_optimizer(cudaStream_t s, const struct optimizer_table *device_table, int rows,
                                 const float *control, int64_t *count, const float *scaler,
                                 struct optimizer_options options)
{
    update<<<rows + 1, threads_per_block, 0, s>>>(
        device_table, (unsigned *)(device_table + rows + 1), control, count, scaler, options);
}
