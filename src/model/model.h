/* A model: layers in a DAG, with parameters and running statistics, without a batch size. Built by
 * name (builders), from JSON, or layer by layer. Parameter names and order are torchvision's. */
#ifndef REHEARSE_MODEL_MODEL_H
#define REHEARSE_MODEL_MODEL_H

#include <cjson/cJSON.h>

#include "op/op.h"

/* How a parameter starts when no file gives it; the same sequence for the same seed everywhere. */
enum init_kind { INIT_ZERO, INIT_ONE, INIT_UNIFORM, INIT_NORMAL };

struct parameter {
    char *name; /* "layer1.0.conv1.weight" */
    struct shape shape;
    int layer;
    enum init_kind init;
    double init_scale; /* UNIFORM: bound; NORMAL: standard deviation */
};

/* Running statistics: not trained, changed by the forward pass ("bn1.running_mean"). */
struct state {
    char *name;
    struct tensor_type type;
    int layer;
    enum init_kind init;
};

enum { MODEL_INPUT = -1, LAYER_MAX_INPUTS = 2 };

/* One forward op. `inputs` are indices of earlier layers, or MODEL_INPUT. */
struct layer {
    char *name; /* "layer1.0.conv1"; unique */
    struct op op;
    int input_count;
    int inputs[LAYER_MAX_INPUTS];
    int parameter_first, parameter_count; /* in op order: weight, bias */
    int state_first, state_count;         /* batch norm: mean, var, count */
};

/* The last layer's output is the model's. Freed by model_free. */
struct model {
    char *name;
    struct tensor_type input; /* of one sample: shape without the batch dimension */
    struct layer *layers;     /* topological order = forward execution order */
    int layer_count, layer_capacity;
    struct parameter *parameters; /* registration order, as torch's named_parameters() */
    int parameter_count, parameter_capacity;
    struct state *states;
    int state_count, state_capacity;
    struct tensor_type *outputs; /* of each layer, for a batch of one */
    int output_capacity;
};

struct model *model_new(const char *name, const struct tensor_type *input);
void model_free(struct model *model);

/* Each adds a layer and gives its index (>= 0) in *layer; `input` is a layer or MODEL_INPUT. Shapes
 * are checked (the input's channel count is taken from the layers before), names must be new. */
enum rh_status model_linear(struct model *m, const char *name, int input, int64_t out, bool bias,
                            int *layer);
struct conv_options {
    int kernel, stride, padding, groups; /* stride and groups: 0 means 1 */
    bool bias;
};
enum rh_status model_conv2d(struct model *m, const char *name, int input, int64_t out,
                            struct conv_options options, int *layer);
enum rh_status model_batch_norm2d(struct model *m, const char *name, int input, int *layer);
enum rh_status model_relu(struct model *m, const char *name, int input, int *layer);
enum rh_status model_add(struct model *m, const char *name, int a, int b, int *layer);
enum rh_status model_max_pool2d(struct model *m, const char *name, int input, int kernel,
                                int stride, int padding, int *layer);
/* kernel 0: global average to 1x1 when output is 1, else adaptive to output x output. */
enum rh_status model_avg_pool2d(struct model *m, const char *name, int input, int kernel,
                                int stride, int padding, int output, int *layer);
enum rh_status model_flatten(struct model *m, const char *name, int input, int *layer);
enum rh_status model_embedding(struct model *m, const char *name, int input, int64_t vocabulary,
                               int64_t width, int *layer);

/* Builders by name, from an experiment's `model`: a string ("resnet50"), or an object with `name`
 * and the builder's own keys ({"name": "mlp", "sizes": [784, 512, 10]}; {"name": "resnet50",
 * "image": 64, "classes": 10}), or with `layers` and `input`, a DAG in JSON (layers_json.c):
 *     {"name": "net", "input": [3, 32, 32], "layers": [
 *         {"name": "c1", "op": "conv2d", "out": 16, "kernel": 3, "stride": 1, "padding": 1,
 *          "groups": 1, "bias": false}, {"name": "s", "op": "add", "inputs": ["c1", "c0"]}, …]}
 * `input` is one sample's shape, or "index": one whole number a sample, for an embedding. A layer
 * reads the layer of the list before it, or the one named by its own `input` ("input": the
 * model's). Keys of the other ops: linear out, bias; embedding vocabulary, width; max_pool2d
 * kernel, stride, padding; avg_pool2d those, or output alone (adaptive); none for batch_norm2d,
 * relu, flatten. Or with `file`: JSON of that form, relative to the working directory. */
enum rh_status model_from_json(const cJSON *json, const char *where, struct model **model);
/* The builders by index, NULL after the last. */
const char *model_builder_name(int index);

/* Output type for a batch, and the type of every layer's output (types[layer_count], owned by the
 * caller). */
enum rh_status model_types(const struct model *model, int64_t batch, struct tensor_type *types);

/* Output type of a layer (or MODEL_INPUT) for a batch of one. */
struct tensor_type model_output_type(const struct model *model, int layer);

int64_t model_parameter_elements(const struct model *model);
/* Index by exact name, or -1. */
int model_find_layer(const struct model *model, const char *name);

/* Fills fp32 memory of parameter `index` by its init rule; a counter-based generator, so that the
 * values depend on (seed, parameter name, element) alone. state_init likewise (typed memory). */
void parameter_init(const struct parameter *parameter, uint64_t seed, float *values);
void state_init(const struct state *state, void *values);

#endif
