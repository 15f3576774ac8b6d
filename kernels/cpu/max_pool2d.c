#include "kernels/cpu/kernel.h"

#include <math.h>

/* Where the first maximum of output pixel (p, q)'s window is in the plane; a NaN is a maximum.
 * Padding never wins; a window without a pixel does not exist (shape.c). */
static int64_t window_maximum(const struct op *op, const float *plane, int64_t height,
                              int64_t width, int64_t p, int64_t q)
{
    int64_t top = p * op->window.stride_h - op->window.padding_h;
    int64_t left = q * op->window.stride_w - op->window.padding_w;
    int64_t best = -1;
    for (int64_t i = 0; i < op->window.kernel_h; i++)
        for (int64_t j = 0; j < op->window.kernel_w; j++) {
            int64_t h = top + i * op->window.dilation, w = left + j * op->window.dilation;
            int64_t at = h * width + w;
            if (h < 0 || h >= height || w < 0 || w >= width)
                continue;
            if (best < 0 || plane[at] > plane[best] || (isnan(plane[at]) && !isnan(plane[best])))
                best = at;
        }
    return best;
}

enum rh_status cpu_max_pool2d(const struct cpu_call *call)
{
    const int64_t *x_dim = cpu_read_dim(call, 0), *y_dim = cpu_write_dim(call, 0);
    const float *plane = cpu_read(call, 0);
    float *y = cpu_write(call, 0);
    for (int64_t k = 0; k < x_dim[0] * x_dim[1]; k++, plane += x_dim[2] * x_dim[3])
        for (int64_t p = 0; p < y_dim[2]; p++)
            for (int64_t q = 0; q < y_dim[3]; q++) {
                int64_t best = window_maximum(call->op, plane, x_dim[2], x_dim[3], p, q);
                *y++ = best < 0 ? -INFINITY : plane[best];
            }
    return RH_OK;
}

enum rh_status cpu_max_pool2d_grad(const struct cpu_call *call)
{
    const int64_t *x_dim = cpu_write_dim(call, 0), *y_dim = cpu_read_dim(call, 0);
    const float *gy = cpu_read(call, 0), *plane = cpu_read(call, 1);
    float *gx = cpu_write(call, 0);
    int64_t pixels = x_dim[2] * x_dim[3];
    for (int64_t k = 0; k < x_dim[0] * x_dim[1]; k++, plane += pixels, gx += pixels) {
        for (int64_t i = 0; i < pixels; i++)
            gx[i] = 0;
        for (int64_t p = 0; p < y_dim[2]; p++)
            for (int64_t q = 0; q < y_dim[3]; q++, gy++) {
                int64_t best = window_maximum(call->op, plane, x_dim[2], x_dim[3], p, q);
                if (best >= 0)
                    gx[best] += *gy;
            }
    }
    return RH_OK;
}
