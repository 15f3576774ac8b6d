#include "kernels/cuda/norm.cuh"

/* Where relu let gy through: everywhere, where y computed again is positive, where y is. */
enum mask { MASK_NONE, MASK_AGAIN, MASK_READ };

template <typename T, int V, mask kind> struct gradient_read {
    struct loaded {
        vector<T, V> gy, x, y;
    };
    const T *gy, *x, *y;
    float mean[V], scale[V], beta[V];

    __device__ loaded load(int64_t at) const
    {
        loaded l;
        l.gy = ::load<T, V>(gy, at);
        l.x = ::load<T, V>(x, at);
        if (kind == MASK_READ)
            l.y = ::load<T, V>(y, at);
        return l;
    }
    __device__ float masked(const loaded &l, int v) const
    {
        float g = wide(l.gy.at[v]);
        if (kind == MASK_NONE)
            return g;
        float value = kind == MASK_READ ? wide(l.y.at[v])
                                        : rounded<T>(normalized(wide(l.x.at[v]), mean[v], scale[v],
                                                                beta[v]));
        return value > 0 ? g : 0;
    }
};

/* What both passes read, and from where. */
template <typename T> struct gradient_input {
    const T *gy, *x, *y;
    const float *gamma, *beta, *mean, *invstd;
};

template <bool last, typename T, int V, mask kind>
static __device__ inline void prepare(gradient_read<T, V, kind> &read, const tiling &t,
                                      const share &m, const gradient_input<T> &in)
{
    read.gy = in.gy;
    read.x = in.x;
    read.y = in.y;
    for (int v = 0; v < V && m.works; v++) {
        int channel = channel_of<last, V>(t, m, v);
        read.mean[v] = in.mean[channel];
        if (kind != MASK_AGAIN)
            continue;
        read.scale[v] = scale_of(in.gamma[channel], in.invstd[channel]);
        read.beta[v] = in.beta[channel];
    }
}

template <typename T, int V, mask kind> struct sums_work : gradient_read<T, V, kind> {
    using loaded = typename gradient_read<T, V, kind>::loaded;
    T *kept; /* the masked gy, for the residual; or NULL */
    float sum[V], dot[V];

    __device__ void use(const loaded &l, int64_t at)
    {
        vector<T, V> out;
#pragma unroll
        for (int v = 0; v < V; v++) {
            float g = this->masked(l, v);
            sum[v] += g;
            dot[v] += g * (wide(l.x.at[v]) - this->mean[v]);
            store(&out.at[v], g);
        }
        if (kept)
            ::store<T, V>(kept, at, out);
    }
};

struct weight_gradients {
    float *gamma, *beta;
    int accumulate;
};

template <typename T, bool last, int V, mask kind>
__global__ static void __launch_bounds__(norm_threads)
    gradient_sums(gradient_input<T> in, T *kept, weight_gradients to, tiling t, scratch s)
{
    share m = share_of<last>(t);
    sums_work<T, V, kind> work = {};
    prepare<last>(work, t, m, in);
    work.kept = kept;
    walk<last, 2, false>(t, m, work);
    int channel;
    double sum, dot;
    if (!sum_all<last, V>(t, m, s, work.sum, work.dot, &channel, &sum, &dot))
        return;
    s.sums[channel] = (float)(sum / t.cells);
    s.sums[t.channels + channel] = (float)(dot / t.cells);
    if (!to.gamma)
        return;
    float ggamma = (float)(dot * in.invstd[channel]);
    to.gamma[channel] = to.accumulate ? to.gamma[channel] + ggamma : ggamma;
    to.beta[channel] = to.accumulate ? to.beta[channel] + (float)sum : (float)sum;
}

template <typename T, int V, mask kind> struct input_work : gradient_read<T, V, kind> {
    using loaded = typename gradient_read<T, V, kind>::loaded;
    T *gx;
    float factor[V], sum[V], dot[V];

    __device__ void use(const loaded &l, int64_t at)
    {
        vector<T, V> out;
#pragma unroll
        for (int v = 0; v < V; v++) {
            float centred = wide(l.x.at[v]) - this->mean[v];
            store(&out.at[v], factor[v] * (this->masked(l, v) - sum[v] - centred * dot[v]));
        }
        ::store<T, V>(gx, at, out);
    }
};

template <typename T, bool last, int V, mask kind>
__global__ static void __launch_bounds__(norm_threads)
    input_gradient(gradient_input<T> in, T *gx, tiling t, scratch s)
{
    share m = share_of<last>(t);
    input_work<T, V, kind> work = {};
    prepare<last>(work, t, m, in);
    work.gx = gx;
    for (int v = 0; v < V && m.works; v++) {
        int channel = channel_of<last, V>(t, m, v);
        float invstd = in.invstd[channel];
        work.factor[v] = scale_of(in.gamma[channel], invstd);
        work.sum[v] = s.sums[channel];
        work.dot[v] = s.sums[t.channels + channel] * invstd * invstd;
    }
    walk<last, 2, true>(t, m, work);
}

/* Runs the statement with `kind` as the mask. */
#define WITH_MASK(mask, ...)                                                                       \
    if (mask == MASK_NONE) {                                                                       \
        constexpr enum mask kind = MASK_NONE;                                                      \
        __VA_ARGS__;                                                                               \
    } else if (mask == MASK_AGAIN) {                                                               \
        constexpr enum mask kind = MASK_AGAIN;                                                     \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        constexpr enum mask kind = MASK_READ;                                                      \
        __VA_ARGS__;                                                                               \
    }

template <typename T, bool last, int V>
static void launch(cudaStream_t stream, gradient_input<T> in, T *kept, T *gx, weight_gradients to,
                   picture p, enum mask mask, norm_memory memory)
{
    tiling t = tiling_of(p, V);
    scratch s = scratch_of(memory, p.c);
    int blocks = t.groups * t.chunks;
    WITH_MASK(mask, gradient_sums<T, last, V, kind><<<blocks, norm_threads, 0, stream>>>(in, kept, to,
                                                                                         t, s));
    if (!gx)
        return;
    if (kept) { /* masked already */
        in.gy = kept;
        mask = MASK_NONE;
    }
    WITH_MASK(mask,
              input_gradient<T, last, V, kind><<<blocks, norm_threads, 0, stream>>>(in, gx, t, s));
}

extern "C" void kernel_batch_norm_grad(cudaStream_t s, enum kernel_type type, const void *gy,
                                       const void *x, const float *gamma, const float *beta,
                                       const float *save_mean, const float *save_invstd,
                                       const void *y, void *gx, float *ggamma, float *gbeta,
                                       void *residual_gradient, struct picture picture,
                                       struct norm_options options, int accumulate,
                                       struct norm_memory memory)
{
    weight_gradients to = {ggamma, gbeta, accumulate};
    enum mask mask = !options.relu ? MASK_NONE : y ? MASK_READ : MASK_AGAIN;
    bool aligned = is_aligned(gy) && is_aligned(x) && is_aligned(y) && is_aligned(gx) &&
                   is_aligned(residual_gradient);
    bool whole = takes_vectors(picture, type, aligned);
    WITH_TYPE(type,
              gradient_input<T> in = {(const T *)gy, (const T *)x, (const T *)y, gamma, beta,
                                      save_mean, save_invstd};
              WITH_LAYOUT(picture.channels_last,
                          WITH_VECTOR(whole, launch<T, last, V>(s, in, (T *)residual_gradient,
                                                                (T *)gx, to, picture, mask,
                                                                memory))));
}
