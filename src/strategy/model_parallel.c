/* Model parallelism by hand: layers on devices, activations moved where the next layer wants them
 * (torch-semantics.md section 6). */
#include "strategy/by_hand.h"
#include "strategy/table.h"

static enum rh_status build(const struct strategy_request *request, struct strategy_plan *out)
{
    if (request->pp > 1 && request->dp > 1 && request->pp * request->dp != request->device_count)
        return fail(RH_INVALID, "%s: mesh dp = %d times pp = %d is not %d devices", request->where,
                    request->dp, request->pp, request->device_count);
    return by_hand_build(request, "model_parallel", 0, out);
}

static const char *const keys[] = {"placement", "split_at", "ddp"};

const struct strategy strategy_model_parallel = {
    .name = "model_parallel",
    .description = "layers placed on the GPUs (and the host) of one worker",
    .keys = keys,
    .key_count = 3,
    .build = build,
};
