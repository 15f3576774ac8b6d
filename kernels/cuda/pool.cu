#include "kernels/cuda/vector.cuh"

/* Planes of h by w pixels, each of `vectors` vectors: channels first are planes of one value. */
struct planes {
    int64_t count;
    int h, w, oh, ow, vectors;
};

struct range {
    int from, to;
};

/* Where a thread's vector is: its plane, row, column, and place in the pixel. */
struct spot {
    int64_t plane;
    int a, b, vector;
};

static __device__ spot spot_of(int64_t i, int rows, int columns, int vectors)
{
    spot s;
    i = divide(i, vectors, &s.vector);
    i = divide(i, columns, &s.b);
    s.plane = divide(i, rows, &s.a);
    return s;
}

static __device__ int64_t input_at(const planes &p, const spot &s, int a, int b)
{
    return ((s.plane * p.h + a) * p.w + b) * p.vectors + s.vector;
}

static __device__ int64_t output_at(const planes &p, const spot &s, int a, int b)
{
    return ((s.plane * p.oh + a) * p.ow + b) * p.vectors + s.vector;
}

/* Input rows of output row `o`, cut to the picture. */
static __device__ range rows_of(int o, int size, int kernel, int stride, int padding)
{
    int from = o * stride - padding;
    int to = from + kernel;
    return {from < 0 ? 0 : from, to > size ? size : to};
}

static __device__ range adaptive_rows(int o, int outputs, int size)
{
    return {(int)((int64_t)o * size / outputs),
            (int)(((int64_t)(o + 1) * size + outputs - 1) / outputs)};
}

/* Output rows whose windows have input row `a`. */
static __device__ range outputs_of(int a, int outputs, int kernel, int stride, int padding)
{
    int from = (a + padding - kernel + stride) / stride;
    int to = (a + padding) / stride + 1;
    return {a + padding < kernel ? 0 : from, to > outputs ? outputs : to};
}

static __device__ range adaptive_outputs(int a, int outputs, int size)
{
    return {(int)((int64_t)a * outputs / size),
            (int)(((int64_t)(a + 1) * outputs + size - 1) / size)};
}

template <typename T, int V>
__global__ static void max_pool(const T *x, T *y, planes p, window k)
{
    FOR_EACH(i, p.count * p.oh * p.ow * p.vectors) {
        spot s = spot_of(i, p.oh, p.ow, p.vectors);
        range r = rows_of(s.a, p.h, k.kernel_h, k.stride_h, k.padding_h);
        range c = rows_of(s.b, p.w, k.kernel_w, k.stride_w, k.padding_w);
        vector<T, V> best;
        for (int v = 0; v < V; v++)
            store(&best.at[v], -INFINITY);
        for (int a = r.from; a < r.to; a++)
#pragma unroll 3
            for (int b = c.from; b < c.to; b++) {
                vector<T, V> value = load<T, V>(x, input_at(p, s, a, b));
#pragma unroll
                for (int v = 0; v < V; v++)
                    if (wide(value.at[v]) > wide(best.at[v]) || isnan(wide(value.at[v])))
                        best.at[v] = value.at[v];
            }
        store<T, V>(y, i, best);
    }
}

/* Bit v: element v is its window's maximum. */
template <typename T, int V>
static __device__ unsigned maxima(const vector<T, V> &x, const vector<T, V> &y)
{
    unsigned found = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        float value = wide(x.at[v]), best = wide(y.at[v]);
        if (value == best || (isnan(value) && isnan(best)))
            found |= 1u << v;
    }
    return found;
}

