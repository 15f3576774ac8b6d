#include "strategy/crossings.h"

#include <stdlib.h>

#include "base/memory.h"

static int root_of(const struct graph *graph, int value)
{
    while (graph->values[value].alias_of >= 0)
        value = graph->values[value].alias_of;
    return value;
}

int crossings_find(const struct graph *graph, const int *stage_of_layer, int stages,
                   struct crossing **crossings)
{
    int count = 0;
    int capacity = 0;
    *crossings = NULL;
    int *producer = memory_new_array((size_t)graph->value_count, sizeof *producer);
    bool *known = memory_new_array((size_t)graph->value_count * (size_t)stages, sizeof *known);
    for (int v = 0; v < graph->value_count; v++)
        producer[v] = -1;
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        for (int k = 0; k < node->write_count; k++)
            producer[root_of(graph, graph->operands[node->write_first + k])] =
                stage_of_layer[node->layer];
    }
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        int to = stage_of_layer[node->layer];
        for (int k = 0; k < node->read_count; k++) {
            int v = root_of(graph, graph->operands[node->read_first + k]);
            enum value_kind kind = graph->values[v].kind;
            if ((kind != VALUE_ACTIVATION && kind != VALUE_GRADIENT) || producer[v] == to ||
                known[v * stages + to])
                continue;
            known[v * stages + to] = true;
            *ARRAY_ADD(*crossings, count, capacity) = (struct crossing){v, producer[v], to};
        }
    }
    free(producer);
    free(known);
    return count;
}
