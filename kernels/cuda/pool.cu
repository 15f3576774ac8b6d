#include "kernels/cuda/launch.cuh"

struct range {
    int from, to;
};

/* Input rows of output row `o`, cut to the picture. */
static __device__ range rows_of(int o, int size, int kernel, int stride, int padding)
{
    int from = o * stride - padding;
    int to = from + kernel;
    return {from < 0 ? 0 : from, to > size ? size : to};
}

static __device__ range adaptive_rows(int o, int outputs, int size)
{
    return {o * size / outputs, ((o + 1) * size + outputs - 1) / outputs};
}

template <typename T>
__global__ static void max_pool(const T *x, T *y, int64_t planes, int h, int w, int oh, int ow,
                                struct window k)
{
    FOR_EACH(i, planes * oh * ow) {
        int64_t plane = i / (oh * ow);
        int p = (int)(i / ow % oh), q = (int)(i % ow);
        range r = rows_of(p, h, k.kernel_h, k.stride_h, k.padding_h);
        range c = rows_of(q, w, k.kernel_w, k.stride_w, k.padding_w);
        float best = -INFINITY;
        for (int a = r.from; a < r.to; a++)
            for (int b = c.from; b < c.to; b++) {
                float value = wide(x[(plane * h + a) * w + b]);
                if (value > best || isnan(value))
                    best = value;
            }
        store(&y[i], best);
    }
}

/* Each input gathers from the windows whose first maximum it is: no atomics, so always the same sum. */
template <typename T>
__global__ static void max_pool_grad(const T *gy, const T *x, const T *y, T *gx,
                                     int64_t planes, int h, int w, int oh, int ow, struct window k)
{
    FOR_EACH(i, planes * h * w) {
        int64_t plane = i / (h * w);
        int a = (int)(i / w % h), b = (int)(i % w);
        const T *px = x + plane * h * w;
        float sum = 0;
        int p_first = (a + k.padding_h - k.kernel_h + k.stride_h) / k.stride_h;
        int q_first = (b + k.padding_w - k.kernel_w + k.stride_w) / k.stride_w;
        for (int p = p_first < 0 ? 0 : p_first; p < oh && p * k.stride_h - k.padding_h <= a; p++)
            for (int q = q_first < 0 ? 0 : q_first; q < ow && q * k.stride_w - k.padding_w <= b; q++) {
                int64_t o = (plane * oh + p) * ow + q;
                if (wide(px[a * w + b]) != wide(y[o]))
                    continue;
                range r = rows_of(p, h, k.kernel_h, k.stride_h, k.padding_h);
                range c = rows_of(q, w, k.kernel_w, k.stride_w, k.padding_w);
                bool first = true;
                for (int u = r.from; u <= a && first; u++)
                    for (int v = c.from; v < c.to && first; v++) {
                        if (u == a && v >= b)
                            break;
                        first = wide(px[u * w + v]) != wide(y[o]);
                    }
                if (first)
                    sum += wide(gy[o]);
            }
        store(&gx[i], sum);
    }
}

template <typename T>
__global__ static void avg_pool(const T *x, T *y, int64_t planes, int h, int w, int oh, int ow,
                                struct window k, int adaptive)
{
    FOR_EACH(i, planes * oh * ow) {
        int64_t plane = i / (oh * ow);
        int p = (int)(i / ow % oh), q = (int)(i % ow);
        range r = adaptive ? adaptive_rows(p, oh, h)
                           : rows_of(p, h, k.kernel_h, k.stride_h, k.padding_h);
        range c = adaptive ? adaptive_rows(q, ow, w)
                           : rows_of(q, w, k.kernel_w, k.stride_w, k.padding_w);
        float sum = 0;
        for (int a = r.from; a < r.to; a++)
            for (int b = c.from; b < c.to; b++)
                sum += wide(x[(plane * h + a) * w + b]);
        int cells = adaptive ? (r.to - r.from) * (c.to - c.from) : k.kernel_h * k.kernel_w;
        store(&y[i], sum / (float)cells);
    }
}

template <typename T>
__global__ static void avg_pool_grad(const T *gy, T *gx, int64_t planes, int h, int w, int oh,
                                     int ow, struct window k, int adaptive)
{
    FOR_EACH(i, planes * h * w) {
        int64_t plane = i / (h * w);
        int a = (int)(i / w % h), b = (int)(i % w);
        float sum = 0;
        for (int p = 0; p < oh; p++) {
            range r = adaptive ? adaptive_rows(p, oh, h)
                               : rows_of(p, h, k.kernel_h, k.stride_h, k.padding_h);
            if (a < r.from || a >= r.to)
                continue;
            for (int q = 0; q < ow; q++) {
                range c = adaptive ? adaptive_rows(q, ow, w)
                                   : rows_of(q, w, k.kernel_w, k.stride_w, k.padding_w);
                if (b < c.from || b >= c.to)
                    continue;
                int cells = adaptive ? (r.to - r.from) * (c.to - c.from) : k.kernel_h * k.kernel_w;
                sum += wide(gy[(plane * oh + p) * ow + q]) / (float)cells;
            }
        }
        store(&gx[i], sum);
    }
}

extern "C" void kernel_max_pool(cudaStream_t s, enum kernel_type type, const void *x, void *y,
                                int64_t planes, int h, int w, int oh, int ow, struct window k)
{
    WITH_TYPE(type, max_pool<<<blocks_for(planes * oh * ow), threads_per_block, 0, s>>>(
                        (const T *)x, (T *)y, planes, h, w, oh, ow, k));
}

extern "C" void kernel_max_pool_grad(cudaStream_t s, enum kernel_type type, const void *gy,
                                     const void *x, const void *y, void *gx, int64_t planes, int h,
                                     int w, int oh, int ow, struct window k)
{
    WITH_TYPE(type, max_pool_grad<<<blocks_for(planes * h * w), threads_per_block, 0, s>>>(
                        (const T *)gy, (const T *)x, (const T *)y, (T *)gx, planes, h, w, oh, ow, k));
}

extern "C" void kernel_avg_pool(cudaStream_t s, enum kernel_type type, const void *x, void *y,
                                int64_t planes, int h, int w, int oh, int ow, struct window k,
                                int adaptive)
{
    WITH_TYPE(type, avg_pool<<<blocks_for(planes * oh * ow), threads_per_block, 0, s>>>(
                        (const T *)x, (T *)y, planes, h, w, oh, ow, k, adaptive));
}

extern "C" void kernel_avg_pool_grad(cudaStream_t s, enum kernel_type type, const void *gy, void *gx,
                                     int64_t planes, int h, int w, int oh, int ow, struct window k,
                                     int adaptive)
{
    WITH_TYPE(type, avg_pool_grad<<<blocks_for(planes * h * w), threads_per_block, 0, s>>>(
                        (const T *)gy, (T *)gx, planes, h, w, oh, ow, k, adaptive));
}
