#include "plan/untimed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/queues.h"

/* An exchange that has posted its messages and waits for the other halves. */
struct exchange {
    struct engine_worker *worker;
    int instruction, left;
};

/* Half a message, in a hash table until the other half comes. */
struct mail {
    const char *stream, *name; /* interned: the pointers tell */
    int group, from, to, view;
    bool send;
    struct exchange *exchange;
    struct mail *next;
};

/* A communicator: who has arrived at the collective that is next there. */
struct place {
    int group, base, worker_count, arrived;
    const char *stream;
    int *workers;      /* rank order */
    int *instructions; /* of the arrived ones; -1 */
    struct place *next;
};

struct engine_worker {
    int worker, role;
    int *head;    /* per stream: position in its queue */
    bool *event;  /* recorded */
    bool *posted; /* per instruction: its messages are posted, or it stands at its communicator */
    int limit;    /* instructions from here on wait for a sync */
};

enum { TABLE_SIZE = 4096 };

struct engine {
    const struct plan *plan;
    const struct mesh *mesh;
    const struct untimed_hooks *hooks;
    int list, worker_count;
    struct engine_worker *workers;
    struct queues *queues; /* per role */
    struct mail *mails[TABLE_SIZE];
    struct place *places[TABLE_SIZE];
    int *work; /* ring of worker * streams + stream to look at */
    bool *queued;
    int work_size, work_first, work_count, stride;
};

static const struct role *role_of(const struct engine *e, const struct engine_worker *w)
{
    return &e->plan->roles[w->role];
}

static const struct instruction *instruction_at(const struct engine *e,
                                                const struct engine_worker *w, int index)
{
    return &role_of(e, w)->lists[e->list].instructions[index];
}

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
    for (int s = 0; s < role_of(e, w)->stream_count; s++)
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
    const struct list *list = &role_of(e, w)->lists[e->list];
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

static void pop(struct engine *e, struct engine_worker *w, int index)
{
    const struct role *role = role_of(e, w);
    int *streams = memory_new_array((size_t)role->stream_count, sizeof *streams);
    int count = streams_of(role, instruction_at(e, w, index), streams);
    for (int i = 0; i < count; i++) {
        w->head[streams[i]]++;
        push(e, w, streams[i]);
    }
    free(streams);
}

static bool at_all_heads(const struct engine *e, const struct engine_worker *w, int index)
{
    const struct role *role = role_of(e, w);
    int *streams = memory_new_array((size_t)role->stream_count, sizeof *streams);
    int count = streams_of(role, instruction_at(e, w, index), streams);
    bool all = true;
    for (int i = 0; i < count && all; i++)
        all = head_of(e, w, streams[i]) == index;
    free(streams);
    return all;
}

static int group_size(const struct engine *e, const struct group *g)
{
    int size = 1;
    if (g->coordinate_count > 0)
        return g->coordinate_count;
    for (int axis = 0; axis < e->mesh->axis_count; axis++)
        if (g->axes >> axis & 1)
            size *= e->mesh->size[axis];
    return size;
}

static int group_member(const struct engine *e, const struct group *g, int worker, int index)
{
    int coordinate[MESH_MAX_AXES];
    mesh_coordinate(e->mesh, worker, coordinate);
    for (int axis = e->mesh->axis_count - 1; axis >= 0; axis--) {
        if (!(g->axes >> axis & 1))
            continue;
        if (g->coordinate_count > 0) {
            coordinate[axis] = g->coordinates[index];
            break;
        }
        coordinate[axis] = index % e->mesh->size[axis];
        index /= e->mesh->size[axis];
    }
    return mesh_worker(e->mesh, coordinate);
}

static size_t slot_of(const void *a, const void *b, int c, int d)
{
    uintptr_t parts[4] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d};
    return (size_t)(text_hash(parts, sizeof parts) % TABLE_SIZE);
}

static struct place *find_place(struct engine *e, const struct engine_worker *w,
                                const struct instruction *in)
{
    const struct role *role = role_of(e, w);
    const struct group *g = &e->plan->groups[in->collect.group];
    const char *stream = role->streams[role->parts[in->collect.part_first].stream].name;
    int base = group_member(e, g, w->worker, 0);
    struct place **slot = &e->places[slot_of(stream, NULL, in->collect.group, base)];
    for (struct place *p = *slot; p; p = p->next)
        if (p->group == in->collect.group && p->base == base && p->stream == stream)
            return p;
    struct place *p = memory_new(sizeof *p);
    *p = (struct place){.group = in->collect.group,
                        .base = base,
                        .worker_count = group_size(e, g),
                        .stream = stream,
                        .next = *slot};
    p->workers = memory_new_array((size_t)p->worker_count, sizeof *p->workers);
    p->instructions = memory_new_array((size_t)p->worker_count, sizeof *p->instructions);
    for (int i = 0; i < p->worker_count; i++)
        p->workers[i] = group_member(e, g, w->worker, i);
    *slot = p;
    return p;
}

