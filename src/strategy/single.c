/* One worker, one GPU: what everything else is measured against. */
#include <stdlib.h>

#include "base/memory.h"
#include "strategy/stage.h"
#include "strategy/table.h"

static void write_list(struct stage *stage, const char *name, bool accumulate, bool update)
{
    int list = role_add_list(stage->plan, stage->role, name);
    struct writer writer = {stage->plan, stage->role, list, WORK_OTHER, -1};
    struct staged_inputs inputs;
    struct pass pass;
    int layers = stage->graph->model->layer_count;
    stage_begin(stage, &writer);
    stage_inputs(stage, &writer, &inputs);
    pass_init(&pass, stage, &writer, stage->graph, -1);
    pass.accumulate = accumulate;
    pass_inputs(&pass, &inputs, 0);
    stage_span(stage, &writer, 0, "forward", true);
    pass_forward(&pass, 0, layers);
    pass_loss(&pass);
    stage_span(stage, &writer, 0, "forward", false);
    stage_span(stage, &writer, 0, "backward", true);
    pass_backward(&pass, 0, layers);
    stage_span(stage, &writer, 0, "backward", false);
    if (update)
        stage_optimizer(stage, &writer);
    pass_free(&pass);
}

static enum rh_status build(const struct strategy_request *request, struct strategy_plan *out)
{
    struct graph *graph = NULL;
    struct stage stage;
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {1}};
    int passes = request->training->accumulate;
    if (request->device_count != 1 || request->dp > 1 || request->pp > 1)
        return fail(RH_INVALID, "%s: single runs on 1 device; %d are given", request->where,
                    request->device_count);
    struct graph_options options = stage_graph_options(request, request->batch, 1);
    RETURN_IF_FAILED(graph_new(request->model, &options, &graph));
    int *device_of_layer = memory_new_array((size_t)request->model->layer_count + 1, sizeof(int));
    out->plan = plan_new("single", &mesh, -1);
    role_init(out->plan, 0, "worker", 1);
    stage_init(&stage, out->plan, 0, request, graph, device_of_layer, NULL, request->batch, -1);
    if (passes > 1)
        write_list(&stage, "accumulate_first", false, false);
    if (passes > 1)
        write_list(&stage, "accumulate", true, false);
    write_list(&stage, "steady", passes > 1, true);
    order_add_step(out, 0, 1, passes > 1 ? 2 : 0, passes);
    stage_homes(&stage, out);
    stage_free(&stage);
    free(device_of_layer);
    graph_free(graph);
    return RH_OK;
}

const struct strategy strategy_single = {
    .name = "single",
    .description = "one GPU",
    .build = build,
};
