#include "kernels/cpu/kernel.h"

#include <string.h>

enum rh_status cpu_zero(const struct cpu_call *call)
{
    size_t bytes = type_bytes(&call->writes[0].type);
    if (bytes > 0)
        memset(call->writes[0].data, 0, bytes);
    return RH_OK;
}

enum rh_status cpu_scale_add(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0), *y = cpu_read(call, 1);
    float *out = cpu_write(call, 0);
    int64_t elements = cpu_write_elements(call, 0);
    float alpha = (float)call->op->scale_add.alpha, beta = (float)call->op->scale_add.beta;
    for (int64_t i = 0; i < elements; i++)
        out[i] = y ? alpha * x[i] + beta * y[i] : alpha * x[i];
    return RH_OK;
}

enum rh_status cpu_bucket_copy(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0);
    float *y = cpu_write(call, 0), alpha = (float)call->op->scale_add.alpha;
    int64_t elements = cpu_write_elements(call, 0);
    for (int64_t i = 0; i < elements; i++)
        y[i] = alpha * x[i];
    return RH_OK;
}

static enum rh_status copy(const struct cpu_call *call)
{
    for (int i = 0; i < call->write_count; i++) {
        size_t bytes = type_bytes(&call->writes[i].type);
        if (bytes > 0)
            memmove(call->writes[i].data, call->reads[i].data, bytes);
    }
    return RH_OK;
}

/* Both sides are fp32 here: cpu_run converts. */
enum rh_status cpu_cast(const struct cpu_call *call)
{
    return copy(call);
}

enum rh_status cpu_flatten(const struct cpu_call *call)
{
    return copy(call);
}
