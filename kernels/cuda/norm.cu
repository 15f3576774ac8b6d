#include "kernels/cuda/norm.cuh"

/* Sums of x and its square, less a value near the mean so that fp32 does not cancel. */
template <typename T, int V> struct statistics_work {
    using loaded = vector<T, V>;
    const T *x;
    float shift[V], sum[V], squares[V];

    __device__ loaded load(int64_t at) const
    {
        return ::load<T, V>(x, at);
    }
    __device__ void use(const loaded &value, int64_t)
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            float d = wide(value.at[v]) - shift[v];
            sum[v] += d;
            squares[v] += d * d;
        }
    }
};

struct statistics {
    float *mean, *var, *save_mean, *save_invstd;
    int64_t *count;
};

/* The statistics of one channel from its sums about `shift`. */
static __device__ void finish(const statistics &to, int channel, double cells, double shift,
                              double sum, double squares, norm_options options)
{
    double mean = sum / cells;
    double var = squares / cells - mean * mean;
    var = var < 0 ? 0 : var;
    mean += shift;
    float momentum = options.momentum;
    to.save_mean[channel] = (float)mean;
    to.save_invstd[channel] = (float)(1 / sqrt(var + options.epsilon));
    to.mean[channel] = (1 - momentum) * to.mean[channel] + momentum * (float)mean;
    to.var[channel] =
        (1 - momentum) * to.var[channel] + momentum * (float)(var * (cells / (cells - 1)));
    if (channel == 0)
        *to.count += 1;
}

template <typename T, bool last, int V>
__global__ static void __launch_bounds__(norm_threads)
    batch_statistics(const T *x, statistics to, tiling t, norm_options options, scratch s)
{
    share m = share_of<last>(t);
    int64_t stride = last ? 1 : (int64_t)t.vectors * V; /* of channels in the first image */
    statistics_work<T, V> work = {x};
    for (int v = 0; v < V; v++)
        work.shift[v] = m.works ? wide(x[channel_of<last, V>(t, m, v) * stride]) : 0;
    walk<last, 4, false>(t, m, work);
    int channel;
    double sum, squares;
    if (sum_all<last, V>(t, m, s, work.sum, work.squares, &channel, &sum, &squares))
        finish(to, channel, t.cells, wide(x[channel * stride]), sum, squares, options);
}

template <typename T, int V, bool adds> struct normalize_work {
    struct loaded {
        vector<T, V> x, residual;
    };
    const T *x, *residual;
    T *y;
    bool relu;
    float mean[V], scale[V], beta[V];

    __device__ loaded load(int64_t at) const
    {
        loaded l;
        l.x = ::load<T, V>(x, at);
        if (adds)
            l.residual = ::load<T, V>(residual, at);
        return l;
    }
    __device__ void use(const loaded &l, int64_t at)
    {
        vector<T, V> out;
#pragma unroll
        for (int v = 0; v < V; v++) {
            float value = normalized(wide(l.x.at[v]), mean[v], scale[v], beta[v]);
            if (adds)
                value += wide(l.residual.at[v]);
            store(&out.at[v], !relu || value > 0 ? value : 0);
        }
        ::store<T, V>(y, at, out);
    }
};

template <typename T, bool last, int V, bool adds>
__global__ static void __launch_bounds__(norm_threads)
    normalize(const T *x, const float *gamma, const float *beta, statistics from, const T *residual,
              T *y, tiling t, norm_options options)
{
    share m = share_of<last>(t);
    normalize_work<T, V, adds> work = {x, residual, y, options.relu != 0};
    for (int v = 0; v < V && m.works; v++) {
        int channel = channel_of<last, V>(t, m, v);
        float invstd = options.training ? from.save_invstd[channel]
                                        : 1 / sqrtf(from.var[channel] + options.epsilon);
        work.mean[v] = options.training ? from.save_mean[channel] : from.mean[channel];
        work.scale[v] = scale_of(gamma[channel], invstd);
        work.beta[v] = beta[channel];
    }
    walk<last, 4, true>(t, m, work);
}

template <typename T, bool last, int V>
static void launch(cudaStream_t s, const T *x, const float *gamma, const float *beta,
                   statistics stats, const T *residual, T *y, picture p, norm_options options,
                   norm_memory memory)
{
    tiling t = tiling_of(p, V);
    int blocks = t.groups * t.chunks;
    if (options.training)
        batch_statistics<T, last, V>
            <<<blocks, norm_threads, 0, s>>>(x, stats, t, options, scratch_of(memory, p.c));
    if (residual)
        normalize<T, last, V, true><<<blocks, norm_threads, 0, s>>>(x, gamma, beta, stats, residual,
                                                                    y, t, options);
    else
        normalize<T, last, V, false><<<blocks, norm_threads, 0, s>>>(x, gamma, beta, stats,
                                                                     residual, y, t, options);
}

extern "C" void kernel_batch_norm(cudaStream_t s, enum kernel_type type, const void *x,
                                  const float *gamma, const float *beta, float *mean, float *var,
                                  int64_t *count, const void *residual, void *y, float *save_mean,
                                  float *save_invstd, struct picture picture,
                                  struct norm_options options, struct norm_memory memory)
{
    statistics stats = {mean, var, save_mean, save_invstd, count};
    bool whole = takes_vectors(picture, type,
                               is_aligned(x) && is_aligned(y) && is_aligned(residual));
    WITH_TYPE(type, WITH_LAYOUT(picture.channels_last,
                                WITH_VECTOR(whole, launch<T, last, V>(
                                                       s, (const T *)x, gamma, beta, stats,
                                                       (const T *)residual, (T *)y, picture,
                                                       options, memory))));
}