static int64_t view_bytes(const struct role *role, int view)
{
    return view >= 0 ? (int64_t)type_bytes(&role->views[view].type) : 0;
}

/* What all members must agree on: bytes of the larger side, per kind. */
static int64_t collect_bytes(const struct role *role, const struct instruction *in)
{
    int64_t most = 0;
    for (int i = 0; i < in->collect.part_count; i++) {
        const struct part *p = &role->parts[in->collect.part_first + i];
        int64_t send = view_bytes(role, p->send);
        int64_t receive = view_bytes(role, p->receive);
        most = send > most ? send : most;
        most = receive > most ? receive : most;
    }
    return most;
}

static enum rh_status agree(const struct engine *e, const struct place *p)
{
    const struct engine_worker *first = &e->workers[p->workers[0]];
    const struct instruction *a = instruction_at(e, first, p->instructions[0]);
    int64_t bytes = collect_bytes(role_of(e, first), a);
    for (int i = 1; i < p->worker_count; i++) {
        const struct engine_worker *other = &e->workers[p->workers[i]];
        const struct instruction *b = instruction_at(e, other, p->instructions[i]);
        int64_t other_bytes = collect_bytes(role_of(e, other), b);
        if (a->collect.kind != b->collect.kind || a->collect.reduce != b->collect.reduce)
            return fail(RH_INVALID,
                        "collectives do not match: worker %d does %s '%s', worker %d %s '%s'",
                        first->worker, collective_name(a->collect.kind), a->name, other->worker,
                        collective_name(b->collect.kind), b->name);
        if (bytes != other_bytes)
            return fail(RH_INVALID,
                        "collective sizes differ: worker %d gives %lld bytes in '%s', worker %d "
                        "%lld in '%s'",
                        first->worker, (long long)bytes, a->name, other->worker,
                        (long long)other_bytes, b->name);
        if (a->collect.root_coordinate != b->collect.root_coordinate ||
            a->collect.root_part != b->collect.root_part)
            return fail(RH_INVALID,
                        "collective roots differ: worker %d says %d in '%s', worker %d %d in '%s'",
                        first->worker, a->collect.root_coordinate, a->name, other->worker,
                        b->collect.root_coordinate, b->name);
        if (a->collect.part_count != b->collect.part_count)
            return fail(
                RH_INVALID,
                "collectives do not match: worker %d has %d parts in '%s', worker %d %d in '%s'",
                first->worker, a->collect.part_count, a->name, other->worker, b->collect.part_count,
                b->name);
    }
    return RH_OK;
}

static enum rh_status run_collect(const struct engine *e, const struct place *p)
{
    const struct engine_worker *first = &e->workers[p->workers[0]];
    const struct instruction *a = instruction_at(e, first, p->instructions[0]);
    const struct group *g = &e->plan->groups[p->group];
    int parts = a->collect.part_count;
    int root = a->collect.root_coordinate;
    for (int i = 0; i < g->coordinate_count; i++)
        if (g->coordinates[i] == a->collect.root_coordinate)
            root = i;
    RETURN_IF_FAILED(agree(e, p));
    if (!e->hooks || !e->hooks->collect)
        return RH_OK;
    int count = p->worker_count * parts;
    struct untimed_member *members = memory_new_array((size_t)count, sizeof *members);
    for (int i = 0; i < count; i++) {
        const struct engine_worker *w = &e->workers[p->workers[i / parts]];
        const struct instruction *in = instruction_at(e, w, p->instructions[i / parts]);
        members[i] = (struct untimed_member){
            w->worker, in, &role_of(e, w)->parts[in->collect.part_first + i % parts]};
    }
    enum rh_status status =
        e->hooks->collect(e->hooks->context, members, count, root * parts + a->collect.root_part);
    free(members);
    return status;
}

static enum rh_status arrive(struct engine *e, struct engine_worker *w, int index)
{
    const struct instruction *in = instruction_at(e, w, index);
    if (w->posted[index] || !at_all_heads(e, w, index))
        return RH_OK;
    struct place *p = find_place(e, w, in);
    w->posted[index] = true;
    for (int i = 0; i < p->worker_count; i++)
        if (p->workers[i] == w->worker)
            p->instructions[i] = index;
    if (++p->arrived < p->worker_count)
        return RH_OK;
    RETURN_IF_FAILED(run_collect(e, p));
    p->arrived = 0;
    for (int i = 0; i < p->worker_count; i++)
        pop(e, &e->workers[p->workers[i]], p->instructions[i]);
    return RH_OK;
}

