/* Collectives and messages of the untimed engine: who has arrived, whether the halves agree. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/engine.h"
#include "plan/group.h"

static size_t slot_of(const void *a, const void *b, int c, int d)
{
    uintptr_t parts[4] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d};
    return (size_t)(text_hash(parts, sizeof parts) % TABLE_SIZE);
}

static struct place *find_place(struct engine *e, const struct engine_worker *w,
                                const struct instruction *in)
{
    const struct role *role = engine_role(e, w);
    const struct group *g = &e->plan->groups[in->collect.group];
    const char *stream = role->streams[role->parts[in->collect.part_first].stream].name;
    int base = group_member(e->mesh, g, w->worker, 0);
    struct place **slot = &e->places[slot_of(stream, NULL, in->collect.group, base)];
    for (struct place *p = *slot; p; p = p->next)
        if (p->group == in->collect.group && p->base == base && p->stream == stream)
            return p;
    struct place *p = memory_new(sizeof *p);
    *p = (struct place){.group = in->collect.group,
                        .base = base,
                        .worker_count = group_size(e->mesh, g),
                        .stream = stream,
                        .next = *slot};
    p->workers = memory_new_array((size_t)p->worker_count, sizeof *p->workers);
    p->instructions = memory_new_array((size_t)p->worker_count, sizeof *p->instructions);
    for (int i = 0; i < p->worker_count; i++)
        p->workers[i] = group_member(e->mesh, g, w->worker, i);
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
    const struct instruction *a = engine_instruction(e, first, p->instructions[0]);
    int64_t bytes = collect_bytes(engine_role(e, first), a);
    for (int i = 1; i < p->worker_count; i++) {
        const struct engine_worker *other = &e->workers[p->workers[i]];
        const struct instruction *b = engine_instruction(e, other, p->instructions[i]);
        int64_t other_bytes = collect_bytes(engine_role(e, other), b);
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
    const struct instruction *a = engine_instruction(e, first, p->instructions[0]);
    const struct group *g = &e->plan->groups[p->group];
    int parts = a->collect.part_count;
    int root = group_root(g, a->collect.root_coordinate);
    RETURN_IF_FAILED(agree(e, p));
    if (!e->hooks || !e->hooks->collect)
        return RH_OK;
    int count = p->worker_count * parts;
    struct untimed_member *members = memory_new_array((size_t)count, sizeof *members);
    for (int i = 0; i < count; i++) {
        const struct engine_worker *w = &e->workers[p->workers[i / parts]];
        const struct instruction *in = engine_instruction(e, w, p->instructions[i / parts]);
        members[i] = (struct untimed_member){
            w->worker, in, &engine_role(e, w)->parts[in->collect.part_first + i % parts]};
    }
    enum rh_status status =
        e->hooks->collect(e->hooks->context, members, count, root * parts + a->collect.root_part);
    free(members);
    return status;
}

enum rh_status engine_arrive(struct engine *e, struct engine_worker *w, int index)
{
    const struct instruction *in = engine_instruction(e, w, index);
    if (w->posted[index] || !engine_at_all_heads(e, w, index))
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
        engine_pop(e, &e->workers[p->workers[i]], p->instructions[i]);
    return RH_OK;
}

static void finish_exchange(struct engine *e, struct exchange *x)
{
    if (--x->left == 0)
        engine_pop(e, x->worker, x->instruction);
}

static enum rh_status meet(struct engine *e, const struct mail *mine, const struct mail *other)
{
    const struct mail *from = mine->send ? mine : other;
    const struct mail *to = mine->send ? other : mine;
    const struct engine_worker *a = &e->workers[from->from];
    const struct engine_worker *b = &e->workers[to->to];
    int64_t sent = view_bytes(engine_role(e, a), from->view);
    int64_t expected = view_bytes(engine_role(e, b), to->view);
    if (sent != expected)
        return fail(RH_INVALID, "message '%s': worker %d sends %lld bytes, worker %d receives %lld",
                    mine->name, from->from, (long long)sent, to->to, (long long)expected);
    if (!e->hooks || !e->hooks->transfer)
        return RH_OK;
    return e->hooks->transfer(e->hooks->context, from->from, from->view, to->to, to->view);
}

enum rh_status engine_post(struct engine *e, struct engine_worker *w, int index)
{
    const struct instruction *in = engine_instruction(e, w, index);
    const struct role *role = engine_role(e, w);
    if (w->posted[index] || !engine_at_all_heads(e, w, index))
        return RH_OK;
    w->posted[index] = true;
    struct exchange *x = memory_new(sizeof *x);
    *x = (struct exchange){e->exchanges, w, index, in->exchange.message_count + 1};
    e->exchanges = x;
    for (int i = 0; i < in->exchange.message_count; i++) {
        const struct message *m = &role->messages[in->exchange.message_first + i];
        int peer = group_peer(e->mesh, &e->plan->groups[in->exchange.group], w->worker, m->peer);
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

void engine_free_meetings(struct engine *e)
{
    while (e->exchanges) {
        struct exchange *next = e->exchanges->next;
        free(e->exchanges);
        e->exchanges = next;
    }
    for (int i = 0; i < TABLE_SIZE; i++) {
        while (e->mails[i]) {
            struct mail *next = e->mails[i]->next;
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
}
