/* loss = mean or sum over all elements of (x - t)^2; its gradient is 2 (x - t), / n for the mean.
 */
#include "kernels/cpu/kernel.h"

enum rh_status cpu_mse_loss(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0), *target = cpu_read(call, 1);
    int64_t elements = cpu_read_elements(call, 0);
    double sum = 0;
    for (int64_t i = 0; i < elements; i++) {
        double difference = (double)x[i] - target[i];
        sum += difference * difference;
    }
    /* of nothing: 0 / 0, a NaN as in torch */
    return cpu_store_loss(call, call->op->loss.sum ? sum : sum / (double)elements);
}

enum rh_status cpu_mse_loss_grad(const struct cpu_call *call)
{
    const float *x = cpu_read(call, 0), *target = cpu_read(call, 1);
    float *gx = cpu_write(call, 0);
    int64_t elements = cpu_read_elements(call, 0);
    double scale = 2 * call->op->loss.weight / (call->op->loss.sum ? 1 : (double)elements);
    if (cpu_read(call, 2))
        scale *= cpu_read(call, 2)[SCALER_SCALE];
    for (int64_t i = 0; i < elements; i++)
        gx[i] = (float)(((double)x[i] - target[i]) * scale);
    return RH_OK;
}
