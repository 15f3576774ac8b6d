#include "model/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/derive.h"
#include "op/layout.h"

int derive_value(struct derive *d, const char *prefix, const char *name, enum value_kind kind,
                 struct tensor_type type, int layer, int index)
{
    struct graph *g = d->graph;
    type.channels_last = d->options.channels_last && type.shape.rank == 4;
    size_t before = strlen(prefix);
    size_t after = strlen(name) + 1;
    char *text = memory_new(before + after);
    memcpy(text, prefix, before);
    memcpy(text + before, name, after);
    *ARRAY_ADD(g->values, g->value_count, g->value_capacity) = (struct value){
        .name = text, .kind = kind, .type = type, .layer = layer, .index = index, .alias_of = -1};
    return g->value_count - 1;
}

static int add_operands(struct graph *g, const int *values, int count)
{
    int first = g->operand_count;
    for (int i = 0; i < count; i++)
        *ARRAY_ADD(g->operands, g->operand_count, g->operand_capacity) = values[i];
    return first;
}

void derive_node(struct derive *d, const struct op *op, enum phase phase, int layer,
                 const int *reads, int read_count, const int *writes, int write_count)
{
    struct graph *g = d->graph;
    struct node node = {.op = *op,
                        .phase = phase,
                        .layer = layer,
                        .read_count = read_count,
                        .write_count = write_count};
    node.read_first = add_operands(g, reads, read_count);
    node.write_first = add_operands(g, writes, write_count);
    *ARRAY_ADD(g->nodes, g->node_count, g->node_capacity) = node;
}

int derive_input(const struct derive *d, int layer, int input)
{
    int from = d->model->layers[layer].inputs[input];
    return from == MODEL_INPUT ? d->graph->input : d->graph->output_of[from];
}

int derive_parameter(const struct derive *d, int layer, int which)
{
    int index = d->model->layers[layer].parameter_first + which;
    int low = d->graph->low_parameter[index];
    return low >= 0 ? low : d->graph->parameter_value[index];
}

static bool is_low(enum dtype precision)
{
    return precision == DTYPE_BF16 || precision == DTYPE_F16;
}

static enum dtype stored_as(enum dtype precision)
{
    return is_low(precision) ? precision : DTYPE_F32;
}

static bool uses_matrix_units(enum op_kind kind)
{
    return op_class(kind) == OP_CLASS_MATMUL || op_class(kind) == OP_CLASS_CONVOLUTION;
}

static void add_parameters(struct derive *d)
{
    const struct model *m = d->model;
    struct graph *g = d->graph;
    for (int i = 0; i < m->parameter_count; i++) {
        const struct parameter *p = &m->parameters[i];
        struct tensor_type type = {DTYPE_F32, p->shape};
        bool low = is_low(d->options.precision) && m->layers[p->layer].op.kind != OP_batch_norm2d;
        g->parameter_value[i] = derive_value(d, "", p->name, VALUE_PARAMETER, type, p->layer, i);
        g->parameter_gradient[i] = -1;
        g->low_parameter[i] = -1;
        if (low) {
            type.dtype = d->options.precision;
            g->low_parameter[i] =
                derive_value(d, "low ", p->name, VALUE_LOW_PARAMETER, type, p->layer, i);
        }
    }
}

/* Batch norm reads and, while training, updates its statistics and keeps the batch's. */
static void forward_batch_norm(struct derive *d, int layer, const struct op *op, int *reads,
                               int read_count, int output)
{
    const struct model *m = d->model;
    const struct layer *l = &m->layers[layer];
    int writes[OP_MAX_WRITES] = {output};
    int write_count = 1;
    struct tensor_type channels = m->states[l->state_first].type;
    if (op->norm.training) {
        writes[write_count++] = d->saved_mean[layer] =
            derive_value(d, "mean of ", l->name, VALUE_ACTIVATION, channels, layer, -1);
        writes[write_count++] = d->saved_invstd[layer] =
            derive_value(d, "invstd of ", l->name, VALUE_ACTIVATION, channels, layer, -1);
    }
    for (int i = 0; i < l->state_count; i++) {
        const struct state *state = &m->states[l->state_first + i];
        int value =
            derive_value(d, "", state->name, VALUE_STATE, state->type, layer, l->state_first + i);
        reads[read_count++] = value;
        if (op->norm.training)
            writes[write_count++] = value;
    }
    derive_node(d, op, PHASE_FORWARD, layer, reads, read_count, writes, write_count);
}

