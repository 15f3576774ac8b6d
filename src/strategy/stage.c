#include "strategy/scaler.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static int *new_indices(int count)
{
    int *indices = memory_new_array((size_t)count, sizeof *indices);
    for (int i = 0; i < count; i++)
        indices[i] = NOT_HERE;
    return indices;
}

static struct view *new_views(int count)
{
    struct view *views = memory_new_array((size_t)count, sizeof *views);
    for (int i = 0; i < count; i++)
        views[i].buffer = NOT_HERE;
    return views;
}

static struct role *role_of(const struct stage *stage)
{
    return &stage->plan->roles[stage->role];
}

int stage_compute(struct stage *stage, int device)
{
    int *stream = &stage->compute_stream[device];
    if (*stream < 0) {
        const char *name = device == stage->gpus ? "host"
                           : device == 0         ? "compute"
                                                 : plan_text(stage->plan, "compute %d", device);
        *stream = role_add_stream(stage->plan, stage->role, name, device);
    }
    return *stream;
}

int stage_communication(struct stage *stage, int device)
{
    int *stream = &stage->communication_stream[device];
    if (*stream < 0) {
        const char *name =
            device == 0 ? "communication" : plan_text(stage->plan, "communication %d", device);
        *stream = role_add_stream(stage->plan, stage->role, name, device);
    }
    return *stream;
}

static int add_persistent(struct stage *stage, const char *name, int device,
                          struct tensor_type type, enum purpose purpose, enum buffer_use use,
                          int index, int slot)
{
    return role_add_buffer(stage->plan, stage->role,
                           (struct buffer){.name = name,
                                           .device = device,
                                           .type = type,
                                           .purpose = purpose,
                                           .lifetime = LIFETIME_PERSISTENT,
                                           .list = -1,
                                           .use = use,
                                           .index = index,
                                           .slot = slot});
}

static void add_parameter(struct stage *stage, int index, int device)
{
    const struct graph *graph = stage->graph;
    const struct training *training = stage->request->training;
    struct role *role = role_of(stage);
    const char *name = graph->model->parameters[index].name;
    struct tensor_type type = graph->values[graph->parameter_value[index]].type;
    int buffer =
        add_persistent(stage, name, device, type, PURPOSE_PARAMETERS, USE_PARAMETER, index, 0);
    stage->parameter[index] = view_of(role, buffer);
    if (graph->low_parameter[index] >= 0) {
        buffer = add_persistent(stage, plan_text(stage->plan, "low %s", name), device,
                                graph->values[graph->low_parameter[index]].type, PURPOSE_PARAMETERS,
                                USE_NONE, index, 0);
        stage->low[index] = view_of(role, buffer);
    }
    bool adaptive = training->optimizer != OPTIMIZER_SGD;
    if (adaptive || training->momentum != 0)
        stage->momentum[index] =
            add_persistent(stage, plan_text(stage->plan, "momentum %s", name), device, type,
                           PURPOSE_OPTIMIZER, USE_OPTIMIZER, index, 0);
    if (adaptive)
        stage->variance[index] =
            add_persistent(stage, plan_text(stage->plan, "variance %s", name), device, type,
                           PURPOSE_OPTIMIZER, USE_OPTIMIZER, index, 1);
}

static void add_gradient(struct stage *stage, int index, int device)
{
    const struct graph *graph = stage->graph;
    const char *name = graph->model->parameters[index].name;
    int buffer = add_persistent(stage, plan_text(stage->plan, "grad %s", name), device,
                                graph->values[graph->parameter_value[index]].type,
                                PURPOSE_GRADIENTS, USE_GRADIENT, index, 0);
    stage->gradient[index] = view_of(role_of(stage), buffer);
}

/* All gradients of a device back to back, as they arrive: buckets are slices. */
static void add_flat_gradients(struct stage *stage, int device)
{
    const struct graph *graph = stage->graph;
    int *order = memory_new_array((size_t)graph->model->parameter_count, sizeof *order);
    int count = ddp_arrival_order(graph, stage->device_of_layer, order);
    int64_t elements = 0;
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        int buffer = NOT_HERE;
        if (pass == 1 && elements > 0)
            buffer = add_persistent(stage, "gradients", device,
                                    (struct tensor_type){DTYPE_F32, shape_of(1, &elements)},
                                    PURPOSE_GRADIENTS, USE_GRADIENT, -1, 0);
        for (int i = 0; i < count; i++) {
            const struct parameter *parameter = &graph->model->parameters[order[i]];
            const struct tensor_type *type = &graph->values[graph->parameter_value[order[i]]].type;
            int64_t size = shape_elements(&parameter->shape);
            if (stage->device_of_layer[parameter->layer] != device)
                continue;
            if (buffer >= 0)
                stage->gradient[order[i]] =
                    view_as(view_narrow(view_of(role_of(stage), buffer), 0, at, size), type);
            at += size;
        }
        elements = at;
    }
    free(order);
}

