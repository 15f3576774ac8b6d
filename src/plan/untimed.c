#include "plan/untimed.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/access.h"
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

/* A stream that is named more than once is popped once: then another instruction is at its head. */
void engine_pop(struct engine *e, struct engine_worker *w, int index)
{
    const struct role *role = engine_role(e, w);
    const struct instruction *in = engine_instruction(e, w, index);
    for (int i = 0; i < access_stream_count(in); i++) {
        int stream = access_stream(role, in, i);
        if (head_of(e, w, stream) != index)
            continue;
        w->head[stream]++;
        push(e, w, stream);
    }
}

bool engine_at_all_heads(const struct engine *e, const struct engine_worker *w, int index)
{
    const struct instruction *in = engine_instruction(e, w, index);
    for (int i = 0; i < access_stream_count(in); i++)
        if (head_of(e, w, access_stream(engine_role(e, w), in, i)) != index)
            return false;
    return true;
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

enum { MOST_NAMED = 4 };

/* Whether an earlier stream of the worker has the same instruction at its head. */
static bool named_before(const struct engine *e, const struct engine_worker *w, int stream)
{
    for (int s = 0; s < stream; s++)
        if (head_of(e, w, s) == head_of(e, w, stream))
            return true;
    return false;
}

static bool meets(const struct instruction *in)
{
    return in->kind == INSTRUCTION_COLLECT || in->kind == INSTRUCTION_EXCHANGE;
}

/* The heads of a worker's queues that meet others, or those that wait for events of its own. A sync
 * stands in no queue. Counts all, names the first few. */
static void name_heads(const struct engine *e, const struct engine_worker *w, bool meetings,
                       struct text *text, int *count)
{
    const struct role *role = engine_role(e, w);
    for (int s = 0; s <= role->stream_count; s++) {
        bool is_sync = s == role->stream_count;
        int index = is_sync ? w->limit : head_of(e, w, s);
        if (index < 0 || (is_sync && index >= role->lists[e->list].count))
            continue;
        const struct instruction *in = engine_instruction(e, w, index);
        if (meets(in) != meetings || (!is_sync && named_before(e, w, s)) ||
            (*count)++ >= MOST_NAMED)
            continue;
        text_add(text, "%s worker %d waits at '%s' (%s%s%s%s)", *count > 1 ? "," : "",
                 engine_number(e, w), meetings ? in->name : role->events[in->event],
                 instruction_kind_name(in->kind), is_sync ? "" : " on '",
                 is_sync ? "" : role->streams[s].name, is_sync ? "" : "'");
    }
}

/* Meetings first: who waits for an event mostly waits for one of these. */
static enum rh_status stalled(const struct engine *e)
{
    struct text text = {0};
    int count = 0;
    for (int meetings = 1; meetings >= 0; meetings--)
        for (int i = 0; i < e->worker_count; i++)
            name_heads(e, &e->workers[i], meetings, &text, &count);
    if (count == 0)
        return RH_OK;
    fail(RH_INVALID, "deadlock in list '%s':%s%s", e->plan->roles[0].lists[e->list].name, text.data,
         count > MOST_NAMED ? ", …" : "");
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
