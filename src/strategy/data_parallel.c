/* DataParallel: one worker feeds many GPUs. Each step scatters the batch, replicates the
 * parameters, runs forward on every GPU, gathers the outputs, takes the loss on device 0, and
 * reduces the gradients there (torch-semantics.md section 4). Device 0 alone holds parameters,
 * gradients, optimizer state and the loss: its imbalance is the point of comparing it. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "strategy/stage.h"
#include "strategy/table.h"

static const double COALESCE_BYTES = 10 * 1048576.0; /* torch's buffer_size */

struct replica {
    const struct graph *graph; /* of its chunk */
    int *device_of_layer;      /* all the same */
    int64_t first, rows;
    struct pass pass;
};

struct data_parallel {
    struct stage stage;
    const struct strategy_request *request;
    const struct graph *whole; /* the loss over the gathered output */
    struct graph *chunk[2];    /* a full piece, and a smaller last one */
    struct replica *replicas;
    struct comm_device *devices;
    int count; /* replicas in use: ceil may leave devices without rows */
    int group;
};

/* ceil(batch / devices) rows a piece; possibly fewer pieces than devices (section 3.6). */
static enum rh_status make_replicas(struct data_parallel *dp)
{
    const struct strategy_request *request = dp->request;
    int64_t rows = (request->batch + request->device_count - 1) / request->device_count;
    int layers = request->model->layer_count;
    dp->count = (int)((request->batch + rows - 1) / rows);
    dp->replicas = memory_new_array((size_t)dp->count, sizeof *dp->replicas);
    dp->devices = memory_new_array((size_t)dp->count, sizeof *dp->devices);
    for (int k = 0; k < dp->count; k++) {
        struct replica *replica = &dp->replicas[k];
        replica->first = k * rows;
        replica->rows = k + 1 < dp->count ? rows : request->batch - replica->first;
        int which = replica->rows != rows;
        struct graph_options options = stage_graph_options(request, replica->rows, 1);
        if (!dp->chunk[which])
            RETURN_IF_FAILED(graph_new(request->model, &options, &dp->chunk[which]));
        replica->graph = dp->chunk[which];
        replica->device_of_layer = memory_new_array((size_t)layers + 1, sizeof(int));
        for (int i = 0; i <= layers; i++)
            replica->device_of_layer[i] = k;
    }
    return RH_OK;
}

static void scatter_inputs(struct data_parallel *dp, struct writer *writer)
{
    struct stage *stage = &dp->stage;
    const struct role *role = &stage->plan->roles[stage->role];
    struct view batch = view_of(role, stage->input);
    int home = role->buffers[stage->input].device;
    writer->work = WORK_INPUT;
    for (int k = 0; k < dp->count; k++) {
        struct replica *replica = &dp->replicas[k];
        struct view piece = view_narrow(batch, 0, replica->first, replica->rows);
        if (home != k) {
            struct view there = stage_transient(writer, plan_text(stage->plan, "input piece %d", k),
                                                k, &piece.type, PURPOSE_INPUTS);
            stage_copy(stage, writer, "scatter input", piece, home, there, k);
            piece = there;
        }
        pass_place(&replica->pass, replica->graph->input, k, piece);
    }
}

static void replicate_states(struct data_parallel *dp, struct writer *writer)
{
    struct stage *stage = &dp->stage;
    const int buffers[2] = {stage->state_values[0], stage->state_counts[0]};
    struct view *copies = memory_new_array((size_t)dp->count * 2, sizeof *copies);
    struct collect_part *parts = memory_new_array((size_t)dp->count, sizeof *parts);
    for (int i = 0; i < 2; i++) {
        struct view flat = view_of(&stage->plan->roles[stage->role], buffers[i]);
        copies[i] = flat;
        for (int k = 0; k < dp->count; k++) {
            if (k > 0)
                copies[2 * k + i] = stage_transient(writer, "replica of running statistics", k,
                                                    &flat.type, PURPOSE_COMMUNICATION);
            parts[k] = (struct collect_part){dp->devices[k].stream, k ? NULL : &copies[i],
                                             k ? &copies[2 * k + i] : NULL};
        }
        write_collect(writer, i ? "replicate counts" : "replicate statistics", COLLECTIVE_BROADCAST,
                      REDUCE_SUM, dp->group, 0, 0, parts, dp->count);
    }
    for (int k = 1; k < dp->count; k++) {
        const struct graph *graph = dp->replicas[k].graph;
        for (int v = 0; v < graph->value_count; v++) {
            if (graph->values[v].kind != VALUE_STATE)
                continue;
            struct view mine = stage->state[graph->values[v].index];
            int which = mine.buffer == buffers[1];
            mine.buffer = copies[2 * k + which].buffer;
            pass_place(&dp->replicas[k].pass, v, k, mine);
        }
    }
    free(copies);
    free(parts);
}

