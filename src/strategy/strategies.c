#include "strategy/strategy.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "strategy/stage.h"
#include "strategy/table.h"

static const struct strategy *const strategies[] = {
    &strategy_single,         &strategy_data_parallel, &strategy_ddp,
    &strategy_model_parallel, &strategy_pipeline,
};
enum { STRATEGY_COUNT = sizeof strategies / sizeof *strategies };

const struct strategy *strategy_all(int index)
{
    return index >= 0 && index < STRATEGY_COUNT ? strategies[index] : NULL;
}

enum rh_status strategy_find(const char *name, const struct strategy **strategy)
{
    const char *names[STRATEGY_COUNT];
    int index = 0;
    for (int i = 0; i < STRATEGY_COUNT; i++)
        names[i] = strategies[i]->name;
    RETURN_IF_FAILED(json_choice("strategy", name, names, STRATEGY_COUNT, &index));
    *strategy = strategies[index];
    return RH_OK;
}

static enum rh_status check_keys(const struct strategy *strategy,
                                 const struct strategy_request *request)
{
    const char *known[32] = {"type"};
    int count = 1;
    for (int i = 0; i < strategy->key_count; i++)
        known[count++] = strategy->keys[i];
    return request->keys ? json_check_keys(request->keys, request->where, known, count) : RH_OK;
}

enum rh_status strategy_build(const struct strategy *strategy,
                              const struct strategy_request *request, struct strategy_plan *plan)
{
    const struct model *model = request->model;
    memset(plan, 0, sizeof *plan);
    RETURN_IF_FAILED(check_keys(strategy, request));
    plan->microbatches = 1;
    plan->parameters = memory_new_array((size_t)model->parameter_count, sizeof *plan->parameters);
    plan->states = memory_new_array((size_t)model->state_count, sizeof *plan->states);
    plan->stage_of_layer =
        memory_new_array((size_t)model->layer_count + 1, sizeof *plan->stage_of_layer);
    enum rh_status status = strategy->build(request, plan);
    if (status != RH_OK)
        strategy_plan_free(plan);
    plan->order.entries = plan->entries;
    plan->order.steps = request->training->steps;
    return status;
}

void strategy_plan_free(struct strategy_plan *plan)
{
    if (plan->plan)
        plan_free(plan->plan);
    free(plan->entries);
    free(plan->parameters);
    free(plan->states);
    free(plan->stage_of_layer);
    memset(plan, 0, sizeof *plan);
}

void order_add_step(struct strategy_plan *plan, int accumulate_first, int accumulate, int last,
                    int passes)
{
    int count = plan->order.count;
    plan->entries = memory_resize(plan->entries, (size_t)count + 3, sizeof *plan->entries);
    if (passes > 1)
        plan->entries[count++] = (struct run_entry){accumulate_first, 1, false};
    if (passes > 2)
        plan->entries[count++] = (struct run_entry){accumulate, passes - 2, false};
    plan->entries[count++] = (struct run_entry){last, 1, true};
    plan->order.count = count;
}