int derive_reordered(struct derive *d, int value, enum phase phase, int layer, bool channels_last)
{
    struct graph *g = d->graph;
    struct op op = {.kind = OP_cast, .compute = DTYPE_F32};
    int out = derive_value(d, channels_last ? "" : "row-major ", g->values[value].name,
                           g->values[value].kind, g->values[value].type, layer, -1);
    g->values[out].type.channels_last = channels_last;
    derive_node(d, &op, phase, layer, &value, 1, &out, 1);
    return out;
}

/* The same bytes under another shape, in row-major order as torch's. */
static int flat_bytes(struct derive *d, int value, int layer)
{
    if (!layout_reorders(&d->graph->values[value].type))
        return value;
    return derive_reordered(d, value, PHASE_FORWARD, layer, false);
}

static void forward_layer(struct derive *d, int layer, const struct tensor_type *type)
{
    const struct layer *l = &d->model->layers[layer];
    struct graph *g = d->graph;
    struct op op = l->op;
    int reads[8];
    int read_count = 0;
    op.compute = uses_matrix_units(op.kind) ? d->options.precision : DTYPE_F32;
    if (op.kind == OP_batch_norm2d)
        op.norm.training = d->options.training;
    for (int i = 0; i < l->input_count; i++)
        reads[read_count++] = derive_input(d, layer, i);
    for (int i = 0; i < l->parameter_count; i++)
        reads[read_count++] = derive_parameter(d, layer, i);
    if (op.kind == OP_flatten)
        reads[0] = flat_bytes(d, reads[0], layer);
    int output = derive_value(d, "", l->name, VALUE_ACTIVATION, *type, layer, -1);
    g->output_of[layer] = output;
    if (op.kind == OP_flatten)
        g->values[output].alias_of = reads[0];
    else if (op.kind == OP_batch_norm2d)
        forward_batch_norm(d, layer, &op, reads, read_count, output);
    else
        derive_node(d, &op, PHASE_FORWARD, layer, reads, read_count, &output, 1);
}

static enum rh_status forward(struct derive *d)
{
    const struct model *m = d->model;
    struct tensor_type *types = memory_new_array((size_t)m->layer_count, sizeof *types);
    enum rh_status status = model_types(m, d->options.batch, types);
    for (int i = 0; i < m->layer_count && status == RH_OK; i++) {
        types[i].dtype = stored_as(d->options.precision);
        forward_layer(d, i, &types[i]);
    }
    free(types);
    return status;
}

enum rh_status graph_target_type(const struct model *m, enum loss_kind loss, int64_t batch,
                                 struct tensor_type *type)
{
    char text[64];
    *type = model_output_type(m, m->layer_count - 1);
    type->shape.dim[0] = batch;
    if (loss == LOSS_MSE)
        return RH_OK;
    if (type->shape.rank != 2)
        return fail(RH_INVALID, "model '%s': cross entropy wants outputs (n, classes); they are %s",
                    m->name, shape_text(text, &type->shape));
    type->dtype = DTYPE_I64;
    type->shape.rank = 1;
    return RH_OK;
}

/* The loss and its gradient; returns the value of the latter. */
static int add_loss(struct derive *d)
{
    const struct model *m = d->model;
    struct graph *g = d->graph;
    bool mse = d->options.loss == LOSS_MSE;
    struct op op = {.kind = mse ? OP_mse_loss : OP_cross_entropy, .compute = DTYPE_F32};
    int output = g->output_of[m->layer_count - 1];
    int reads[3] = {output, g->target, g->control};
    const int gradient_reads[3] = {output, g->target, g->scaler};
    op.loss.weight = d->options.loss_weight;
    op.loss.sum = d->options.loss_sum;
    derive_node(d, &op, PHASE_LOSS, m->layer_count, reads, 3, &g->losses, 1);
    if (!d->options.training)
        return -1;
    op.kind = mse ? OP_mse_loss_grad : OP_cross_entropy_grad;
    op.scaled = g->scaler >= 0;
    int gradient = derive_value(d, "grad ", m->layers[m->layer_count - 1].name, VALUE_GRADIENT,
                                g->values[output].type, m->layer_count, -1);
    derive_node(d, &op, PHASE_LOSS, m->layer_count, gradient_reads, op.scaled ? 3 : 2, &gradient,
                1);
    return gradient;
}

