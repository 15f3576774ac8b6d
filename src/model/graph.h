/* The training graph of a model for one (micro)batch: forward ops, loss, and the backward ops that
 * are derived from them (gradient.c: one rule an op, the input's and the weights' gradient apart).
 * It knows nothing of devices; a strategy places each layer and turns nodes into instructions. */
#ifndef REHEARSE_MODEL_GRAPH_H
#define REHEARSE_MODEL_GRAPH_H

#include "model/model.h"

enum value_kind {
    VALUE_INPUT,              /* the batch */
    VALUE_TARGET,             /* labels */
    VALUE_CONTROL,            /* fp32[CONTROL_ELEMENTS], see op.h */
    VALUE_PARAMETER,          /* index: parameter */
    VALUE_LOW_PARAMETER,      /* index: parameter; its copy in the compute precision (bf16, fp16) */
    VALUE_STATE,              /* index: state */
    VALUE_ACTIVATION,         /* a layer's output, or what it saves for backward */
    VALUE_GRADIENT,           /* the loss's gradient for an activation */
    VALUE_PARAMETER_GRADIENT, /* index: parameter; fp32 */
    VALUE_LOSSES,             /* fp32[slots]: one loss a step */
    VALUE_SCALER,             /* fp32[SCALER_ELEMENTS], see op.h */
};

struct value {
    char *name; /* "layer1.0.conv1", "grad layer1.0.conv1", parameter's name, … */
    enum value_kind kind;
    struct tensor_type type;
    int layer; /* that produces it (VALUE_ACTIVATION) or belongs to it; layer_count for the loss */
    int index; /* parameter or state; -1 elsewhere */
    int alias_of; /* same bytes as that earlier value under another shape (flatten); -1 elsewhere */
};

enum phase { PHASE_FORWARD, PHASE_LOSS, PHASE_BACKWARD_INPUT, PHASE_BACKWARD_WEIGHT };

struct node {
    struct op op;
    enum phase phase;
    int layer; /* where it runs; layer_count for loss and loss gradient: beside the last layer */
    int read_first, read_count, write_first, write_count; /* into graph->operands: value indices */
};

/* Nodes stand in execution order: forward in layer order, loss, loss gradient, then backward in
 * reverse layer order, for each layer the input's gradient before the weights'. A sum of gradients
 * (a value with several consumers) is an `add` node of phase BACKWARD_INPUT at the producer's
 * layer. flatten has no node. A gradient that nobody needs (of the model's input) is not computed.
 */
struct graph {
    const struct model *model; /* borrowed */
    int64_t batch;
    struct value *values;
    int value_count, value_capacity;
    struct node *nodes;
    int node_count, node_capacity;
    int *operands;
    int operand_count, operand_capacity;
    int input, target, control, losses; /* value indices */
    int scaler;                         /* the same; -1: the loss is not scaled */
    int *output_of;   /* layer_count: value that holds a layer's output (through aliases) */
    int *gradient_of; /* layer_count: final gradient of that layer's output, -1 if none */
    int *parameter_value, *parameter_gradient; /* parameter_count: value indices */
    int *low_parameter;                        /* parameter_count: VALUE_LOW_PARAMETER or -1 */
};

enum loss_kind { LOSS_MSE, LOSS_CROSS_ENTROPY };

struct graph_options {
    int64_t batch;
    enum loss_kind loss;
    double loss_weight; /* see op.h */
    bool loss_sum;
    enum dtype precision; /* F32, TF32, BF16, F16: activations and matrix units. With BF16 and F16
                             weights of linear and conv layers are read from their low copies,
                             batch-norm parameters and all gradients of parameters stay fp32 */
    bool training;        /* false: forward and loss alone, running statistics used */
    bool scaled;          /* the loss's gradient is times the scale in VALUE_SCALER */
    bool channels_last;   /* pictures and convolutions' weights lie as n, h, w, c */
    int loss_slots;       /* elements of VALUE_LOSSES */
};

enum rh_status graph_new(const struct model *model, const struct graph_options *options,
                         struct graph **graph);
void graph_free(struct graph *graph);

/* The type of the target that this model and loss want for `batch` samples. */
enum rh_status graph_target_type(const struct model *model, enum loss_kind loss, int64_t batch,
                                 struct tensor_type *type);

#endif
