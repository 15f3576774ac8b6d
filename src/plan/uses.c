#include "plan/uses.h"

#include <limits.h>
#include <stdlib.h>

#include "base/memory.h"
#include "plan/access.h"

static void note(struct uses *uses, const struct order *order, int buffer, int stream, int i)
{
    if (uses->first[buffer] < 0)
        uses->first[buffer] = i;
    uses->last[buffer] = i;
    if (!order)
        return;
    size_t row = (size_t)buffer * (size_t)uses->stream_count;
    const int *clock = order_clock(order, i);
    uses->last_on[row + (size_t)stream] = i;
    for (int s = 0; s < uses->stream_count; s++)
        if (clock[s] < uses->ended[row + (size_t)s])
            uses->ended[row + (size_t)s] = clock[s];
}

void uses_init(struct uses *uses, const struct role *role, int list, const struct order *order)
{
    size_t buffers = (size_t)role->buffer_count;
    size_t cells = order ? buffers * (size_t)role->stream_count : 0;
    *uses = (struct uses){.stream_count = role->stream_count,
                          .first = memory_new_array(buffers, sizeof(int)),
                          .last = memory_new_array(buffers, sizeof(int)),
                          .last_on = memory_new_array(cells, sizeof(int)),
                          .ended = memory_new_array(cells, sizeof(int))};
    for (size_t b = 0; b < buffers; b++)
        uses->first[b] = uses->last[b] = -1;
    for (size_t c = 0; c < cells; c++) {
        uses->last_on[c] = -1;
        uses->ended[c] = INT_MAX;
    }
    for (int i = 0; i < role->lists[list].count; i++) {
        const struct instruction *instruction = &role->lists[list].instructions[i];
        int count = access_count(instruction);
        for (int k = 0; k < count; k++) {
            int view = access_at(role, instruction, k).view;
            int buffer = view < 0 ? -1 : role->views[view].buffer;
            if (buffer >= 0 && role->buffers[buffer].lifetime == LIFETIME_TRANSIENT &&
                role->buffers[buffer].list == list)
                note(uses, order, buffer, access_stream(role, instruction, 0), i);
        }
    }
}

void uses_clear(struct uses *uses)
{
    free(uses->first);
    free(uses->last);
    free(uses->last_on);
    free(uses->ended);
}

/* A stream is a queue: its last use of `a` stands for all of them. */
bool uses_before(const struct uses *uses, int a, int b)
{
    const int *last = uses->last_on + (size_t)a * (size_t)uses->stream_count;
    const int *ended = uses->ended + (size_t)b * (size_t)uses->stream_count;
    for (int s = 0; s < uses->stream_count; s++)
        if (last[s] > ended[s])
            return false;
    return true;
}
