#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct model *model_new(const char *name, const struct tensor_type *input)
{
    struct model *m = memory_new(sizeof *m);
    m->name = text_copy(name);
    m->input = *input;
    return m;
}

void model_free(struct model *m)
{
    for (int i = 0; i < m->layer_count; i++)
        free(m->layers[i].name);
    for (int i = 0; i < m->parameter_count; i++)
        free(m->parameters[i].name);
    for (int i = 0; i < m->state_count; i++)
        free(m->states[i].name);
    free(m->layers);
    free(m->parameters);
    free(m->states);
    free(m->outputs);
    free(m->name);
    free(m);
}

/* Output types are kept for a batch of one, so that a new layer costs no walk over the old ones. */
struct tensor_type model_output_type(const struct model *m, int layer)
{
    if (layer >= 0)
        return m->outputs[layer];
    struct tensor_type type = m->input;
    type.shape.rank++;
    memmove(&type.shape.dim[1], &type.shape.dim[0], (MAX_RANK - 1) * sizeof type.shape.dim[0]);
    type.shape.dim[0] = 1;
    return type;
}

int model_find_layer(const struct model *m, const char *name)
{
    for (int i = m->layer_count - 1; i >= 0; i--)
        if (strcmp(m->layers[i].name, name) == 0)
            return i;
    return -1;
}

/* Saturates, as shape_elements does. */
int64_t model_parameter_elements(const struct model *m)
{
    int64_t elements = 0;
    for (int i = 0; i < m->parameter_count; i++)
        if (__builtin_add_overflow(elements, shape_elements(&m->parameters[i].shape), &elements))
            return INT64_MAX;
    return elements;
}

/* The types of a layer's reads: its inputs, then parameters, then states. */
static int read_types(const struct model *m, const struct layer *layer,
                      const struct tensor_type *inputs, struct tensor_type *reads)
{
    int count = 0;
    for (int i = 0; i < layer->input_count; i++)
        reads[count++] = inputs[i];
    for (int i = 0; i < layer->parameter_count; i++)
        reads[count++] =
            (struct tensor_type){DTYPE_F32, m->parameters[layer->parameter_first + i].shape};
    for (int i = 0; i < layer->state_count; i++)
        reads[count++] = m->states[layer->state_first + i].type;
    return count;
}

static void drop_layer(struct model *m)
{
    struct layer *layer = &m->layers[m->layer_count - 1];
    while (m->parameter_count > layer->parameter_first)
        free(m->parameters[--m->parameter_count].name);
    while (m->state_count > layer->state_first)
        free(m->states[--m->state_count].name);
    free(layer->name);
    m->layer_count--;
}

/* Infers the new last layer's output; a layer that does not fit is taken back. */
static enum rh_status finish_layer(struct model *m, int *index)
{
    struct layer *layer = &m->layers[m->layer_count - 1];
    struct tensor_type inputs[LAYER_MAX_INPUTS];
    struct tensor_type reads[8];
    struct tensor_type writes[OP_MAX_WRITES];
    int write_count = 0;
    for (int i = 0; i < layer->input_count; i++)
        inputs[i] = model_output_type(m, layer->inputs[i]);
    struct op op = layer->op;
    if (op.kind == OP_batch_norm2d)
        op.norm.training = false; /* a batch of one may be too small for statistics */
    int read_count = read_types(m, layer, inputs, reads);
    enum rh_status status = op_infer(&op, reads, read_count, writes, &write_count);
    if (status != RH_OK) {
        fail_within(status, "model '%s': layer '%s'", m->name, layer->name);
        drop_layer(m);
        return status;
    }
    if (m->layer_count > m->output_capacity) {
        m->output_capacity = m->layer_capacity;
        m->outputs = memory_resize(m->outputs, (size_t)m->output_capacity, sizeof *m->outputs);
    }
    m->outputs[m->layer_count - 1] = writes[0];
    *index = m->layer_count - 1;
    return RH_OK;
}

