#include "plan/untimed.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/engine.h"

static void push(struct engine *e, const struct engine_worker *w, int stream)
{
    int item = (int)(w - e->workers) * e->stride + stream;
    if (e->queued[item])
        return;
    e->queued[item] = true;
    e->work[(e->work_first + e->work_count++) % e->work_size] = item;
}

static void push_all(struct engine *e, const struct engine_worker *w)
{
    for (int s = 0; s < engine_role(e, w)->stream_count; s++)
        push(e, w, s);
}

/* The instruction at the head of a stream, or -1: the queue is empty, or a sync holds it back. */
static int head_of(const struct engine *e, const struct engine_worker *w, int stream)
{
    const struct queues *q = &e->queues[w->role];
    if (w->head[stream] >= q->count[stream])
        return -1;
    int index = q->items[stream][w->head[stream]];
    return index < w->limit ? index : -1;
}

static void pass_syncs(struct engine *e, struct engine_worker *w)
{
    const struct list *list = &engine_role(e, w)->lists[e->list];
    int before = w->limit;
    while (w->limit < list->count) {
        const struct instruction *in = &list->instructions[w->limit];
        if (in->kind == INSTRUCTION_SYNC && !w->event[in->event])
            break;
        w->limit++;
    }
    if (w->limit != before)
        push_all(e, w);
}

/* Calls visit for each distinct stream that an instruction occupies. */
static int streams_of(const struct role *role, const struct instruction *in, int *streams)
{
    int count = 0;
    int most = in->kind == INSTRUCTION_COLLECT    ? in->collect.part_count
               : in->kind == INSTRUCTION_EXCHANGE ? in->exchange.message_count
                                                  : 1;
    for (int i = 0; i < most; i++) {
        int stream = in->kind == INSTRUCTION_COLLECT
                         ? role->parts[in->collect.part_first + i].stream
                     : in->kind == INSTRUCTION_EXCHANGE
                         ? role->messages[in->exchange.message_first + i].stream
                         : in->stream;
        bool known = false;
        for (int k = 0; k < count && !known; k++)
            known = streams[k] == stream;
        if (!known)
            streams[count++] = stream;
    }
    return count;
}

void engine_pop(struct engine *e, struct engine_worker *w, int index)
{
    const struct role *role = engine_role(e, w);
    int *streams = memory_new_array((size_t)role->stream_count, sizeof *streams);
    int count = streams_of(role, engine_instruction(e, w, index), streams);
    for (int i = 0; i < count; i++) {
        w->head[streams[i]]++;
        push(e, w, streams[i]);
    }
    free(streams);
}

bool engine_at_all_heads(const struct engine *e, const struct engine_worker *w, int index)
{
    const struct role *role = engine_role(e, w);
    int *streams = memory_new_array((size_t)role->stream_count, sizeof *streams);
    int count = streams_of(role, engine_instruction(e, w, index), streams);
    bool all = true;
    for (int i = 0; i < count && all; i++)
        all = head_of(e, w, streams[i]) == index;
    free(streams);
    return all;
}

/* Looks at one stream until it can go no further. */
static enum rh_status look(struct engine *e, struct engine_worker *w, int stream)
{
    for (;;) {
        int index = head_of(e, w, stream);
        if (index < 0)
            return RH_OK;
        const struct instruction *in = engine_instruction(e, w, index);
        const struct untimed_hooks *h = e->hooks;
        switch (in->kind) {
        case INSTRUCTION_COMPUTE:
            if (h && h->compute)
                RETURN_IF_FAILED(h->compute(h->context, w->worker, in));
            break;
        case INSTRUCTION_COPY:
            if (h && h->copy)
                RETURN_IF_FAILED(h->copy(h->context, w->worker, in));
            break;
        case INSTRUCTION_RECORD:
            if (h && h->mark)
                RETURN_IF_FAILED(h->mark(h->context, w->worker, in));
            w->event[in->event] = true;
            pass_syncs(e, w);
            push_all(e, w);
            break;
        case INSTRUCTION_WAIT:
            if (!w->event[in->event])
                return RH_OK;
            if (h && h->mark)
                RETURN_IF_FAILED(h->mark(h->context, w->worker, in));
            break;
        case INSTRUCTION_COLLECT: {
            int head = w->head[stream];
            RETURN_IF_FAILED(engine_arrive(e, w, index));
            if (w->head[stream] == head)
                return RH_OK;
            continue;
        }
        case INSTRUCTION_EXCHANGE: {
            int head = w->head[stream];
            RETURN_IF_FAILED(engine_post(e, w, index));
            if (w->head[stream] == head)
                return RH_OK;
            continue;
        }
        default:
            if (h && h->mark)
                RETURN_IF_FAILED(h->mark(h->context, w->worker, in));
            break;
        }
        w->head[stream]++;
    }
}

