#include "plan/queues.h"

#include <stdlib.h>

#include "base/memory.h"

/* A collective or exchange that names a stream more than once stands in its queue once. */
static void add(struct queues *q, int *capacity, int stream, int instruction)
{
    int *count = &q->count[stream];
    if (*count == 0 || q->items[stream][*count - 1] != instruction)
        *ARRAY_ADD(q->items[stream], *count, capacity[stream]) = instruction;
}

void queues_fill(struct queues *q, const struct role *role, int list)
{
    const struct list *l = &role->lists[list];
    size_t streams = (size_t)role->stream_count + 1;
    int *capacity = memory_new_array(streams, sizeof *capacity);
    q->items = memory_new_array(streams, sizeof *q->items);
    q->count = memory_new_array(streams, sizeof *q->count);
    for (int i = 0; i < l->count; i++) {
        const struct instruction *in = &l->instructions[i];
        if (in->kind == INSTRUCTION_COLLECT)
            for (int p = 0; p < in->collect.part_count; p++)
                add(q, capacity, role->parts[in->collect.part_first + p].stream, i);
        else if (in->kind == INSTRUCTION_EXCHANGE)
            for (int m = 0; m < in->exchange.message_count; m++)
                add(q, capacity, role->messages[in->exchange.message_first + m].stream, i);
        else if (in->kind != INSTRUCTION_SYNC)
            add(q, capacity, in->stream, i);
    }
    free(capacity);
}

void queues_free(struct queues *q, const struct role *role)
{
    for (int s = 0; s < role->stream_count; s++)
        free(q->items[s]);
    free(q->items);
    free(q->count);
}
