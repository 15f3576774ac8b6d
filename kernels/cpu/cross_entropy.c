/* loss_i = log sum_k exp(x_ik) - x_it, over the samples whose target is not IGNORED; its gradient
 * is softmax(x_i) - onehot(t), / number of counted samples for the mean. */
#include "kernels/cpu/kernel.h"

#include <math.h>
#include <string.h>

enum { IGNORED = -100 }; /* torch's ignore_index */

static enum rh_status check_targets(const struct cpu_call *call, int64_t *counted)
{
    const int64_t *target = cpu_read_integers(call, 1);
    int64_t samples = cpu_read_dim(call, 0)[0], classes = cpu_read_dim(call, 0)[1];
    *counted = 0;
    for (int64_t i = 0; i < samples; i++) {
        if (target[i] == IGNORED)
            continue;
        if (target[i] < 0 || target[i] >= classes)
            return fail(RH_INVALID,
                        "target out of range in op '%s': sample %lld has %lld, there are %lld "
                        "classes",
                        op_name(call->op->kind), (long long)i, (long long)target[i],
                        (long long)classes);
        ++*counted;
    }
    return RH_OK;
}

/* log sum exp of one row, its maximum subtracted before exp so that nothing overflows */
static double log_sum_exp(const float *row, int64_t classes)
{
    double most = row[0], sum = 0;
    for (int64_t k = 1; k < classes; k++)
        most = row[k] > most ? row[k] : most;
    for (int64_t k = 0; k < classes; k++)
        sum += exp(row[k] - most);
    return most + log(sum);
}

enum rh_status cpu_cross_entropy(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0);
    const int64_t *target = cpu_read_integers(call, 1);
    int64_t samples = cpu_read_dim(call, 0)[0], classes = cpu_read_dim(call, 0)[1], counted;
    double sum = 0;
    RETURN_IF_FAILED(check_targets(call, &counted));
    for (int64_t i = 0; i < samples; i++)
        if (target[i] != IGNORED)
            sum += log_sum_exp(x + i * classes, classes) - x[i * classes + target[i]];
    /* the mean of nothing is a NaN, as in torch */
    return cpu_store_loss(call, call->op->loss.sum ? sum : sum / (double)counted);
}

enum rh_status cpu_cross_entropy_grad(const struct cpu_call *call)
{
    const int64_t *target = cpu_read_integers(call, 1);
    int64_t samples = cpu_read_dim(call, 0)[0], classes = cpu_read_dim(call, 0)[1], counted;
    RETURN_IF_FAILED(check_targets(call, &counted));
    double scale = call->op->loss.weight / (call->op->loss.sum ? 1 : (double)counted);
    if (cpu_read(call, 2))
        scale *= cpu_read(call, 2)[SCALER_SCALE];
    for (int64_t i = 0; i < samples; i++) {
        const float *row = cpu_read(call, 0) + i * classes;
        float *gradient = cpu_write(call, 0) + i * classes;
        if (target[i] == IGNORED) {
            memset(gradient, 0, (size_t)classes * sizeof *gradient);
            continue;
        }
        double total = log_sum_exp(row, classes);
        for (int64_t k = 0; k < classes; k++)
            gradient[k] = (float)((exp(row[k] - total) - (k == target[i])) * scale);
    }
    return RH_OK;
}
