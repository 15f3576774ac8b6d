/* Where the losses go: one slot of a vector, named by `control` (a device value, so that the same
 * instruction serves every step). */
#include "kernels/cpu/kernel.h"

/* NULL and a recorded error where there is no such slot. */
static float *loss_slot(const struct cpu_call *call, int losses)
{
    float slot = cpu_read(call, 2)[CONTROL_LOSS_SLOT];
    int64_t slots = cpu_write_elements(call, losses);
    if (slot >= 0 && slot < (float)slots)
        return &cpu_write(call, losses)[(int64_t)slot];
    fail(RH_INVALID, "loss slot out of range in op '%s': control names %g, there are %lld",
         op_name(call->op->kind), slot, (long long)slots);
    return NULL;
}

enum rh_status cpu_store_loss(const struct cpu_call *call, int losses, double loss)
{
    float *slot = loss_slot(call, losses);
    if (!slot)
        return RH_INVALID;
    *slot = (float)((call->op->accumulate ? *slot : 0) + call->op->loss.weight * loss);
    return RH_OK;
}