/* Each input gathers from the windows whose first maximum it is: no atomics, so always the same sum. */
template <typename T, int V>
__global__ static void max_pool_grad(const T *gy, const T *x, const T *y, T *gx, planes p, window k)
{
    FOR_EACH(i, p.count * p.h * p.w * p.vectors) {
        spot s = spot_of(i, p.h, p.w, p.vectors);
        vector<T, V> mine = load<T, V>(x, i);
        float sum[V] = {};
        range r = outputs_of(s.a, p.oh, k.kernel_h, k.stride_h, k.padding_h);
        range c = outputs_of(s.b, p.ow, k.kernel_w, k.stride_w, k.padding_w);
        for (int a = r.from; a < r.to; a++)
            for (int b = c.from; b < c.to; b++) {
                int64_t o = output_at(p, s, a, b);
                vector<T, V> best = load<T, V>(y, o);
                unsigned first = maxima<T, V>(mine, best);
                int left = b * k.stride_w - k.padding_w;
                range rows = rows_of(a, p.h, k.kernel_h, k.stride_h, k.padding_h);
                int right = left + k.kernel_w < p.w ? left + k.kernel_w : p.w;
                for (int u = rows.from; u <= s.a && first; u++)
                    for (int w = left < 0 ? 0 : left; w < (u < s.a ? right : s.b) && first; w++)
                        first &= ~maxima<T, V>(load<T, V>(x, input_at(p, s, u, w)), best);
                if (!first)
                    continue;
                vector<T, V> g = load<T, V>(gy, o);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += first >> v & 1 ? wide(g.at[v]) : 0;
            }
        vector<T, V> out;
        for (int v = 0; v < V; v++)
            store(&out.at[v], sum[v]);
        store<T, V>(gx, i, out);
    }
}

static __device__ int cells_of(const window &k, range r, range c, int adaptive)
{
    return adaptive ? (r.to - r.from) * (c.to - c.from) : k.kernel_h * k.kernel_w;
}

/* A block has 32 vectors and blockDim.y shares of each window, which it adds up in order. */
template <typename T, int V>
__global__ static void avg_pool(const T *x, T *y, planes p, window k, int adaptive)
{
    __shared__ float room[8][V][32];
    int64_t total = p.count * p.oh * p.ow * p.vectors;
    for (int64_t first = blockIdx.x * 32ll; first < total; first += gridDim.x * 32ll) {
        int64_t i = first + threadIdx.x;
        spot s = spot_of(i < total ? i : total - 1, p.oh, p.ow, p.vectors);
        range r = adaptive ? adaptive_rows(s.a, p.oh, p.h)
                           : rows_of(s.a, p.h, k.kernel_h, k.stride_h, k.padding_h);
        range c = adaptive ? adaptive_rows(s.b, p.ow, p.w)
                           : rows_of(s.b, p.w, k.kernel_w, k.stride_w, k.padding_w);
        float sum[V] = {};
        int width = c.to - c.from;
#pragma unroll 4
        for (int cell = threadIdx.y; cell < width * (r.to - r.from); cell += blockDim.y) {
            vector<T, V> value =
                load<T, V>(x, input_at(p, s, r.from + cell / width, c.from + cell % width));
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[v] += wide(value.at[v]);
        }
        for (int v = 0; v < V; v++)
            room[threadIdx.y][v][threadIdx.x] = sum[v];
        __syncthreads();
        if (threadIdx.y == 0 && i < total) {
            vector<T, V> out;
            for (int v = 0; v < V; v++) {
                for (int part = 1; part < (int)blockDim.y; part++)
                    sum[v] += room[part][v][threadIdx.x];
                store(&out.at[v], sum[v] / (float)cells_of(k, r, c, adaptive));
            }
            store<T, V>(y, i, out);
        }
        __syncthreads();
    }
}

