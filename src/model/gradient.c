/* One rule an op: what its backward reads and gives. The input's and the weights' gradient are ops
 * of their own, so that a schedule may take them apart (zero bubble). */
#include <assert.h>

#include "base/memory.h"
#include "model/derive.h"
#include "op/layout.h"

/* `reader` gives a gradient to a layer's output. What several readers give is added up where the
 * nearest of them is, so that one gradient goes back over a boundary that the value crossed once.
 */
static void contribute(struct derive *d, int layer, int reader, int gradient)
{
    if (layer < 0 || !d->needs_gradient[layer])
        return;
    int *sum = &d->gradient_so_far[layer];
    if (*sum < 0) {
        *sum = gradient;
        return;
    }
    struct op op = {.kind = OP_add, .compute = DTYPE_F32};
    const int reads[2] = {*sum, gradient};
    int write = derive_value(d, "sum of grad ", d->model->layers[layer].name, VALUE_GRADIENT,
                             d->graph->values[*sum].type, reader, -1);
    derive_node(d, &op, PHASE_BACKWARD_INPUT, reader, reads, 2, &write, 1);
    *sum = write;
}

static bool input_wants_gradient(const struct derive *d, int layer)
{
    int from = d->model->layers[layer].inputs[0];
    return from >= 0 && d->needs_gradient[from];
}

static void input_node(struct derive *d, int layer, enum op_kind kind, const int *reads, int count)
{
    struct op op = d->model->layers[layer].op;
    int from = d->model->layers[layer].inputs[0];
    if (!input_wants_gradient(d, layer))
        return;
    op.kind = kind;
    op.compute = op_class(kind) == OP_CLASS_MATMUL || op_class(kind) == OP_CLASS_CONVOLUTION
                     ? d->options.precision
                     : DTYPE_F32;
    if (d->model->layers[layer].op.kind == OP_batch_norm2d)
        op.norm.training = true;
    int write = derive_value(d, "grad ", d->model->layers[from].name, VALUE_GRADIENT,
                             d->graph->values[d->graph->output_of[from]].type, layer, -1);
    derive_node(d, &op, PHASE_BACKWARD_INPUT, layer, reads, count, &write, 1);
    contribute(d, from, layer, write);
}

static void weight_node(struct derive *d, int layer, enum op_kind kind, const int *reads, int count)
{
    const struct layer *l = &d->model->layers[layer];
    struct op op = l->op;
    int writes[2];
    op.kind = kind;
    op.compute = op_class(kind) == OP_CLASS_MATMUL || op_class(kind) == OP_CLASS_CONVOLUTION
                     ? d->options.precision
                     : DTYPE_F32;
    for (int i = 0; i < l->parameter_count; i++) {
        int index = l->parameter_first + i;
        struct tensor_type type = {DTYPE_F32, d->model->parameters[index].shape};
        writes[i] = derive_value(d, "grad ", d->model->parameters[index].name,
                                 VALUE_PARAMETER_GRADIENT, type, layer, index);
        d->graph->parameter_gradient[index] = writes[i];
    }
    derive_node(d, &op, PHASE_BACKWARD_WEIGHT, layer, reads, count, writes, l->parameter_count);
}

static void linear(struct derive *d, int layer, int gradient)
{
    const int for_input[2] = {gradient, derive_parameter(d, layer, 0)};
    const int for_weight[2] = {gradient, derive_input(d, layer, 0)};
    input_node(d, layer, OP_linear_input_grad, for_input, 2);
    weight_node(d, layer, OP_linear_weight_grad, for_weight, 2);
}

static void conv2d(struct derive *d, int layer, int gradient)
{
    const int for_input[2] = {gradient, derive_parameter(d, layer, 0)};
    const int for_weight[2] = {gradient, derive_input(d, layer, 0)};
    input_node(d, layer, OP_conv2d_input_grad, for_input, 2);
    weight_node(d, layer, OP_conv2d_weight_grad, for_weight, 2);
}

