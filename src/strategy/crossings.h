/* What crosses between the stages of a pipeline: activations forward, gradients backward. */
#ifndef REHEARSE_STRATEGY_CROSSINGS_H
#define REHEARSE_STRATEGY_CROSSINGS_H

#include "model/graph.h"

/* A value that one stage makes and another reads. */
struct crossing {
    int value, from, to;
};

static inline bool crossing_is_forward(const struct crossing *c)
{
    return c->from < c->to;
}

/* Each (value, reading stage) once, in the order of the graph's nodes; the caller frees *crossings.
 * `stage_of_layer` has an entry for the loss behind the last layer. */
int crossings_find(const struct graph *graph, const int *stage_of_layer, int stages,
                   struct crossing **crossings);

#endif