static int peer_of(const struct engine *e, int worker, int group, struct peer peer)
{
    int coordinate[MESH_MAX_AXES];
    int axis = 0;
    while (!(e->plan->groups[group].axes >> axis & 1))
        axis++;
    int size = e->mesh->size[axis];
    mesh_coordinate(e->mesh, worker, coordinate);
    coordinate[axis] =
        peer.relative ? ((coordinate[axis] + peer.value) % size + size) % size : peer.value;
    return mesh_worker(e->mesh, coordinate);
}

static void finish_exchange(struct engine *e, struct exchange *x)
{
    if (--x->left > 0)
        return;
    pop(e, x->worker, x->instruction);
    free(x);
}

static enum rh_status meet(struct engine *e, const struct mail *mine, const struct mail *other)
{
    const struct mail *from = mine->send ? mine : other;
    const struct mail *to = mine->send ? other : mine;
    const struct engine_worker *a = &e->workers[from->from];
    const struct engine_worker *b = &e->workers[to->to];
    int64_t sent = view_bytes(role_of(e, a), from->view);
    int64_t expected = view_bytes(role_of(e, b), to->view);
    if (sent != expected)
        return fail(RH_INVALID, "message '%s': worker %d sends %lld bytes, worker %d receives %lld",
                    mine->name, from->from, (long long)sent, to->to, (long long)expected);
    if (!e->hooks || !e->hooks->transfer)
        return RH_OK;
    return e->hooks->transfer(e->hooks->context, from->from, from->view, to->to, to->view);
}

static enum rh_status post(struct engine *e, struct engine_worker *w, int index)
{
    const struct instruction *in = instruction_at(e, w, index);
    const struct role *role = role_of(e, w);
    if (w->posted[index] || !at_all_heads(e, w, index))
        return RH_OK;
    w->posted[index] = true;
    struct exchange *x = memory_new(sizeof *x);
    *x = (struct exchange){w, index, in->exchange.message_count + 1};
    for (int i = 0; i < in->exchange.message_count; i++) {
        const struct message *m = &role->messages[in->exchange.message_first + i];
        int peer = peer_of(e, w->worker, in->exchange.group, m->peer);
        struct mail mine = {.stream = role->streams[m->stream].name,
                            .name = m->name,
                            .group = in->exchange.group,
                            .from = m->send ? w->worker : peer,
                            .to = m->send ? peer : w->worker,
                            .view = m->view,
                            .send = m->send,
                            .exchange = x};
        struct mail **at = &e->mails[slot_of(mine.stream, mine.name, mine.from, mine.to)];
        while (*at && !((*at)->stream == mine.stream && (*at)->name == mine.name &&
                        (*at)->group == mine.group && (*at)->from == mine.from &&
                        (*at)->to == mine.to && (*at)->send != mine.send))
            at = &(*at)->next;
        struct mail *other = *at;
        if (!other) {
            *at = memory_new(sizeof **at);
            **at = mine;
            continue;
        }
        RETURN_IF_FAILED(meet(e, &mine, other));
        *at = other->next;
        finish_exchange(e, x);
        finish_exchange(e, other->exchange);
        free(other);
    }
    finish_exchange(e, x);
    return RH_OK;
}

/* Looks at one stream until it can go no further. */
static enum rh_status look(struct engine *e, struct engine_worker *w, int stream)
{
    for (;;) {
        int index = head_of(e, w, stream);
        if (index < 0)
            return RH_OK;
        const struct instruction *in = instruction_at(e, w, index);
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
            w->event[in->event] = true;
            pass_syncs(e, w);
            push_all(e, w);
            break;
        case INSTRUCTION_WAIT:
            if (!w->event[in->event])
                return RH_OK;
            break;
        case INSTRUCTION_COLLECT: {
            int head = w->head[stream];
            RETURN_IF_FAILED(arrive(e, w, index));
            if (w->head[stream] == head)
                return RH_OK;
            continue;
        }
        case INSTRUCTION_EXCHANGE: {
            int head = w->head[stream];
            RETURN_IF_FAILED(post(e, w, index));
            if (w->head[stream] == head)
                return RH_OK;
            continue;
        }
        default: break;
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
        const struct role *role = role_of(e, w);
        for (int s = 0; s < role->stream_count; s++) {
            const struct queues *q = &e->queues[w->role];
            if (w->head[s] >= q->count[s] || named >= 4)
                continue;
            const struct instruction *in = instruction_at(e, w, q->items[s][w->head[s]]);
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
        const struct role *role = role_of(e, w);
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
    for (int i = 0; i < TABLE_SIZE; i++) {
        while (e->mails[i]) {
            struct mail *next = e->mails[i]->next;
            if (--e->mails[i]->exchange->left == 0)
                free(e->mails[i]->exchange);
            free(e->mails[i]);
            e->mails[i] = next;
        }
        while (e->places[i]) {
            struct place *next = e->places[i]->next;
            free(e->places[i]->workers);
            free(e->places[i]->instructions);
            free(e->places[i]);
            e->places[i] = next;
        }
    }
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
