/* grad_norm: the sum of the squares of all gradients, and how many of them are inf or NaN.
 * grad_scaler, of the whole model's norms: norm = sqrt(sum) / scale; multiplier = min(1, max_norm /
 * (norm + 1e-6)) / scale (torch's clip_grad_norm_, which lets a NaN through); with a bad gradient
 * the step is skipped and the scale shrinks by `backoff`, after `interval` good ones it grows by
 * `growth` (torch's GradScaler). */
#include "kernels/cpu/kernel.h"

#include <math.h>

enum rh_status cpu_grad_norm(const struct cpu_call *call)
{
    double squares = 0;
    double bad = 0;
    for (int k = 0; k < call->read_count; k++) {
        const float *g = cpu_read(call, k);
        int64_t elements = cpu_read_elements(call, k);
        for (int64_t i = 0; i < elements; i++) {
            squares += (double)g[i] * g[i];
            bad += !isfinite(g[i]);
        }
    }
    cpu_write(call, 0)[NORM_SQUARES] = (float)squares;
    cpu_write(call, 0)[NORM_BAD] = (float)bad;
    return RH_OK;
}

/* In fp32, as the kernel on a GPU: both follow the same steps of the scale. */
enum rh_status cpu_grad_scaler(const struct cpu_call *call)
{
    const struct op *op = call->op;
    const float *norms = cpu_read(call, 0), *before = cpu_read(call, 1);
    float *after = cpu_write(call, 0);
    float squares = 0, bad = 0, scale = before[SCALER_SCALE];
    float tracker = before[SCALER_TRACKER], skipped = before[SCALER_SKIPPED];
    for (int64_t i = 0; i < cpu_read_dim(call, 0)[0]; i++) {
        squares += norms[i * NORM_ELEMENTS + NORM_SQUARES];
        bad += norms[i * NORM_ELEMENTS + NORM_BAD];
    }
    float norm = sqrtf(squares) / scale;
    float clip = op->scaler.max_norm > 0 ? (float)op->scaler.max_norm / (norm + 1e-6F) : 1;
    bool skip = op->scaler.skip && bad > 0;
    after[SCALER_MULTIPLIER] = (clip > 1 ? 1 : clip) / scale;
    after[SCALER_NORM] = norm;
    after[SCALER_SKIP] = skip ? 1 : 0;
    after[SCALER_SKIPPED] = skipped + (skip ? 1 : 0);
    if (skip)
        scale *= (float)op->scaler.backoff;
    else if (op->scaler.skip && tracker + 1 >= (float)op->scaler.interval)
        scale *= (float)op->scaler.growth;
    bool again = skip || tracker + 1 >= (float)op->scaler.interval;
    after[SCALER_SCALE] = scale;
    after[SCALER_TRACKER] = again ? 0 : tracker + 1;
    for (int i = SCALER_NORM + 1; i < SCALER_ELEMENTS; i++)
        after[i] = 0;
    return RH_OK;
}
