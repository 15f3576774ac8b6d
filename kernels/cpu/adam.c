/* With t the steps so far and this one:
 *     adam: g += weight_decay p;  adamw: p *= 1 - lr weight_decay
 *     m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
 *     p -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon) */
#include "kernels/cpu/kernel.h"

#include <math.h>

struct step {
    double rate, root_correction; /* lr / (1 - beta1^t), sqrt(1 - beta2^t) */
    double decay, shrink;         /* adam's share of p in g; adamw's factor of p */
    double multiplier;            /* of g */
};

static void update(const struct op *op, struct step step, int64_t elements,
                   const struct cpu_tensor *reads, const struct cpu_tensor *writes)
{
    const float *p = reads[0].data, *g = reads[1].data, *m = reads[2].data, *v = reads[3].data;
    float *new_p = writes[0].data, *new_m = writes[1].data, *new_v = writes[2].data;
    double beta1 = op->adam.beta1, beta2 = op->adam.beta2;
    for (int64_t i = 0; i < elements; i++) {
        double gradient = g[i] * step.multiplier + step.decay * p[i];
        double first = m[i] + (1 - beta1) * (gradient - m[i]);
        double second = beta2 * v[i] + (1 - beta2) * gradient * gradient;
        double divisor = sqrt(second) / step.root_correction + op->adam.epsilon;
        new_p[i] = (float)(p[i] * step.shrink - step.rate * first / divisor);
        new_m[i] = (float)first;
        new_v[i] = (float)second;
    }
}

static enum rh_status adam(const struct cpu_call *call, bool decoupled)
{
    const struct op *op = call->op;
    int64_t count = *cpu_read_integers(call, 1) + 1;
    double rate = cpu_read(call, 0)[CONTROL_LEARNING_RATE];
    struct cpu_scaling scaling = cpu_scaling(call);
    if (scaling.skip)
        return cpu_hold(call);
    struct step step = {
        .rate = rate / (1 - pow(op->adam.beta1, (double)count)),
        .root_correction = sqrt(1 - pow(op->adam.beta2, (double)count)),
        .decay = decoupled ? 0 : op->adam.weight_decay,
        .shrink = decoupled ? 1 - rate * op->adam.weight_decay : 1,
        .multiplier = scaling.multiplier,
    };
    const struct cpu_tensor *writes = call->writes + 1;
    for (int i = scaling.first; i < call->read_count; i += 4, writes += 3)
        update(op, step, cpu_read_elements(call, i), call->reads + i, writes);
    *(int64_t *)call->writes[0].data = count;
    return RH_OK;
}

enum rh_status cpu_adam(const struct cpu_call *call)
{
    return adam(call, false);
}

enum rh_status cpu_adamw(const struct cpu_call *call)
{
    return adam(call, true);
}
