#include "kernels/cuda/launch.cuh"

enum { SCALE, TRACKER, MULTIPLIER, SKIP, SKIPPED, NORM, SCALER_ELEMENTS = 8 }; /* op.h: SCALER_* */

/* One block a row; the last one to end adds up what all found, in the order of the rows. */
__global__ static void grad_norm(const norm_table *table, float *found, unsigned *ended, float *norm)
{
    __shared__ bool last;
    norm_table t = table[blockIdx.x];
    float squares = 0, bad = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < (int)t.n; i += threads_per_block) {
        squares += t.g[i] * t.g[i];
        bad += isfinite(t.g[i]) ? 0 : 1;
    }
    squares = block_sum(squares);
    bad = block_sum(bad);
    if (threadIdx.x == 0) {
        found[2 * blockIdx.x] = squares;
        found[2 * blockIdx.x + 1] = bad;
        __threadfence();
        last = atomicAdd(ended, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    squares = bad = 0;
    for (int i = threadIdx.x; i < (int)gridDim.x; i += threads_per_block) {
        squares += __ldcg(&found[2 * i]);
        bad += __ldcg(&found[2 * i + 1]);
    }
    squares = block_sum(squares);
    bad = block_sum(bad);
    if (threadIdx.x > 0)
        return;
    norm[0] = squares;
    norm[1] = bad;
    *ended = 0;
}

__global__ static void grad_scaler(const float *norms, int rows, const float *before, float *after,
                                   scaler_options o)
{
    float squares = 0, bad = 0, scale = before[SCALE], tracker = before[TRACKER];
    float skipped = before[SKIPPED];
    for (int i = 0; i < rows; i++) {
        squares += norms[2 * i];
        bad += norms[2 * i + 1];
    }
    float norm = sqrtf(squares) / scale;
    float clip = o.max_norm > 0 ? o.max_norm / (norm + 1e-6f) : 1;
    bool skip = o.skip && bad > 0;
    bool grow = !skip && tracker + 1 >= (float)o.interval;
    after[MULTIPLIER] = (clip > 1 ? 1 : clip) / scale;
    after[NORM] = norm;
    after[SKIP] = skip;
    after[SKIPPED] = skipped + (skip ? 1 : 0);
    after[SCALE] = skip ? scale * o.backoff : grow && o.skip ? scale * o.growth : scale;
    after[TRACKER] = skip || grow ? 0 : tracker + 1;
    for (int i = NORM + 1; i < SCALER_ELEMENTS; i++)
        after[i] = 0;
}

extern "C" void kernel_grad_norm(cudaStream_t s, const struct norm_table *device_table, int rows,
                                 float *norm)
{
    float *found = (float *)(device_table + rows);
    grad_norm<<<rows, threads_per_block, 0, s>>>(device_table, found, (unsigned *)(found + 2 * rows),
                                                 norm);
}

extern "C" void kernel_grad_scaler(cudaStream_t s, const float *norms, int rows, const float *before,
                                   float *after, struct scaler_options options)
{
    grad_scaler<<<1, 1, 0, s>>>(norms, rows, before, after, options);
}