static void batch_norm2d(struct derive *d, int layer, int gradient)
{
    int x = derive_input(d, layer, 0);
    const int for_input[5] = {gradient, x, derive_parameter(d, layer, 0), d->saved_mean[layer],
                              d->saved_invstd[layer]};
    const int for_weight[4] = {gradient, x, d->saved_mean[layer], d->saved_invstd[layer]};
    input_node(d, layer, OP_batch_norm2d_input_grad, for_input, 5);
    weight_node(d, layer, OP_batch_norm2d_weight_grad, for_weight, 4);
}

static void relu(struct derive *d, int layer, int gradient)
{
    const int reads[2] = {gradient, d->graph->output_of[layer]};
    input_node(d, layer, OP_relu_grad, reads, 2);
}

/* Both inputs take the same gradient: no op, no copy. */
static void add(struct derive *d, int layer, int gradient)
{
    for (int i = 0; i < 2; i++)
        contribute(d, d->model->layers[layer].inputs[i], layer, gradient);
}

static void max_pool2d(struct derive *d, int layer, int gradient)
{
    const int reads[3] = {gradient, derive_input(d, layer, 0), d->graph->output_of[layer]};
    input_node(d, layer, OP_max_pool2d_grad, reads, 3);
}

static void avg_pool2d(struct derive *d, int layer, int gradient)
{
    input_node(d, layer, OP_avg_pool2d_grad, &gradient, 1);
}

/* The same bytes under the input's shape; reordered where the input is channels last. */
static void flatten(struct derive *d, int layer, int gradient)
{
    struct graph *g = d->graph;
    int from = d->model->layers[layer].inputs[0];
    if (!input_wants_gradient(d, layer))
        return;
    struct tensor_type type = g->values[g->output_of[from]].type;
    int alias =
        derive_value(d, "grad ", d->model->layers[from].name, VALUE_GRADIENT, type, layer, -1);
    g->values[alias].alias_of = gradient;
    if (layout_reorders(&type)) {
        g->values[alias].type.channels_last = false;
        alias = derive_reordered(d, alias, PHASE_BACKWARD_INPUT, layer, true);
    }
    contribute(d, from, layer, alias);
}

static void embedding(struct derive *d, int layer, int gradient)
{
    const int reads[2] = {gradient, derive_input(d, layer, 0)};
    weight_node(d, layer, OP_embedding_weight_grad, reads, 2);
}

typedef void gradient_rule(struct derive *d, int layer, int gradient);

static gradient_rule *const rules[OP_COUNT] = {
    [OP_linear] = linear,
    [OP_conv2d] = conv2d,
    [OP_batch_norm2d] = batch_norm2d,
    [OP_relu] = relu,
    [OP_add] = add,
    [OP_max_pool2d] = max_pool2d,
    [OP_avg_pool2d] = avg_pool2d,
    [OP_flatten] = flatten,
    [OP_embedding] = embedding,
};

void derive_backward(struct derive *d, int loss_gradient)
{
    const struct model *m = d->model;
    for (int i = 0; i < m->layer_count; i++) {
        const struct layer *l = &m->layers[i];
        d->needs_gradient[i] = l->parameter_count > 0;
        for (int k = 0; k < l->input_count; k++)
            d->needs_gradient[i] |= l->inputs[k] >= 0 && d->needs_gradient[l->inputs[k]];
    }
    contribute(d, m->layer_count - 1, m->layer_count, loss_gradient);
    for (int i = m->layer_count - 1; i >= 0; i--) {
        int gradient = d->gradient_so_far[i];
        if (gradient < 0)
            continue;
        d->graph->gradient_of[i] = gradient;
        assert(rules[m->layers[i].op.kind] && "every forward op has a gradient rule");
        rules[m->layers[i].op.kind](d, i, gradient);
    }
}