static void add_gradients(struct stage *stage, bool flat)
{
    const struct model *model = stage->graph->model;
    for (int device = 0; flat && device <= stage->gpus; device++)
        add_flat_gradients(stage, device);
    for (int i = 0; !flat && i < model->parameter_count; i++)
        if (stage->device_of_layer[model->parameters[i].layer] != NOT_HERE)
            add_gradient(stage, i, stage->device_of_layer[model->parameters[i].layer]);
}

/* All fp32 statistics of a device lie in one buffer and all counts in another, so that DDP
 * broadcasts them in two calls without packing. */
static void add_states(struct stage *stage, int device)
{
    const struct model *model = stage->graph->model;
    int64_t elements[2] = {0, 0};
    for (int pass = 0; pass < 2; pass++) {
        int64_t at[2] = {0, 0};
        for (int i = 0; i < model->state_count; i++) {
            const struct state *state = &model->states[i];
            if (stage->device_of_layer[state->layer] != device)
                continue;
            int whole = state->type.dtype == DTYPE_I64;
            int64_t count = shape_elements(&state->type.shape);
            if (pass == 1) {
                int buffer = whole ? stage->state_counts[device] : stage->state_values[device];
                struct view flat = view_of(role_of(stage), buffer);
                stage->state[i] = view_as(view_narrow(flat, 0, at[whole], count), &state->type);
            }
            at[whole] += count;
        }
        if (pass == 1 || at[0] + at[1] == 0)
            return;
        memcpy(elements, at, sizeof elements);
        struct tensor_type values = {DTYPE_F32, shape_of(1, &elements[0])};
        struct tensor_type counts = {DTYPE_I64, shape_of(1, &elements[1])};
        stage->state_values[device] = add_persistent(stage, "running statistics", device, values,
                                                     PURPOSE_PARAMETERS, USE_STATE, -1, 0);
        stage->state_counts[device] = add_persistent(stage, "running counts", device, counts,
                                                     PURPOSE_PARAMETERS, USE_STATE, -1, 1);
    }
}

static struct tensor_type control_type(void)
{
    int64_t elements = CONTROL_ELEMENTS;
    return (struct tensor_type){DTYPE_F32, shape_of(1, &elements)};
}

static int add_fed(struct stage *stage, const char *name, int device, struct tensor_type type,
                   enum buffer_use use, int64_t rows, int axis)
{
    int buffer = add_persistent(stage, name, device, type, PURPOSE_INPUTS, use, -1, 0);
    role_of(stage)->buffers[buffer].samples =
        (struct samples){.axis = axis,
                         .samples_per_pass = stage->request->batch,
                         .samples_per_coordinate = axis >= 0 ? rows : 0,
                         .first = 0,
                         .count = rows};
    return buffer;
}

static struct tensor_type with_rows(struct tensor_type type, int64_t rows)
{
    type.shape.dim[0] = rows;
    return type;
}

static void add_inputs(struct stage *stage, int64_t rows, int axis)
{
    const struct graph *graph = stage->graph;
    const struct model *model = graph->model;
    for (int i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layers[i];
        for (int k = 0; k < layer->input_count; k++)
            if (layer->inputs[k] == MODEL_INPUT && stage->device_of_layer[i] != NOT_HERE &&
                stage->input_device == NOT_HERE)
                stage->input_device = stage->device_of_layer[i];
    }
    stage->target_device = stage->device_of_layer[model->layer_count];
    bool resident = stage->request->resident;
    if (stage->input_device != NOT_HERE)
        stage->input =
            add_fed(stage, "input", resident ? stage->input_device : stage->gpus,
                    with_rows(graph->values[graph->input].type, rows), USE_INPUT, rows, axis);
    if (stage->target_device == NOT_HERE)
        return;
    stage->target =
        add_fed(stage, "target", resident ? stage->target_device : stage->gpus,
                with_rows(graph->values[graph->target].type, rows), USE_TARGET, rows, axis);
    stage->losses =
        add_persistent(stage, "losses", stage->target_device, graph->values[graph->losses].type,
                       PURPOSE_INPUTS, USE_LOSSES, -1, 0);
}

