/* DistributedDataParallel: one worker a GPU, gradients averaged in buckets while backward goes on
 * (torch-semantics.md section 5). */
#include <stdlib.h>

#include "base/memory.h"
#include "strategy/stage.h"
#include "strategy/table.h"

struct ddp {
    struct stage stage;
    struct ddp_options options;
    int group, ranks;
    int steady_buckets;
};

/* What one list does beside forward and backward. */
struct ddp_list {
    const char *name;
    bool start;      /* parameters and statistics of rank 0 go to all */
    bool statistics; /* rank 0's statistics go to all before the forward */
    bool accumulate; /* adds to the gradients of the passes before */
    bool sync;       /* reduces buckets and updates */
    bool unlimited;  /* all in one bucket, as torch's first iteration */
};

static void write_list(struct ddp *ddp, const struct ddp_list *what)
{
    struct stage *stage = &ddp->stage;
    int list = role_add_list(stage->plan, stage->role, what->name);
    struct writer writer = {stage->plan, stage->role, list, WORK_OTHER, -1};
    struct staged_inputs inputs;
    struct pass pass;
    struct buckets *buckets = NULL;
    int layers = stage->graph->model->layer_count;
    if (what->start && ddp->ranks > 1)
        ddp_broadcast_parameters(stage, &writer, ddp->group);
    stage_begin(stage, &writer);
    if (ddp->ranks > 1 && (what->start || (what->statistics && ddp->options.broadcast_buffers)))
        ddp_broadcast_states(stage, &writer, ddp->group);
    stage_inputs(stage, &writer, &inputs);
    pass_init(&pass, stage, &writer, stage->graph, -1);
    pass.accumulate = what->accumulate;
    if (what->sync) {
        buckets =
            buckets_new(stage, &writer, &ddp->options, ddp->group, ddp->ranks, what->unlimited);
        pass.gradient_ready = bucket_gradient_ready;
        pass.context = buckets;
    }
    pass_inputs(&pass, &inputs, 0);
    stage_span(stage, &writer, 0, "forward", true);
    pass_forward(&pass, 0, layers);
    pass_loss(&pass);
    stage_span(stage, &writer, 0, "forward", false);
    stage_span(stage, &writer, 0, "backward", true);
    pass_backward(&pass, 0, layers);
    stage_span(stage, &writer, 0, "backward", false);
    if (what->sync) {
        buckets_finish(buckets);
        stage_optimizer(stage, &writer);
        ddp->steady_buckets = buckets_count(buckets);
        buckets_free(buckets);
    }
    pass_free(&pass);
}

/* Without accumulation: first | steady. With it a step is a first pass, further ones and a last
 * that synchronises; statistics are broadcast only where the forward before synchronised
 * (section 5.3). */
static void write_lists(struct ddp *ddp, struct strategy_plan *out, int passes)
{
    bool many = passes > 1;
    struct ddp_list first = {"first", !many, true, many, true, true};
    struct ddp_list steady = {"steady", false, !many, many, true, false};
    write_list(ddp, &first);
    write_list(ddp, &steady);
    if (many) {
        struct ddp_list start = {"accumulate_start", true, true, false, false, false};
        struct ddp_list begin = {"accumulate_first", false, true, false, false, false};
        struct ddp_list more = {"accumulate", false, false, true, false, false};
        write_list(ddp, &start);
        write_list(ddp, &begin);
        write_list(ddp, &more);
    }
    order_add_step(out, 2, 4, 0, passes);
    out->order.loop_first = out->order.count;
    order_add_step(out, 3, 4, 1, passes);
}

static enum rh_status check(const struct strategy_request *request, int ranks)
{
    if (request->pp > 1)
        return fail(RH_INVALID, "%s: ddp has no stages; type 'pipeline' splits 'pp' = %d",
                    request->where, request->pp);
    if (ranks != request->device_count)
        return fail(RH_INVALID, "%s: mesh dp = %d, but there are %d devices", request->where, ranks,
                    request->device_count);
    if (request->batch % ranks != 0)
        return fail(RH_INVALID, "%s: a batch of %lld does not divide into %d equal shares",
                    request->where, (long long)request->batch, ranks);
    return RH_OK;
}

static enum rh_status build(const struct strategy_request *request, struct strategy_plan *out)
{
    struct ddp ddp = {.ranks = request->dp ? request->dp : request->device_count};
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {ddp.ranks}};
    struct graph *graph = NULL;
    RETURN_IF_FAILED(check(request, ddp.ranks));
    RETURN_IF_FAILED(ddp_options_read(
        request->keys ? cJSON_GetObjectItemCaseSensitive(request->keys, "ddp") : NULL,
        request->where, &ddp.options));
    int64_t rows = request->batch / ddp.ranks;
    struct graph_options options = stage_graph_options(request, rows, 1);
    RETURN_IF_FAILED(graph_new(request->model, &options, &graph));
    int *device_of_layer = memory_new_array((size_t)request->model->layer_count + 1, sizeof(int));
    out->plan = plan_new("ddp", &mesh, -1);
    role_init(out->plan, 0, "rank", 1);
    ddp.group = plan_add_group(out->plan, "dp", 1, 0, NULL);
    stage_init(&ddp.stage, out->plan, 0, request, graph, device_of_layer, &ddp.options, rows, 0);
    write_lists(&ddp, out, request->training->accumulate);
    out->buckets = ddp.steady_buckets;
    stage_homes(&ddp.stage, out);
    stage_free(&ddp.stage);
    free(device_of_layer);
    graph_free(graph);
    return RH_OK;
}

static const char *const keys[] = {"ddp"};

const struct strategy strategy_ddp = {
    .name = "ddp",
    .description = "DistributedDataParallel: one worker a GPU, bucketed all-reduce beside backward",
    .keys = keys,
    .key_count = 1,
    .build = build,
};
