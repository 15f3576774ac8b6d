#include "kernels/cpu/kernel.h"

#include <string.h>

enum rh_status cpu_pack(const struct cpu_call *call)
{
    float *y = cpu_write(call, 0);
    for (int i = 0; i < call->read_count; i++) {
        int64_t elements = cpu_read_elements(call, i);
        if (elements > 0)
            memcpy(y, cpu_read(call, i), (size_t)elements * sizeof *y);
        y += elements;
    }
    return RH_OK;
}

enum rh_status cpu_unpack(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0);
    for (int i = 0; i < call->write_count; i++) {
        float *y = cpu_write(call, i);
        int64_t elements = cpu_write_elements(call, i);
        for (int64_t k = 0; k < elements; k++)
            y[k] = call->op->accumulate ? y[k] + x[k] : x[k];
        x += elements;
    }
    return RH_OK;
}
