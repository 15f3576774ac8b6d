/* Collectives and messages of the untimed engine: who has arrived, whether the halves agree. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/describe.h"
#include "plan/engine.h"
#include "plan/group.h"

static size_t slot_of(const void *a, const void *b, int c, int d)
{
    uintptr_t parts[4] = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d};
    return (size_t)(text_hash(parts, sizeof parts) % TABLE_SIZE);
}

/* All roles share the plan's groups: a worker may name one that it is not in, or one with
 * coordinates that the mesh does not have. */
static enum rh_status check_member(const struct engine *e, const struct engine_worker *w,
                                   const struct instruction *in)
{
    const struct group *g = &e->plan->groups[in->collect.group];
    int coordinate[MESH_MAX_AXES];
    bool member = false;
    int axis = 0;
    if (g->coordinate_count == 0)
        return RH_OK;
    while (!(g->axes >> axis & 1))
        axis++;
    mesh_coordinate(e->mesh, w->worker, coordinate);
    for (int i = 0; i < g->coordinate_count; i++) {
        if (g->coordinates[i] < 0 || g->coordinates[i] >= e->mesh->size[axis])
            return fail(RH_INVALID, "bad group '%s' of '%s': coordinate %d, axis '%s' has %d",
                        g->name, in->name, g->coordinates[i], e->mesh->axis[axis],
                        e->mesh->size[axis]);
        member = member || g->coordinates[i] == coordinate[axis];
    }
    if (!member)
        return fail(RH_INVALID, "'%s' is for group '%s': coordinate %d of axis '%s' is not in it",
                    in->name, g->name, coordinate[axis], e->mesh->axis[axis]);
    return RH_OK;
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

/* One member of a collective, with what all must agree on: the larger of what it gives and gets. */
struct side {
    int worker;
    const struct instruction *in;
    enum dtype dtype;
    size_t bytes;
};

static struct side side_of(const struct engine *e, const struct place *p, int i)
{
    const struct engine_worker *w = &e->workers[p->workers[i]];
    const struct role *role = engine_role(e, w);
    struct side side = {.worker = engine_number(e, w),
                        .in = engine_instruction(e, w, p->instructions[i])};
    for (int k = 0; k < 2 * side.in->collect.part_count; k++) {
        const struct part *part = &role->parts[side.in->collect.part_first + k / 2];
        int view = k % 2 ? part->receive : part->send;
        if (view < 0)
            continue;
        const struct tensor_type *type = &role->views[view].type;
        side.dtype = type->dtype;
        if (type_bytes(type) > side.bytes)
            side.bytes = type_bytes(type);
    }
    return side;
}

static enum rh_status differ(const struct side *a, const struct side *b, const char *what, int of_a,
                             int of_b)
{
    return fail(RH_INVALID, "collective %s differ: worker %d has %d in '%s', worker %d %d in '%s'",
                what, a->worker, of_a, a->in->name, b->worker, of_b, b->in->name);
}

static enum rh_status agree(const struct side *a, const struct side *b)
{
    const struct instruction *x = a->in;
    const struct instruction *y = b->in;
    if (x->collect.kind != y->collect.kind || x->collect.reduce != y->collect.reduce)
        return fail(RH_INVALID,
                    "collectives do not match: worker %d does %s (%s) '%s', worker %d %s (%s) '%s'",
                    a->worker, collective_name(x->collect.kind), reduce_name(x->collect.reduce),
                    x->name, b->worker, collective_name(y->collect.kind),
                    reduce_name(y->collect.reduce), y->name);
    if (x->collect.part_count != y->collect.part_count)
        return differ(a, b, "parts", x->collect.part_count, y->collect.part_count);
    if (a->bytes != b->bytes)
        return fail(RH_INVALID,
                    "collective sizes differ: worker %d gives %zu bytes in '%s', worker %d %zu in "
                    "'%s'",
                    a->worker, a->bytes, x->name, b->worker, b->bytes, y->name);
    if (a->dtype != b->dtype)
        return fail(
            RH_INVALID, "collective types differ: worker %d has %s in '%s', worker %d %s in '%s'",
            a->worker, dtype_name(a->dtype), x->name, b->worker, dtype_name(b->dtype), y->name);
    if (x->collect.root_coordinate != y->collect.root_coordinate)
        return differ(a, b, "roots", x->collect.root_coordinate, y->collect.root_coordinate);
    if (x->collect.root_part != y->collect.root_part)
        return differ(a, b, "root parts", x->collect.root_part, y->collect.root_part);
    return RH_OK;
}

static enum rh_status agree_all(const struct engine *e, const struct place *p)
{
    struct side first = side_of(e, p, 0);
    for (int i = 1; i < p->worker_count; i++) {
        struct side other = side_of(e, p, i);
        RETURN_IF_FAILED(agree(&first, &other));
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
    RETURN_IF_FAILED(agree_all(e, p));
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
    RETURN_IF_FAILED(check_member(e, w, in));
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
    const struct tensor_type *gives = &engine_role(e, a)->views[from->view].type;
    const struct tensor_type *wants = &engine_role(e, b)->views[to->view].type;
    size_t sent = type_bytes(gives);
    size_t expected = type_bytes(wants);
    if (sent != expected)
        return fail(RH_INVALID, "message '%s': worker %d sends %zu bytes, worker %d receives %zu",
                    mine->name, engine_number(e, a), sent, engine_number(e, b), expected);
    if (gives->dtype != wants->dtype)
        return fail(RH_INVALID, "message '%s': worker %d sends %s, worker %d receives %s",
                    mine->name, engine_number(e, a), dtype_name(gives->dtype), engine_number(e, b),
                    dtype_name(wants->dtype));
    if (!e->hooks || !e->hooks->transfer)
        return RH_OK;
    struct untimed_end sender = {from->from, from->view, from->stream_index};
    struct untimed_end receiver = {to->to, to->view, to->stream_index};
    return e->hooks->transfer(e->hooks->context, &sender, &receiver);
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
                            .stream_index = m->stream,
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
