/* How the passes of batch normalisation go over a tensor, cut as op/norm_cut.h says. Both passes cut
 * alike, and the second walks each chunk from its end, which is what the first left in the L2 cache. */
#ifndef REHEARSE_KERNELS_CUDA_NORM_CUH
#define REHEARSE_KERNELS_CUDA_NORM_CUH

#include "kernels/cuda/vector.cuh"
#include "op/norm_cut.h"

static const int norm_threads = NORM_AT_A_TIME;

typedef norm_cut tiling; /* a block has one piece */

/* Device memory of a call: counters (one a group), which lie apart since they must be zero; sums (two
 * a channel), partial sums (two a channel and chunk). */
struct scratch {
    unsigned *counters;
    float *sums, *partials;
};

static inline tiling tiling_of(picture x, int vector)
{
    return norm_cut_of(x.n, x.c, x.h, x.w, x.channels_last, vector);
}

static inline scratch scratch_of(norm_memory memory, int channels)
{
    float *sums = (float *)memory.sums;
    return {memory.counters, sums, sums + 2 * (int64_t)channels};
}

/* What this thread has of its block's work. */
struct share {
    int group, chunk, lane, row;
    bool works;
};

template <bool last> static __device__ inline share share_of(const tiling &t)
{
    share m;
    m.group = blockIdx.x % t.groups;
    m.chunk = blockIdx.x / t.groups;
    m.lane = threadIdx.x % t.lanes;
    m.row = threadIdx.x / t.lanes;
    m.works = m.row < t.rows && (!last || m.group * t.lanes + m.lane < t.vectors);
    return m;
}

/* Channel of element `v` of this thread's vectors. */
template <bool last, int V>
static __device__ inline int channel_of(const tiling &t, const share &m, int v)
{
    return last ? (m.group * t.lanes + m.lane) * V + v : m.group;
}

/* Index of the vector at a position. */
template <bool last>
static __device__ inline int64_t vector_at(const tiling &t, const share &m, int64_t position)
{
    if (last)
        return position * t.vectors + m.group * t.lanes + m.lane;
    int pixel;
    int64_t image = divide(position, t.vectors, &pixel);
    return (image * t.channels + m.group) * t.vectors + pixel;
}

/* work.load(vector) and work.use(loaded, vector) for each vector of this thread, `depth` loads in
 * flight. */
template <bool last, int depth, bool backwards, typename Work>
static __device__ inline void walk(const tiling &t, const share &m, Work &work)
{
    if (!m.works)
        return;
    int64_t first = (int64_t)m.chunk * t.passes * t.rows + m.row;
    for (int pass = 0; pass < t.passes; pass += depth) {
        typename Work::loaded loaded[depth];
        int64_t at[depth];
        bool inside[depth];
#pragma unroll
        for (int k = 0; k < depth; k++) {
            int turn = backwards ? t.passes - 1 - pass - k : pass + k;
            int64_t position = first + (int64_t)turn * t.rows;
            inside[k] = pass + k < t.passes && position < t.positions;
            if (!inside[k])
                continue;
            at[k] = vector_at<last>(t, m, position);
            loaded[k] = work.load(at[k]);
        }
#pragma unroll
        for (int k = 0; k < depth; k++)
            if (inside[k])
                work.use(loaded[k], at[k]);
    }
}

/* Adds up the block's a and b into row 0 of `room`, always in the same order. */
template <int W>
static __device__ inline void sum_rows(const tiling &t, const share &m, const float *a,
                                       const float *b, float (*room)[norm_threads])
{
    for (int v = 0; v < W; v++) {
        room[v][threadIdx.x] = a[v];
        room[W + v][threadIdx.x] = b[v];
    }
    int half = 1;
    while (half * 2 < t.rows)
        half *= 2;
    for (; half > 0; half /= 2) {
        __syncthreads();
        if (m.row < half && m.row + half < t.rows)
            for (int v = 0; v < 2 * W; v++)
                room[v][threadIdx.x] += room[v][threadIdx.x + half * t.lanes];
    }
}

/* The last block of a group adds up the partial sums of all chunks: thread `column` of it gets those
 * of the group's channel `column`. */
static __device__ inline bool sum_chunks(const tiling &t, const share &m, const scratch &s,
                                         int columns, double *a, double *b)
{
    __shared__ double room[2][norm_threads];
    int column = threadIdx.x % columns;
    int part = threadIdx.x / columns;
    int parts = norm_threads / columns < 16 ? norm_threads / columns : 16;
    int channel = m.group * columns + column;
    *a = *b = 0;
    if (part < parts && channel < t.channels) {
#pragma unroll 4
        for (int k = part; k < t.chunks; k += parts) {
            *a += __ldcg(&s.partials[(int64_t)(2 * k) * t.channels + channel]);
            *b += __ldcg(&s.partials[(int64_t)(2 * k + 1) * t.channels + channel]);
        }
    }
    room[0][threadIdx.x] = *a;
    room[1][threadIdx.x] = *b;
    __syncthreads();
    if (part > 0 || channel >= t.channels)
        return false;
    for (int k = 1; k < parts; k++) {
        *a += room[0][k * columns + column];
        *b += room[1][k * columns + column];
    }
    return true;
}

/* Sums of a and b over all positions: true in the threads of the last block that got a channel's. */
template <bool last, int V>
static __device__ inline bool sum_all(const tiling &t, const share &m, const scratch &s, float *a,
                                      float *b, int *channel, double *sum_a, double *sum_b)
{
    constexpr int W = last ? V : 1;
    __shared__ float room[2 * W][norm_threads];
    __shared__ bool is_last;
    if (!last)
        for (int v = 1; v < V; v++) {
            a[0] += a[v];
            b[0] += b[v];
        }
    sum_rows<W>(t, m, a, b, room);
    if (m.works && m.row == 0)
        for (int v = 0; v < W; v++) {
            int64_t at = (int64_t)(2 * m.chunk) * t.channels + channel_of<last, V>(t, m, v);
            s.partials[at] = room[v][threadIdx.x];
            s.partials[at + t.channels] = room[W + v][threadIdx.x];
        }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(&s.counters[m.group], 1u) == (unsigned)t.chunks - 1;
        if (is_last)
            s.counters[m.group] = 0;
    }
    __syncthreads();
    if (!is_last)
        return false;
    __threadfence();
    int columns = t.lanes * W;
    *channel = m.group * columns + threadIdx.x % columns;
    return sum_chunks(t, m, s, columns, sum_a, sum_b);
}

/* The forward's value before relu: the backward computes it again, to the same bits. */
static __device__ inline float normalized(float x, float mean, float scale, float beta)
{
    return __fmaf_rn(__fsub_rn(x, mean), scale, beta);
}
static __device__ inline float scale_of(float gamma, float invstd)
{
    return __fmul_rn(gamma, invstd);
}

/* Whether all pointers and the layout take vectors of 16 bytes. */
static inline bool takes_vectors(picture x, enum kernel_type type, bool aligned)
{
    int vector = type == KERNEL_F32 ? 4 : 8;
    return aligned && (x.channels_last ? x.c : (int64_t)x.h * x.w) % vector == 0;
}

/* Runs the statement with `last` as whether channels are last. */
#define WITH_LAYOUT(channels_last, ...)                                                            \
    if (channels_last) {                                                                           \
        constexpr bool last = true;                                                                \
        __VA_ARGS__;                                                                               \
    } else {                                                                                       \
        constexpr bool last = false;                                                               \
        __VA_ARGS__;                                                                               \
    }

#endif
