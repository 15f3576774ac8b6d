#include "kernels/cpu/kernel.h"

/* Written so that a NaN stays a NaN, here and in the gradient, as in torch. */
enum rh_status cpu_relu(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0);
    float *y = cpu_write(call, 0);
    int64_t elements = cpu_write_elements(call, 0);
    for (int64_t i = 0; i < elements; i++)
        y[i] = x[i] <= 0 ? 0 : x[i];
    return RH_OK;
}

enum rh_status cpu_relu_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0), *y = cpu_read(call, 1);
    float *gx = cpu_write(call, 0);
    int64_t elements = cpu_write_elements(call, 0);
    for (int64_t i = 0; i < elements; i++)
        gx[i] = y[i] <= 0 ? 0 : gy[i];
    return RH_OK;
}

enum rh_status cpu_add(const struct cpu_call *call)
{
    const float *a = cpu_read(call, 0), *b = cpu_read(call, 1);
    float *y = cpu_write(call, 0);
    int64_t elements = cpu_write_elements(call, 0);
    for (int64_t i = 0; i < elements; i++)
        y[i] = a[i] + b[i];
    return RH_OK;
}
