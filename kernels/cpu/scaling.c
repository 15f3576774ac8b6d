/* An optimizer's way to heed the `scaler` operand. */
#include <string.h>

#include "kernels/cpu/kernel.h"

struct cpu_scaling cpu_scaling(const struct cpu_call *call)
{
    struct cpu_scaling scaling = {.multiplier = 1, .first = 2};
    if (call->op->scaled) {
        const float *scaler = cpu_read(call, 2);
        scaling.multiplier = scaler[SCALER_MULTIPLIER];
        scaling.skip = scaler[SCALER_SKIP] != 0;
        scaling.first = 3;
    }
    return scaling;
}

static void hold(const struct cpu_tensor *read, const struct cpu_tensor *write)
{
    if (write->data != read->data)
        memcpy(write->data, read->data, type_bytes(&read->type));
}

enum rh_status cpu_hold(const struct cpu_call *call)
{
    int states = call->op->kind == OP_sgd ? call->op->sgd.momentum != 0 : 2;
    const struct cpu_tensor *write = call->writes;
    hold(&call->reads[1], write++);
    for (int i = 3; i < call->read_count; i += states + 2) {
        hold(&call->reads[i], write++);
        for (int k = 0; k < states; k++)
            hold(&call->reads[i + 2 + k], write++);
    }
    return RH_OK;
}
