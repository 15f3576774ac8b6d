#include "plan/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/access.h"

/* Streams are queues, so what has ended before an instruction is a prefix of each stream: one
 * number a stream, the list index of its last instruction, says it all. */
struct order {
    int stream_count, count;
    int *stream; /* of each instruction, its first; -1: sync */
    int *clock;  /* [count][stream_count] */
};

/* While the list is walked. */
struct walk {
    const struct role *role;
    const struct list *list;
    struct order *order;
    int *after; /* [stream_count][stream_count]: what a stream's last instruction leaves ended */
    int *host;  /* [stream_count]: what the worker has waited for */
    int *event_record; /* [event_count]: instruction, or -1 */
};

static void join(int *into, const int *from, int count)
{
    for (int s = 0; s < count; s++)
        if (from[s] > into[s])
            into[s] = from[s];
}

static enum rh_status fail_event(const struct walk *walk, int event, const char *what, int first,
                                 int second)
{
    return fail(RH_INVALID, "bad event '%s' in list '%s' of role '%s': %s (instructions %d and %d)",
                walk->role->events[event], walk->list->name, walk->role->name, what, first, second);
}

static enum rh_status note_record(struct walk *walk, int i)
{
    int event = walk->list->instructions[i].event;
    int *record = &walk->event_record[event];
    if (*record >= 0)
        return fail_event(walk, event, "recorded twice", *record, i);
    *record = i;
    return RH_OK;
}

/* The record's clock knows all before it; the record itself is on its stream. */
static enum rh_status join_event(struct walk *walk, int i, int *clock)
{
    const struct order *order = walk->order;
    int event = walk->list->instructions[i].event;
    int record = walk->event_record[event];
    if (record < 0) {
        for (int later = i + 1; later < walk->list->count; later++)
            if (walk->list->instructions[later].kind == INSTRUCTION_RECORD &&
                walk->list->instructions[later].event == event)
                return fail_event(walk, event, "waited for before it is recorded", i, later);
        return fail(RH_INVALID,
                    "bad event '%s' in list '%s' of role '%s': waited for by instruction %d and "
                    "never recorded",
                    walk->role->events[event], walk->list->name, walk->role->name, i);
    }
    join(clock, order->clock + (size_t)record * (size_t)order->stream_count, order->stream_count);
    if (clock[order->stream[record]] < record)
        clock[order->stream[record]] = record;
    return RH_OK;
}

static enum rh_status step(struct walk *walk, int i)
{
    struct order *order = walk->order;
    const struct instruction *instruction = &walk->list->instructions[i];
    int count = order->stream_count;
    int queues = access_stream_count(instruction);
    int *clock = order->clock + (size_t)i * (size_t)count;
    memcpy(clock, walk->host, (size_t)count * sizeof *clock);
    for (int q = 0; q < queues; q++)
        join(clock, walk->after + (size_t)access_stream(walk->role, instruction, q) * (size_t)count,
             count);
    if (instruction->kind == INSTRUCTION_RECORD)
        RETURN_IF_FAILED(note_record(walk, i));
    if (instruction->kind == INSTRUCTION_WAIT || instruction->kind == INSTRUCTION_SYNC)
        RETURN_IF_FAILED(join_event(walk, i, clock));
    if (instruction->kind == INSTRUCTION_SYNC)
        memcpy(walk->host, clock, (size_t)count * sizeof *clock);
    order->stream[i] = queues ? access_stream(walk->role, instruction, 0) : -1;
    for (int q = 0; q < queues; q++) {
        int *after =
            walk->after + (size_t)access_stream(walk->role, instruction, q) * (size_t)count;
        memcpy(after, clock, (size_t)count * sizeof *clock);
        for (int other = 0; other < queues; other++)
            after[access_stream(walk->role, instruction, other)] = i;
    }
    return RH_OK;
}

static int *filled(size_t count, int value)
{
    int *array = memory_new_array(count, sizeof *array);
    for (size_t i = 0; i < count; i++)
        array[i] = value;
    return array;
}

enum rh_status order_new(const struct plan *plan, int role, int list, struct order **order)
{
    const struct role *r = &plan->roles[role];
    assert(role >= 0 && role < plan->role_count && list >= 0 && list < r->list_count);
    size_t streams = (size_t)r->stream_count;
    size_t count = (size_t)r->lists[list].count;
    struct order *made = memory_new(sizeof *made);
    struct walk walk = {r,
                        &r->lists[list],
                        made,
                        filled(streams * streams, -1),
                        filled(streams, -1),
                        filled((size_t)r->event_count, -1)};
    enum rh_status status = RH_OK;
    made->stream_count = r->stream_count;
    made->count = r->lists[list].count;
    made->stream = memory_new_array(count, sizeof *made->stream);
    made->clock = memory_new_array(count * streams, sizeof *made->clock);
    for (int i = 0; i < made->count && status == RH_OK; i++)
        status = step(&walk, i);
    free(walk.after);
    free(walk.host);
    free(walk.event_record);
    *order = made;
    if (status != RH_OK) {
        order_free(made);
        *order = NULL;
    }
    return status;
}

void order_free(struct order *order)
{
    if (!order)
        return;
    free(order->stream);
    free(order->clock);
    free(order);
}

const int *order_clock(const struct order *order, int b)
{
    assert(b >= 0 && b < order->count);
    return order->clock + (size_t)b * (size_t)order->stream_count;
}

bool order_before(const struct order *order, int a, int b)
{
    assert(a >= 0 && a < order->count);
    if (order->stream[a] < 0) /* the worker issues nothing until its sync is through */
        return a < b;
    return order_clock(order, b)[order->stream[a]] >= a;
}
