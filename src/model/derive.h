/* Deriving the backward ops: the state of a graph under construction, shared by graph.c (forward
 * and loss) and gradient.c (one rule an op). */
#ifndef REHEARSE_MODEL_DERIVE_H
#define REHEARSE_MODEL_DERIVE_H

#include "model/graph.h"

struct derive {
    struct graph *graph;
    const struct model *model;
    struct graph_options options;
    int *saved_mean, *saved_invstd; /* per layer: values that batch norm keeps; -1 */
    bool *needs_gradient;           /* per layer: it or something before it has parameters */
    int *gradient_so_far;           /* per layer: of its output, from the readers so far; -1 */
};

int derive_value(struct derive *d, const char *prefix, const char *name, enum value_kind kind,
                 struct tensor_type type, int layer, int index);
void derive_node(struct derive *d, const struct op *op, enum phase phase, int layer,
                 const int *reads, int read_count, const int *writes, int write_count);
/* A copy of a value in another memory format, and its node (a cast to the same element type). */
int derive_reordered(struct derive *d, int value, enum phase phase, int layer, bool channels_last);
/* The value that a layer reads at `input` (0, 1). */
int derive_input(const struct derive *d, int layer, int input);
/* A parameter as the op reads it: its low copy where there is one. */
int derive_parameter(const struct derive *d, int layer, int which);

/* Emits backward for all layers; the gradient of the last layer's output is `loss_gradient`. */
void derive_backward(struct derive *d, int loss_gradient);

#endif
