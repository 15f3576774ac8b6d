#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "strategy/stage.h"

static struct view *slot(const struct pass *pass, int value, int device)
{
    return &pass->at[value * (pass->stage->gpus + 1) + device];
}

/* flatten gives its input's bytes another shape: the bytes are those of the root value. */
static int root_of(const struct graph *graph, int value)
{
    while (graph->values[value].alias_of >= 0)
        value = graph->values[value].alias_of;
    return value;
}

void pass_init(struct pass *pass, struct stage *stage, struct writer *writer,
               const struct graph *graph, int microbatch)
{
    int slots = graph->value_count * (stage->gpus + 1);
    *pass = (struct pass){.stage = stage,
                          .writer = writer,
                          .graph = graph,
                          .device_of_layer = stage->device_of_layer,
                          .at = memory_new_array((size_t)slots, sizeof *pass->at)};
    for (int i = 0; i < slots; i++)
        pass->at[i].buffer = NOT_HERE;
    writer->microbatch = microbatch;
}

void pass_free(struct pass *pass)
{
    free(pass->at);
    *pass = (struct pass){0};
}

void pass_place(struct pass *pass, int value, int device, struct view view)
{
    int root = root_of(pass->graph, value);
    *slot(pass, root, device) = view_as(view, &pass->graph->values[root].type);
}

void pass_inputs(struct pass *pass, const struct staged_inputs *inputs, int64_t first)
{
    const struct graph *graph = pass->graph;
    if (inputs->input.buffer >= 0)
        pass_place(pass, graph->input, pass->stage->input_device,
                   view_narrow(inputs->input, 0, first, graph->batch));
    if (inputs->target.buffer >= 0)
        pass_place(pass, graph->target, pass->stage->target_device,
                   view_narrow(inputs->target, 0, first, graph->batch));
}

bool pass_has(const struct pass *pass, int value)
{
    int root = root_of(pass->graph, value);
    for (int device = 0; device <= pass->stage->gpus; device++)
        if (slot(pass, root, device)->buffer >= 0)
            return true;
    return false;
}

/* Where the stage itself keeps a value; buffer -1 if it does not. */
static struct view persistent_view(const struct pass *pass, const struct value *value, int device)
{
    const struct stage *stage = pass->stage;
    switch (value->kind) {
    case VALUE_PARAMETER: return stage->parameter[value->index];
    case VALUE_LOW_PARAMETER: return stage->low[value->index];
    case VALUE_PARAMETER_GRADIENT: return stage->gradient[value->index];
    case VALUE_STATE: return stage->state[value->index];
    case VALUE_CONTROL: return stage->control_now[device];
    case VALUE_LOSSES: return view_of(&stage->plan->roles[stage->role], stage->losses);
    case VALUE_SCALER: return view_of(&stage->plan->roles[stage->role], stage->scaler);
    default: return (struct view){.buffer = NOT_HERE};
    }
}

static const char *value_name(struct pass *pass, const struct value *value)
{
    int microbatch = pass->writer->microbatch;
    return microbatch < 0 ? value->name
                          : plan_text(pass->stage->plan, "%s [%d]", value->name, microbatch);
}

struct view pass_value(struct pass *pass, int value, int device)
{
    const struct graph *graph = pass->graph;
    int root = root_of(graph, value);
    struct view *here = slot(pass, root, device);
    if (here->buffer < 0)
        *here = persistent_view(pass, &graph->values[root], device);
    for (int other = 0; here->buffer < 0 && other <= pass->stage->gpus; other++) {
        struct view there = *slot(pass, root, other);
        if (there.buffer < 0)
            continue;
        const char *name = value_name(pass, &graph->values[root]);
        struct writer *writer = pass->writer;
        struct view copy =
            stage_transient(writer, name, device, &graph->values[root].type, PURPOSE_ACTIVATIONS);
        enum work work = writer->work;
        writer->work = WORK_COMMUNICATION;
        stage_copy(pass->stage, writer, name, there, other, copy, device);
        writer->work = work;
        *here = copy;
    }
    assert(here->buffer >= 0 && "a value is read before it is written");
    return root == value ? *here : view_as(*here, &graph->values[value].type);
}