static enum rh_status stalled(const struct engine *e)
{
    struct text text = {0};
    int named = 0;
    for (int i = 0; i < e->worker_count; i++) {
        const struct engine_worker *w = &e->workers[i];
        const struct role *role = engine_role(e, w);
        for (int s = 0; s < role->stream_count; s++) {
            const struct queues *q = &e->queues[w->role];
            if (w->head[s] >= q->count[s] || named >= 4)
                continue;
            const struct instruction *in = engine_instruction(e, w, q->items[s][w->head[s]]);
            const char *what = in->kind == INSTRUCTION_WAIT || in->kind == INSTRUCTION_RECORD
                                   ? role->events[in->event]
                                   : in->name;
            text_add(&text, "%s worker %d waits at '%s' (%s on '%s')", named++ ? "," : "",
                     w->worker, what ? what : "?", instruction_kind_name(in->kind),
                     role->streams[s].name);
        }
    }
    if (named == 0)
        return RH_OK;
    fail(RH_INVALID, "deadlock in list '%s':%s", e->plan->roles[0].lists[e->list].name, text.data);
    free(text.data);
    return RH_INVALID;
}

static void engine_init(struct engine *e)
{
    e->worker_count = mesh_workers(e->mesh);
    e->workers = memory_new_array((size_t)e->worker_count, sizeof *e->workers);
    e->queues = memory_new_array((size_t)e->plan->role_count, sizeof *e->queues);
    e->stride = 1;
    for (int r = 0; r < e->plan->role_count; r++) {
        queues_fill(&e->queues[r], &e->plan->roles[r], e->list);
        if (e->plan->roles[r].stream_count > e->stride)
            e->stride = e->plan->roles[r].stream_count;
    }
    e->work_size = e->worker_count * e->stride + 1;
    e->work = memory_new_array((size_t)e->work_size, sizeof *e->work);
    e->queued = memory_new_array((size_t)e->work_size, sizeof *e->queued);
    for (int i = 0; i < e->worker_count; i++) {
        struct engine_worker *w = &e->workers[i];
        int coordinate[MESH_MAX_AXES];
        mesh_coordinate(e->mesh, i, coordinate);
        w->worker = i;
        w->role = e->plan->role_axis < 0 ? 0 : coordinate[e->plan->role_axis];
        const struct role *role = engine_role(e, w);
        w->head = memory_new_array((size_t)role->stream_count + 1, sizeof *w->head);
        w->event = memory_new_array((size_t)role->event_count + 1, sizeof *w->event);
        w->posted = memory_new_array((size_t)role->lists[e->list].count + 1, sizeof *w->posted);
        pass_syncs(e, w);
        push_all(e, w);
    }
}

static void engine_free(struct engine *e)
{
    for (int i = 0; i < e->worker_count; i++) {
        free(e->workers[i].head);
        free(e->workers[i].event);
        free(e->workers[i].posted);
    }
    for (int r = 0; r < e->plan->role_count; r++)
        queues_free(&e->queues[r], &e->plan->roles[r]);
    engine_free_meetings(e);
    free(e->workers);
    free(e->queues);
    free(e->work);
    free(e->queued);
    free(e);
}

enum rh_status untimed_run(const struct plan *plan, const struct mesh *mesh, int list,
                           const struct untimed_hooks *hooks)
{
    struct engine *e = memory_new(sizeof *e);
    e->plan = plan;
    e->mesh = mesh;
    e->list = list;
    e->hooks = hooks;
    engine_init(e);
    enum rh_status status = RH_OK;
    while (e->work_count > 0 && status == RH_OK) {
        int item = e->work[e->work_first];
        e->work_first = (e->work_first + 1) % e->work_size;
        e->work_count--;
        e->queued[item] = false;
        status = look(e, &e->workers[item / e->stride], item % e->stride);
    }
    if (status == RH_OK)
        status = stalled(e);
    engine_free(e);
    return status;
}