static enum rh_status add_layer(struct model *m, const char *name, struct op op, int input_count,
                                const int *inputs, struct layer **out)
{
    for (int i = 0; i < input_count; i++)
        if (inputs[i] < MODEL_INPUT || inputs[i] >= m->layer_count)
            return fail(RH_INVALID, "model '%s': layer '%s' reads layer %d; there are %d", m->name,
                        name, inputs[i], m->layer_count);
    if (!*name)
        return fail(RH_INVALID, "model '%s': layer %d has an empty name", m->name, m->layer_count);
    if (strcmp(name, "input") == 0)
        return fail(RH_INVALID, "model '%s': layer 'input': 'input' is the model's own input",
                    m->name);
    if (model_find_layer(m, name) >= 0)
        return fail(RH_INVALID, "model '%s': layer '%s' is there twice", m->name, name);
    struct layer *layer = ARRAY_ADD(m->layers, m->layer_count, m->layer_capacity);
    op.compute = DTYPE_F32;
    *layer = (struct layer){.name = text_copy(name),
                            .op = op,
                            .input_count = input_count,
                            .parameter_first = m->parameter_count,
                            .state_first = m->state_count};
    memcpy(layer->inputs, inputs, (size_t)input_count * sizeof *inputs);
    *out = layer;
    return RH_OK;
}

static void add_parameter(struct model *m, struct layer *layer, const char *suffix,
                          struct shape shape, enum init_kind init, double scale)
{
    *ARRAY_ADD(m->parameters, m->parameter_count, m->parameter_capacity) =
        (struct parameter){.name = text_format("%s.%s", layer->name, suffix),
                           .shape = shape,
                           .layer = m->layer_count - 1,
                           .init = init,
                           .init_scale = scale};
    layer->parameter_count++;
}

static void add_state(struct model *m, struct layer *layer, const char *suffix,
                      struct tensor_type type, enum init_kind init)
{
    *ARRAY_ADD(m->states, m->state_count, m->state_capacity) =
        (struct state){.name = text_format("%s.%s", layer->name, suffix),
                       .type = type,
                       .layer = m->layer_count - 1,
                       .init = init};
    layer->state_count++;
}

static enum rh_status need_rank(const struct model *m, const char *name, int input, int rank,
                                struct tensor_type *type)
{
    char text[64];
    if (input < MODEL_INPUT || input >= m->layer_count)
        return fail(RH_INVALID, "model '%s': layer '%s' reads layer %d; there are %d", m->name,
                    name, input, m->layer_count);
    *type = model_output_type(m, input);
    if (type->shape.rank != rank)
        return fail(RH_INVALID,
                    "model '%s': layer '%s' wants %d dimensions with the batch; it gets %s",
                    m->name, name, rank, shape_text(text, &type->shape));
    return RH_OK;
}

/* torch's default for linear and conv layers: kaiming_uniform(a = sqrt 5), that is ±1/sqrt(fan_in).
 */
static void add_weights(struct model *m, struct layer *layer, struct shape weight, bool bias)
{
    int64_t fan_in = shape_elements(&weight) / weight.dim[0];
    double bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    add_parameter(m, layer, "weight", weight, INIT_UNIFORM, bound);
    if (bias)
        add_parameter(m, layer, "bias", shape_of(1, &weight.dim[0]), INIT_UNIFORM, bound);
}

enum rh_status model_linear(struct model *m, const char *name, int input, int64_t out, bool bias,
                            int *index)
{
    struct tensor_type type;
    struct layer *layer = NULL;
    RETURN_IF_FAILED(need_rank(m, name, input, 2, &type));
    RETURN_IF_FAILED(add_layer(m, name, (struct op){.kind = OP_linear}, 1, &input, &layer));
    int64_t dims[2] = {out, type.shape.dim[1]};
    add_weights(m, layer, shape_of(2, dims), bias);
    return finish_layer(m, index);
}

enum rh_status model_conv2d(struct model *m, const char *name, int input, int64_t out,
                            struct conv_options o, int *index)
{
    struct tensor_type type;
    struct layer *layer = NULL;
    struct op op = {.kind = OP_conv2d};
    int stride = o.stride ? o.stride : 1;
    int groups = o.groups ? o.groups : 1;
    RETURN_IF_FAILED(need_rank(m, name, input, 4, &type));
    if (type.shape.dim[1] % groups != 0 || out % groups != 0)
        return fail(
            RH_INVALID,
            "model '%s': layer '%s': %lld channels in and %lld out do not divide into %d groups",
            m->name, name, (long long)type.shape.dim[1], (long long)out, groups);
    op.window.kernel_h = op.window.kernel_w = o.kernel;
    op.window.stride_h = op.window.stride_w = stride;
    op.window.padding_h = op.window.padding_w = o.padding;
    op.window.groups = groups;
    op.window.dilation = 1;
    RETURN_IF_FAILED(add_layer(m, name, op, 1, &input, &layer));
    int64_t dims[4] = {out, type.shape.dim[1] / groups, o.kernel, o.kernel};
    add_weights(m, layer, shape_of(4, dims), o.bias);
    return finish_layer(m, index);
}