static void replicate(struct data_parallel *dp, struct writer *writer)
{
    struct stage *stage = &dp->stage;
    const struct model *model = stage->graph->model;
    int count = model->parameter_count;
    struct view *tensors = memory_new_array((size_t)count, sizeof *tensors);
    struct view *out = memory_new_array((size_t)count * (size_t)dp->count, sizeof *out);
    /* with fp16 or bf16 the low copies travel: what the replicas compute with */
    bool low = false;
    for (int i = 0; i < count; i++)
        low |= stage->low[i].buffer >= 0;
    writer->work = WORK_COMMUNICATION;
    for (int set = 0; set < (low ? 2 : 1); set++) {
        int *which = memory_new_array((size_t)count, sizeof *which);
        int n = 0;
        for (int i = 0; i < count; i++) {
            bool has_low = stage->low[i].buffer >= 0;
            if (low && (set == 1) != has_low)
                continue;
            tensors[n] = has_low ? stage->low[i] : stage->parameter[i];
            which[n++] = i;
        }
        comm_broadcast_coalesced(writer, dp->devices, dp->count, dp->group, tensors, n,
                                 COALESCE_BYTES, out);
        for (int k = 1; k < dp->count; k++)
            for (int i = 0; i < n; i++) {
                const struct graph *graph = dp->replicas[k].graph;
                int value = stage->low[which[i]].buffer >= 0 ? graph->low_parameter[which[i]]
                                                             : graph->parameter_value[which[i]];
                pass_place(&dp->replicas[k].pass, value, k, out[k * n + i]);
            }
        free(which);
    }
    if (stage->state_values[0] >= 0)
        replicate_states(dp, writer);
    free(tensors);
    free(out);
}

static void span_all(struct data_parallel *dp, const char *name, bool begin)
{
    for (int k = 0; k < dp->count; k++)
        stage_span(&dp->stage, dp->replicas[k].pass.writer, k, name, begin);
}

/* One worker issues for all devices: layer by layer, so that all of them have work early. */
static void forward(struct data_parallel *dp)
{
    span_all(dp, "forward", true);
    for (int layer = 0; layer < dp->whole->model->layer_count; layer++)
        for (int k = 0; k < dp->count; k++)
            pass_forward(&dp->replicas[k].pass, layer, layer);
    span_all(dp, "forward", false);
}

static void backward(struct data_parallel *dp)
{
    span_all(dp, "backward", true);
    for (int layer = dp->whole->model->layer_count - 1; layer >= 0; layer--)
        for (int k = 0; k < dp->count; k++)
            pass_backward(&dp->replicas[k].pass, layer, layer);
    span_all(dp, "backward", false);
}

/* Gathered output, loss and its gradient on device 0, and the gradient scattered again. */
static void loss_on_device_0(struct data_parallel *dp, struct writer *writer, bool accumulate)
{
    struct stage *stage = &dp->stage;
    int last = dp->whole->model->layer_count - 1;
    int output = dp->whole->output_of[last];
    struct view all = stage_transient(writer, "gathered output", 0, &dp->whole->values[output].type,
                                      PURPOSE_ACTIVATIONS);
    struct pass pass;
    struct staged_inputs inputs = {.input = {.buffer = NOT_HERE}};
    struct view target = view_of(&stage->plan->roles[stage->role], stage->target);
    writer->work = WORK_COMMUNICATION;
    for (int k = 0; k < dp->count; k++) {
        struct replica *replica = &dp->replicas[k];
        struct view piece = pass_value(&replica->pass, replica->graph->output_of[last], k);
        stage_copy(stage, writer, "gather output", piece, k,
                   view_narrow(all, 0, replica->first, replica->rows), 0);
    }
    inputs.target = target;
    if (stage->plan->roles[stage->role].buffers[stage->target].device != 0) {
        inputs.target = stage_transient(writer, "target", 0, &target.type, PURPOSE_INPUTS);
        writer->work = WORK_INPUT;
        write_copy(writer, stage_compute(stage, 0), "target", target, inputs.target);
    }
    pass_init(&pass, stage, writer, dp->whole, -1);
    pass.accumulate = accumulate;
    pass_inputs(&pass, &inputs, 0);
    pass_place(&pass, output, 0, all);
    pass_loss(&pass);
    struct view gradient = pass_value(&pass, dp->whole->gradient_of[last], 0);
    writer->work = WORK_COMMUNICATION;
    for (int k = 0; k < dp->count; k++) {
        struct replica *replica = &dp->replicas[k];
        struct view piece = view_narrow(gradient, 0, replica->first, replica->rows);
        if (k > 0) {
            struct view there =
                stage_transient(writer, plan_text(stage->plan, "output gradient piece %d", k), k,
                                &piece.type, PURPOSE_ACTIVATIONS);
            stage_copy(stage, writer, "scatter gradient", piece, 0, there, k);
            piece = there;
        }
        pass_place(&replica->pass, replica->graph->gradient_of[last], k, piece);
    }
    pass_free(&pass);
}