static enum rh_status check_used(const struct model *m)
{
    bool *used = memory_new_array((size_t)m->layer_count, sizeof *used);
    enum rh_status status = RH_OK;
    for (int i = 0; i < m->layer_count; i++)
        for (int k = 0; k < m->layers[i].input_count; k++)
            if (m->layers[i].inputs[k] >= 0)
                used[m->layers[i].inputs[k]] = true;
    for (int i = 0; i + 1 < m->layer_count && status == RH_OK; i++)
        if (!used[i])
            status = fail(RH_INVALID, "model '%s': no layer reads '%s' (layer %d of %d)", m->name,
                          m->layers[i].name, i, m->layer_count);
    free(used);
    return status;
}

static void add_fed_values(struct derive *d, const struct tensor_type *target)
{
    struct graph *g = d->graph;
    struct tensor_type input = model_output_type(d->model, MODEL_INPUT);
    int64_t control[1] = {CONTROL_ELEMENTS};
    int64_t slots[1] = {d->options.loss_slots};
    int64_t scaler[1] = {SCALER_ELEMENTS};
    int last = d->model->layer_count;
    input.shape.dim[0] = d->options.batch;
    if (input.dtype == DTYPE_F32)
        input.dtype = stored_as(d->options.precision);
    struct tensor_type label = *target;
    if (label.dtype == DTYPE_F32)
        label.dtype = stored_as(d->options.precision);
    g->input = derive_value(d, "", "input", VALUE_INPUT, input, -1, -1);
    g->target = derive_value(d, "", "target", VALUE_TARGET, label, last, -1);
    g->control = derive_value(d, "", "control", VALUE_CONTROL,
                              (struct tensor_type){DTYPE_F32, shape_of(1, control)}, last, -1);
    g->losses = derive_value(d, "", "losses", VALUE_LOSSES,
                             (struct tensor_type){DTYPE_F32, shape_of(1, slots)}, last, -1);
    g->scaler = -1;
    if (d->options.scaled)
        g->scaler = derive_value(d, "", "scaler", VALUE_SCALER,
                                 (struct tensor_type){DTYPE_F32, shape_of(1, scaler)}, last, -1);
}

static enum rh_status build(struct derive *d)
{
    struct tensor_type target;
    if (d->model->layer_count == 0)
        return fail(RH_INVALID, "model '%s' has no layers", d->model->name);
    if (d->options.batch < 1)
        return fail(RH_INVALID, "model '%s': a batch of %lld; at least 1 is expected",
                    d->model->name, (long long)d->options.batch);
    RETURN_IF_FAILED(check_used(d->model));
    RETURN_IF_FAILED(graph_target_type(d->model, d->options.loss, d->options.batch, &target));
    add_fed_values(d, &target);
    add_parameters(d);
    RETURN_IF_FAILED(forward(d));
    int gradient = add_loss(d);
    if (d->options.training)
        derive_backward(d, gradient);
    return RH_OK;
}

static int *new_indices(int count)
{
    int *indices = memory_new_array((size_t)count + 1, sizeof *indices);
    for (int i = 0; i <= count; i++)
        indices[i] = -1;
    return indices;
}

enum rh_status graph_new(const struct model *model, const struct graph_options *options,
                         struct graph **out)
{
    int layers = model->layer_count;
    struct graph *g = memory_new(sizeof *g);
    struct derive d = {.graph = g,
                       .model = model,
                       .options = *options,
                       .saved_mean = new_indices(layers),
                       .saved_invstd = new_indices(layers),
                       .needs_gradient = memory_new_array((size_t)layers, sizeof(bool)),
                       .gradient_so_far = new_indices(layers)};
    g->model = model;
    g->batch = options->batch;
    g->output_of = new_indices(layers);
    g->gradient_of = new_indices(layers);
    g->parameter_value = new_indices(model->parameter_count);
    g->parameter_gradient = new_indices(model->parameter_count);
    g->low_parameter = new_indices(model->parameter_count);
    enum rh_status status = build(&d);
    free(d.gradient_so_far);
    free(d.needs_gradient);
    free(d.saved_mean);
    free(d.saved_invstd);
    if (status != RH_OK) {
        graph_free(g);
        g = NULL;
    }
    *out = g;
    return status;
}

void graph_free(struct graph *g)
{
    for (int i = 0; i < g->value_count; i++)
        free(g->values[i].name);
    free(g->values);
    free(g->nodes);
    free(g->operands);
    free(g->output_of);
    free(g->gradient_of);
    free(g->parameter_value);
    free(g->parameter_gradient);
    free(g->low_parameter);
    free(g);
}
