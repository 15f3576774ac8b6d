#include "kernels/cuda/vector.cuh"

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

template <int V>
static __device__ void sgd_row(const optimizer_table &t, float rate, float multiplier,
                               int64_t step, const optimizer_options &o)
{
    bool momentum = o.momentum != 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < (int)t.n / V; i += threads_per_block) {
        vector<float, V> p = load<float, V>(t.p, i), g = load<float, V>(t.g, i), m = p;
        if (momentum)
            m = load<float, V>(t.m, i);
        for (int k = 0; k < V; k++)
            p.at[k] = sgd(p.at[k], g.at[k] * multiplier, &m.at[k], rate, step, o);
        store<float, V>(t.p, i, p);
        if (momentum)
            store<float, V>(t.m, i, m);
    }
}

template <int V>
static __device__ void adam_row(const optimizer_table &t, float rate, float multiplier,
                                float scale_m, float scale_v, const optimizer_options &o)
{
#pragma unroll 2
    for (int i = threadIdx.x; i < (int)t.n / V; i += threads_per_block) {
        vector<float, V> p = load<float, V>(t.p, i), g = load<float, V>(t.g, i);
        vector<float, V> m = load<float, V>(t.m, i), v = load<float, V>(t.v, i);
        for (int k = 0; k < V; k++)
            p.at[k] = adam(p.at[k], g.at[k] * multiplier, &m.at[k], &v.at[k], rate, scale_m,
                           scale_v, o);
        store<float, V>(t.p, i, p);
        store<float, V>(t.m, i, m);
        store<float, V>(t.v, i, v);
    }
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
    uintptr_t all = (uintptr_t)t.p | (uintptr_t)t.g | (uintptr_t)t.m | (uintptr_t)t.v;
    bool whole = all % 16 == 0 && t.n % 4 == 0;
    if (o.kind == 0) {
        if (whole)
            sgd_row<4>(t, rate, multiplier, step, o);
        else
            sgd_row<1>(t, rate, multiplier, step, o);
    } else {
        float scale_m = (float)(1 - pow(o.beta1, (double)step));
        float scale_v = (float)sqrt(1 - pow(o.beta2, (double)step));
        if (whole)
            adam_row<4>(t, rate, multiplier, scale_m, scale_v, o);
        else
            adam_row<1>(t, rate, multiplier, scale_m, scale_v, o);
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