enum rh_status model_batch_norm2d(struct model *m, const char *name, int input, int *index)
{
    struct tensor_type type;
    struct layer *layer = NULL;
    struct op op = {.kind = OP_batch_norm2d};
    op.norm.epsilon = 1e-5;
    op.norm.momentum = 0.1;
    op.norm.training = true;
    RETURN_IF_FAILED(need_rank(m, name, input, 4, &type));
    RETURN_IF_FAILED(add_layer(m, name, op, 1, &input, &layer));
    struct shape channels = shape_of(1, &type.shape.dim[1]);
    struct tensor_type values = {DTYPE_F32, channels};
    add_parameter(m, layer, "weight", channels, INIT_ONE, 0);
    add_parameter(m, layer, "bias", channels, INIT_ZERO, 0);
    add_state(m, layer, "running_mean", values, INIT_ZERO);
    add_state(m, layer, "running_var", values, INIT_ONE);
    add_state(m, layer, "num_batches_tracked", (struct tensor_type){.dtype = DTYPE_I64}, INIT_ZERO);
    return finish_layer(m, index);
}

static enum rh_status add_plain(struct model *m, const char *name, struct op op, int input_count,
                                const int *inputs, int *index)
{
    struct layer *layer = NULL;
    RETURN_IF_FAILED(add_layer(m, name, op, input_count, inputs, &layer));
    return finish_layer(m, index);
}

enum rh_status model_relu(struct model *m, const char *name, int input, int *index)
{
    return add_plain(m, name, (struct op){.kind = OP_relu}, 1, &input, index);
}

enum rh_status model_add(struct model *m, const char *name, int a, int b, int *index)
{
    const int inputs[2] = {a, b};
    return add_plain(m, name, (struct op){.kind = OP_add}, 2, inputs, index);
}

enum rh_status model_flatten(struct model *m, const char *name, int input, int *index)
{
    return add_plain(m, name, (struct op){.kind = OP_flatten}, 1, &input, index);
}

static struct op pool_op(enum op_kind kind, int kernel, int stride, int padding)
{
    struct op op = {.kind = kind};
    op.window.kernel_h = op.window.kernel_w = kernel;
    op.window.stride_h = op.window.stride_w = stride ? stride : kernel;
    op.window.padding_h = op.window.padding_w = padding;
    op.window.dilation = 1;
    op.window.groups = 1;
    return op;
}

enum rh_status model_max_pool2d(struct model *m, const char *name, int input, int kernel,
                                int stride, int padding, int *index)
{
    struct tensor_type type;
    RETURN_IF_FAILED(need_rank(m, name, input, 4, &type));
    return add_plain(m, name, pool_op(OP_max_pool2d, kernel, stride, padding), 1, &input, index);
}

enum rh_status model_avg_pool2d(struct model *m, const char *name, int input, int kernel,
                                int stride, int padding, int output, int *index)
{
    struct tensor_type type;
    RETURN_IF_FAILED(need_rank(m, name, input, 4, &type));
    struct op op = pool_op(OP_avg_pool2d, kernel, stride, padding);
    if (kernel == 0)
        op.window.output_h = op.window.output_w = output;
    return add_plain(m, name, op, 1, &input, index);
}

enum rh_status model_embedding(struct model *m, const char *name, int input, int64_t vocabulary,
                               int64_t width, int *index)
{
    struct tensor_type type;
    struct layer *layer = NULL;
    RETURN_IF_FAILED(need_rank(m, name, input, 1, &type));
    RETURN_IF_FAILED(add_layer(m, name, (struct op){.kind = OP_embedding}, 1, &input, &layer));
    int64_t dims[2] = {vocabulary, width};
    add_parameter(m, layer, "weight", shape_of(2, dims), INIT_NORMAL, 1);
    return finish_layer(m, index);
}

enum rh_status model_types(const struct model *m, int64_t batch, struct tensor_type *types)
{
    for (int i = 0; i < m->layer_count; i++) {
        types[i] = m->outputs[i];
        types[i].shape.dim[0] = batch;
    }
    return RH_OK;
}