static void add_control(struct stage *stage, int device)
{
    if (stage->control[device] != NOT_HERE || device == stage->gpus)
        return;
    if (stage->request->resident)
        stage->control[device] = add_persistent(stage, "control", device, control_type(),
                                                PURPOSE_INPUTS, USE_CONTROL, -1, 0);
    else
        stage->control[device] = stage->control_host;
}

void stage_init(struct stage *stage, struct plan *plan, int role,
                const struct strategy_request *request, const struct graph *graph,
                const int *device_of_layer, const struct ddp_options *ddp, int64_t rows, int axis)
{
    const struct model *model = graph->model;
    int gpus = plan->roles[role].gpus;
    int parameters = model->parameter_count;
    *stage = (struct stage){.plan = plan,
                            .role = role,
                            .gpus = gpus,
                            .request = request,
                            .graph = graph,
                            .device_of_layer = device_of_layer,
                            .rows = rows,
                            .compute_stream = new_indices(gpus + 1),
                            .communication_stream = new_indices(gpus + 1),
                            .parameter = new_views(parameters),
                            .gradient = new_views(parameters),
                            .low = new_views(parameters),
                            .state = new_views(model->state_count),
                            .momentum = new_indices(parameters),
                            .variance = new_indices(parameters),
                            .count = new_indices(gpus + 1),
                            .control = new_indices(gpus + 1),
                            .scaler = NOT_HERE,
                            .control_host = NOT_HERE,
                            .control_now = new_views(gpus + 1),
                            .state_values = new_indices(gpus + 1),
                            .state_counts = new_indices(gpus + 1),
                            .input = NOT_HERE,
                            .target = NOT_HERE,
                            .losses = NOT_HERE,
                            .input_device = NOT_HERE,
                            .target_device = NOT_HERE};
    for (int i = 0; i <= model->layer_count; i++)
        if (device_of_layer[i] != NOT_HERE)
            stage_compute(stage, device_of_layer[i]);
    bool on_host = stage->compute_stream[gpus] >= 0;
    if (!request->resident || on_host)
        stage->control_host = stage->control[gpus] = add_persistent(
            stage, "control", gpus, control_type(), PURPOSE_INPUTS, USE_CONTROL, -1, 0);
    for (int i = 0; i < parameters; i++) {
        int device = device_of_layer[model->parameters[i].layer];
        if (device == NOT_HERE)
            continue;
        add_parameter(stage, i, device);
        add_control(stage, device);
        if (stage->count[device] == NOT_HERE)
            stage->count[device] = add_persistent(stage, "step count", device,
                                                  (struct tensor_type){.dtype = DTYPE_I64},
                                                  PURPOSE_OPTIMIZER, USE_OPTIMIZER, -1, 2);
    }
    add_gradients(stage, ddp && ddp->bucket_views);
    for (int device = 0; device <= gpus; device++)
        add_states(stage, device);
    add_inputs(stage, rows, axis);
    if (stage->target_device != NOT_HERE)
        add_control(stage, stage->target_device);
    scaler_add(stage);
}

void stage_free(struct stage *stage)
{
    free(stage->compute_stream);
    free(stage->communication_stream);
    free(stage->parameter);
    free(stage->gradient);
    free(stage->low);
    free(stage->state);
    free(stage->momentum);
    free(stage->variance);
    free(stage->count);
    free(stage->control);
    free(stage->control_now);
    free(stage->state_values);
    free(stage->state_counts);
}

void stage_homes(const struct stage *stage, struct strategy_plan *plan)
{
    const struct model *model = stage->graph->model;
    for (int i = 0; i < model->parameter_count; i++)
        if (stage->parameter[i].buffer >= 0)
            plan->parameters[i] = (struct tensor_home){stage->role, stage->parameter[i].buffer, 0};
    for (int i = 0; i < model->state_count; i++)
        if (stage->state[i].buffer >= 0)
            plan->states[i] =
                (struct tensor_home){stage->role, stage->state[i].buffer, stage->state[i].offset};
}
