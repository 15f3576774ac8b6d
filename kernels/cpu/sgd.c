/* g += weight_decay p; m = g in the first step, momentum m + (1 - dampening) g later;
 * p -= lr d, where d is g without momentum, g + momentum m with nesterov, else m. */
#include "kernels/cpu/kernel.h"

static void update(const struct op *op, double rate, double multiplier, bool first,
                   int64_t elements, const struct cpu_tensor *reads,
                   const struct cpu_tensor *writes)
{
    const float *p = reads[0].data, *g = reads[1].data;
    bool momentum = op->sgd.momentum != 0;
    const float *m = momentum ? reads[2].data : NULL;
    float *new_p = writes[0].data, *new_m = momentum ? writes[1].data : NULL;
    for (int64_t i = 0; i < elements; i++) {
        double step = g[i] * multiplier + op->sgd.weight_decay * p[i];
        if (momentum) {
            double kept = first ? step : op->sgd.momentum * m[i] + (1 - op->sgd.dampening) * step;
            new_m[i] = (float)kept;
            step = op->sgd.nesterov ? step + op->sgd.momentum * kept : kept;
        }
        new_p[i] = (float)(p[i] - rate * step);
    }
}

enum rh_status cpu_sgd(const struct cpu_call *call)
{
    int states = call->op->sgd.momentum != 0;
    int64_t count = *cpu_read_integers(call, 1);
    double rate = cpu_read(call, 0)[CONTROL_LEARNING_RATE];
    const struct cpu_tensor *writes = call->writes + 1;
    struct cpu_scaling scaling = cpu_scaling(call);
    if (scaling.skip)
        return cpu_hold(call);
    for (int i = scaling.first; i < call->read_count; i += states + 2, writes += states + 1)
        update(call->op, rate, scaling.multiplier, count == 0, cpu_read_elements(call, i),
               call->reads + i, writes);
    *(int64_t *)call->writes[0].data = count + 1;
    return RH_OK;
}