template <typename T, int V>
__global__ static void avg_pool_grad(const T *gy, T *gx, planes p, window k, int adaptive)
{
    FOR_EACH(i, p.count * p.h * p.w * p.vectors) {
        spot s = spot_of(i, p.h, p.w, p.vectors);
        range r = adaptive ? adaptive_outputs(s.a, p.oh, p.h)
                           : outputs_of(s.a, p.oh, k.kernel_h, k.stride_h, k.padding_h);
        range c = adaptive ? adaptive_outputs(s.b, p.ow, p.w)
                           : outputs_of(s.b, p.ow, k.kernel_w, k.stride_w, k.padding_w);
        float sum[V] = {};
        for (int a = r.from; a < r.to; a++)
            for (int b = c.from; b < c.to; b++) {
                vector<T, V> g = load<T, V>(gy, output_at(p, s, a, b));
                int cells = cells_of(k, adaptive_rows(a, p.oh, p.h), adaptive_rows(b, p.ow, p.w),
                                     adaptive);
#pragma unroll
                for (int v = 0; v < V; v++)
                    sum[v] += wide(g.at[v]) / (float)cells;
            }
        vector<T, V> out;
        for (int v = 0; v < V; v++)
            store(&out.at[v], sum[v]);
        store<T, V>(gx, i, out);
    }
}

static planes planes_of(picture x, int oh, int ow, int vector)
{
    return {x.channels_last ? x.n : (int64_t)x.n * x.c, x.h, x.w, oh, ow,
            x.channels_last ? x.c / vector : 1};
}

static bool takes_vectors(picture x, enum kernel_type type, bool aligned)
{
    return x.channels_last && aligned && x.c % (type == KERNEL_F32 ? 4 : 8) == 0;
}

static int blocks_of_inputs(const planes &p)
{
    return blocks_for(p.count * p.h * p.w * p.vectors);
}

static int blocks_of_outputs(const planes &p)
{
    return blocks_for(p.count * p.oh * p.ow * p.vectors);
}

extern "C" void kernel_max_pool(cudaStream_t s, enum kernel_type type, const void *x, void *y,
                                struct picture picture, int oh, int ow, struct window k)
{
    bool whole = takes_vectors(picture, type, is_aligned(x) && is_aligned(y));
    WITH_TYPE(type, WITH_VECTOR(whole, planes p = planes_of(picture, oh, ow, V);
                                max_pool<T, V><<<blocks_of_outputs(p), threads_per_block, 0, s>>>(
                                    (const T *)x, (T *)y, p, k)));
}

extern "C" void kernel_max_pool_grad(cudaStream_t s, enum kernel_type type, const void *gy,
                                     const void *x, const void *y, void *gx, struct picture picture,
                                     int oh, int ow, struct window k)
{
    bool whole = takes_vectors(picture, type,
                               is_aligned(gy) && is_aligned(x) && is_aligned(y) && is_aligned(gx));
    WITH_TYPE(type,
              WITH_VECTOR(whole, planes p = planes_of(picture, oh, ow, V);
                          max_pool_grad<T, V><<<blocks_of_inputs(p), threads_per_block, 0, s>>>(
                              (const T *)gy, (const T *)x, (const T *)y, (T *)gx, p, k)));
}

extern "C" void kernel_avg_pool(cudaStream_t s, enum kernel_type type, const void *x, void *y,
                                struct picture picture, int oh, int ow, struct window k,
                                int adaptive)
{
    bool whole = takes_vectors(picture, type, is_aligned(x) && is_aligned(y));
    WITH_TYPE(type, WITH_VECTOR(whole, planes p = planes_of(picture, oh, ow, V);
                                int64_t total = p.count * oh * ow * p.vectors;
                                avg_pool<T, V><<<blocks_for(total * 8), dim3(32, 8), 0, s>>>(
                                    (const T *)x, (T *)y, p, k, adaptive)));
}

extern "C" void kernel_avg_pool_grad(cudaStream_t s, enum kernel_type type, const void *gy, void *gx,
                                     struct picture picture, int oh, int ow, struct window k,
                                     int adaptive)
{
    bool whole = takes_vectors(picture, type, is_aligned(gy) && is_aligned(gx));
    WITH_TYPE(type,
              WITH_VECTOR(whole, planes p = planes_of(picture, oh, ow, V);
                          avg_pool_grad<T, V><<<blocks_of_inputs(p), threads_per_block, 0, s>>>(
                              (const T *)gy, (T *)gx, p, k, adaptive)));
}
