/* y[n,o] = x[n,i] w[o,i]^T + b[o], perhaps relu of it, and its gradients. */
#include "kernels/cpu/kernel.h"

#include <string.h>

/* relu of `to` where y is `to` itself; the gradient's mask where it is relu's result. */
static void mask(const float *y, float *to, int64_t elements)
{
    for (int64_t i = 0; i < elements; i++)
        to[i] = y[i] <= 0 ? 0 : to[i];
}

enum rh_status cpu_linear(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0), *w = cpu_read(call, 1), *b = cpu_read(call, 2);
    int64_t n = cpu_read_dim(call, 0)[0], in = cpu_read_dim(call, 0)[1];
    int64_t out = cpu_read_dim(call, 1)[0];
    float *y = cpu_write(call, 0);
    for (int64_t i = 0; b && i < n && out > 0; i++)
        memcpy(y + i * out, b, (size_t)out * sizeof *y);
    cpu_multiply(n, out, in, (struct cpu_matrix){x, false}, (struct cpu_matrix){w, true}, b ? 1 : 0,
                 y);
    if (call->op->linear.relu)
        mask(y, y, n * out);
    return RH_OK;
}

enum rh_status cpu_linear_input_grad(const struct cpu_call *call)
{
    int64_t n = cpu_read_dim(call, 0)[0], out = cpu_read_dim(call, 0)[1];
    int64_t in = cpu_read_dim(call, 1)[1];
    const float *y = cpu_read(call, 2);
    float *gx = cpu_write(call, 0);
    cpu_multiply(n, in, out, (struct cpu_matrix){cpu_read(call, 0), false},
                 (struct cpu_matrix){cpu_read(call, 1), false}, 0, gx);
    if (y)
        mask(y, gx, n * in);
    return RH_OK;
}

enum rh_status cpu_linear_weight_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0), *x = cpu_read(call, 1);
    int64_t n = cpu_read_dim(call, 0)[0], out = cpu_read_dim(call, 0)[1];
    int64_t in = cpu_read_dim(call, 1)[1];
    float *gw = cpu_write(call, 0), *gb = cpu_write(call, 1);
    bool add = call->op->accumulate;
    cpu_multiply(out, in, n, (struct cpu_matrix){gy, true}, (struct cpu_matrix){x, false},
                 add ? 1 : 0, gw);
    for (int64_t o = 0; gb && o < out; o++) {
        double sum = add ? gb[o] : 0;
        for (int64_t i = 0; i < n; i++)
            sum += gy[i * out + o];
        gb[o] = (float)sum;
    }
    return RH_OK;
}