/* Replicas write their gradients into memory of their own; with one replica there is nothing to
 * add. */
static void place_gradients(struct data_parallel *dp, struct writer *writer, struct view *gradients)
{
    struct stage *stage = &dp->stage;
    int count = stage->graph->model->parameter_count;
    for (int k = 0; k < dp->count; k++)
        for (int i = 0; i < count; i++) {
            const struct graph *graph = dp->replicas[k].graph;
            const char *name = stage->graph->model->parameters[i].name;
            gradients[k * count + i] =
                stage_transient(writer, plan_text(stage->plan, "replica %d grad %s", k, name), k,
                                &stage->gradient[i].type, PURPOSE_GRADIENTS);
            pass_place(&dp->replicas[k].pass, graph->parameter_gradient[i], k,
                       gradients[k * count + i]);
        }
}

static void write_list(struct data_parallel *dp, const char *name, bool accumulate, bool update)
{
    struct stage *stage = &dp->stage;
    int list = role_add_list(stage->plan, stage->role, name);
    struct writer writer = {stage->plan, stage->role, list, WORK_OTHER, -1};
    int count = stage->graph->model->parameter_count;
    struct view *gradients = memory_new_array((size_t)count * (size_t)dp->count, sizeof *gradients);
    stage_begin(stage, &writer);
    for (int k = 0; k < dp->count; k++) {
        struct replica *replica = &dp->replicas[k];
        pass_init(&replica->pass, stage, &writer, replica->graph, -1);
        replica->pass.device_of_layer = replica->device_of_layer;
        replica->pass.accumulate = dp->count == 1 && accumulate;
    }
    scatter_inputs(dp, &writer);
    if (dp->count > 1) {
        replicate(dp, &writer);
        place_gradients(dp, &writer, gradients);
    }
    forward(dp);
    loss_on_device_0(dp, &writer, accumulate);
    backward(dp);
    writer.work = WORK_COMMUNICATION;
    if (dp->count > 1)
        comm_reduce_add_coalesced(&writer, dp->devices, dp->count, dp->group, gradients, count,
                                  COALESCE_BYTES, stage->gradient, accumulate);
    if (update)
        stage_optimizer(stage, &writer);
    for (int k = 0; k < dp->count; k++)
        pass_free(&dp->replicas[k].pass);
    free(gradients);
}

static void free_all(struct data_parallel *dp, struct graph *whole)
{
    for (int k = 0; k < dp->count; k++)
        free(dp->replicas[k].device_of_layer);
    free(dp->replicas);
    free(dp->devices);
    for (int i = 0; i < 2; i++)
        if (dp->chunk[i])
            graph_free(dp->chunk[i]);
    graph_free(whole);
}

static enum rh_status build(const struct strategy_request *request, struct strategy_plan *out)
{
    struct data_parallel dp = {.request = request};
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {1}};
    struct graph *whole = NULL;
    int passes = request->training->accumulate;
    if (request->dp > 1 || request->pp > 1)
        return fail(RH_INVALID, "%s: data_parallel is one worker; mesh asks for %d", request->where,
                    request->dp > 1 ? request->dp : request->pp);
    struct graph_options options = stage_graph_options(request, request->batch, 1);
    RETURN_IF_FAILED(graph_new(request->model, &options, &whole));
    dp.whole = whole;
    enum rh_status status = make_replicas(&dp);
    if (status != RH_OK) {
        free_all(&dp, whole);
        return status;
    }
    int *device_of_layer = memory_new_array((size_t)request->model->layer_count + 1, sizeof(int));
    out->plan = plan_new("data_parallel", &mesh, -1);
    role_init(out->plan, 0, "worker", request->device_count);
    dp.group = plan_add_group(out->plan, "local", 0, 0, NULL);
    stage_init(&dp.stage, out->plan, 0, request, whole, device_of_layer, NULL, request->batch, -1);
    for (int k = 0; k < dp.count; k++)
        dp.devices[k] = (struct comm_device){k, stage_compute(&dp.stage, k)};
    if (passes > 1)
        write_list(&dp, "accumulate_first", false, false);
    if (passes > 1)
        write_list(&dp, "accumulate", true, false);
    write_list(&dp, "steady", passes > 1, true);
    order_add_step(out, 0, 1, passes > 1 ? 2 : 0, passes);
    stage_homes(&dp.stage, out);
    stage_free(&dp.stage);
    free(device_of_layer);
    free_all(&dp, whole);
    return RH_OK;
}

const struct strategy strategy_data_parallel = {
    .name = "data_parallel",
    .description = "DataParallel: one worker, many GPUs, everything gathered on the first",
    .build = build,
};