static struct view written_view(struct pass *pass, int value, int device)
{
    const struct graph *graph = pass->graph;
    int root = root_of(graph, value);
    struct view *here = slot(pass, root, device);
    if (here->buffer < 0)
        *here = persistent_view(pass, &graph->values[root], device);
    if (here->buffer < 0)
        *here = stage_transient(pass->writer, value_name(pass, &graph->values[root]), device,
                                &graph->values[root].type, PURPOSE_ACTIVATIONS);
    return root == value ? *here : view_as(*here, &graph->values[value].type);
}

static const char *node_name(const struct pass *pass, const struct node *node)
{
    const struct model *model = pass->graph->model;
    return node->layer < model->layer_count ? model->layers[node->layer].name : "loss";
}

static enum work node_work(const struct node *node)
{
    if (node->phase == PHASE_FORWARD)
        return WORK_FORWARD;
    if (node->phase != PHASE_LOSS)
        return WORK_BACKWARD;
    bool gradient = node->op.kind == OP_mse_loss_grad || node->op.kind == OP_cross_entropy_grad;
    return gradient ? WORK_BACKWARD : WORK_FORWARD;
}

void pass_node(struct pass *pass, const struct node *node)
{
    enum { MOST = 16 };
    const struct graph *graph = pass->graph;
    int device = pass->device_of_layer[node->layer];
    if (device == NOT_HERE)
        return;
    struct view reads[MOST];
    struct view writes[MOST];
    assert(node->read_count <= MOST && node->write_count <= MOST);
    pass->writer->work = node_work(node);
    for (int i = 0; i < node->read_count; i++)
        reads[i] = pass_value(pass, graph->operands[node->read_first + i], device);
    for (int i = 0; i < node->write_count; i++)
        writes[i] = written_view(pass, graph->operands[node->write_first + i], device);
    struct op op = node->op;
    bool adds = node->phase == PHASE_BACKWARD_WEIGHT || op.kind == OP_mse_loss ||
                op.kind == OP_cross_entropy;
    op.accumulate = adds && pass->accumulate;
    write_compute(pass->writer, stage_compute(pass->stage, device), node_name(pass, node), &op,
                  reads, node->read_count, writes, node->write_count);
    /* torch's order of arrival: the bias's gradient before the weight's */
    for (int i = node->write_count - 1; i >= 0 && pass->gradient_ready; i--) {
        const struct value *value = &graph->values[graph->operands[node->write_first + i]];
        if (value->kind == VALUE_PARAMETER_GRADIENT)
            pass->gradient_ready(pass->context, value->index);
    }
}

void pass_forward(struct pass *pass, int first_layer, int last_layer)
{
    for (int i = 0; i < pass->graph->node_count; i++) {
        const struct node *node = &pass->graph->nodes[i];
        if (node->phase != PHASE_FORWARD)
            break;
        if (node->layer >= first_layer && node->layer <= last_layer)
            pass_node(pass, node);
    }
}

void pass_loss(struct pass *pass)
{
    for (int i = 0; i < pass->graph->node_count; i++)
        if (pass->graph->nodes[i].phase == PHASE_LOSS)
            pass_node(pass, &pass->graph->nodes[i]);
}

void pass_backward(struct pass *pass, int first_layer, int last_layer)
{
    for (int i = 0; i < pass->graph->node_count; i++) {
        const struct node *node = &pass->graph->nodes[i];
        bool backward = node->phase == PHASE_BACKWARD_INPUT || node->phase == PHASE_BACKWARD_WEIGHT;
        if (backward && node->layer >= first_layer && node->layer <= last_layer)
            pass_node(pass, node);
    }
}
