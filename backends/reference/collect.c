#include "backends/reference/collect.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "op/convert.h"

/* A member's dense send or receive memory; NULL where it has none. */
struct side {
    char *data;
    struct tensor_type type;
};

struct collective {
    struct side *send, *receive;
    int count, root;
    const struct instruction *in;
};

static struct side side_of(const struct areas *areas, const struct untimed_member *m, int view)
{
    const struct role *role = &areas->plan->roles[plan_role_of(areas->plan, m->worker)];
    if (view < 0)
        return (struct side){0};
    return (struct side){areas_view(areas, m->worker, &role->views[view]), role->views[view].type};
}

static double combine(enum reduce_op op, double a, double b)
{
    if (op == REDUCE_MAX)
        return a > b ? a : b;
    if (op == REDUCE_MIN)
        return a < b ? a : b;
    return a + b;
}

/* Halves are added in fp32 and rounded each time, as a ring of NCCL's does. */
static void accumulate_low(const struct side *from, enum reduce_op op, char *sum)
{
    enum { BLOCK = 256 };
    float a[BLOCK];
    float b[BLOCK];
    enum dtype dtype = from->type.dtype;
    int64_t elements = shape_elements(&from->type.shape);
    int64_t size = (int64_t)dtype_bytes(dtype);
    for (int64_t i = 0; i < elements; i += BLOCK) {
        int64_t count = elements - i < BLOCK ? elements - i : BLOCK;
        convert_to_f32(dtype, sum + i * size, a, count);
        convert_to_f32(dtype, from->data + i * size, b, count);
        for (int64_t k = 0; k < count; k++)
            a[k] = (float)combine(op, a[k], b[k]);
        convert_from_f32(dtype, a, sum + i * size, count);
    }
}

static void accumulate(const struct side *from, enum reduce_op op, char *sum)
{
    int64_t elements = shape_elements(&from->type.shape);
    if (dtype_is_low(from->type.dtype)) {
        accumulate_low(from, op, sum);
        return;
    }
    if (from->type.dtype == DTYPE_I64) {
        int64_t *to = (int64_t *)sum;
        const int64_t *x = (const int64_t *)from->data;
        for (int64_t i = 0; i < elements; i++)
            to[i] = op == REDUCE_SUM                       ? to[i] + x[i]
                    : (op == REDUCE_MAX) == (x[i] > to[i]) ? x[i]
                                                           : to[i];
        return;
    }
    float *to = (float *)sum;
    const float *x = (const float *)from->data;
    for (int64_t i = 0; i < elements; i++)
        to[i] = op == REDUCE_SUM ? to[i] + x[i] : (float)combine(op, to[i], x[i]);
}

/* What can be computed, and whether the root has what it needs: other roles may leave out a side,
 * so that only here it is known who the root is. */
static enum rh_status check(const struct collective *c, const struct untimed_member *root)
{
    enum collective_kind kind = c->in->collect.kind;
    bool reduces = kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE ||
                   kind == COLLECTIVE_REDUCE_SCATTER;
    enum dtype dtype = c->send[0].type.dtype;
    if (reduces && dtype == DTYPE_I32)
        return fail(RH_INVALID, "'%s': no numbers of %s in '%s': the host reduces floats and int64",
                    c->in->name, collective_name(kind), dtype_name(dtype));
    if (kind == COLLECTIVE_BROADCAST && !c->send[c->root].data)
        return fail(RH_INVALID, "'%s': worker %d is the root of a broadcast and sends nothing",
                    root->instruction->name, root->worker);
    if (kind == COLLECTIVE_REDUCE && !c->receive[c->root].data)
        return fail(RH_INVALID, "'%s': worker %d is the root of a reduce and receives nothing",
                    root->instruction->name, root->worker);
    return RH_OK;
}

/* The reduction of all sends, in rank order. */
static char *reduce(const struct collective *c)
{
    const struct side *first = &c->send[0];
    size_t bytes = type_bytes(&first->type);
    char *sum = malloc(bytes + 1);
    if (!sum)
        return NULL;
    memcpy(sum, first->data, bytes);
    for (int i = 1; i < c->count; i++)
        accumulate(&c->send[i], c->in->collect.reduce, sum);
    return sum;
}

static enum rh_status no_memory(const struct collective *c)
{
    return fail(RH_OUT_OF_MEMORY, "'%s': no memory for its values", c->in->name);
}

static enum rh_status reduction(const struct collective *c)
{
    char *sum = reduce(c);
    if (!sum)
        return no_memory(c);
    size_t bytes = type_bytes(&c->send[0].type);
    for (int i = 0; i < c->count; i++) {
        if (!c->receive[i].data)
            continue;
        if (c->in->collect.kind == COLLECTIVE_REDUCE_SCATTER)
            memcpy(c->receive[i].data, sum + (size_t)i * (bytes / (size_t)c->count),
                   bytes / (size_t)c->count);
        else if (c->in->collect.kind == COLLECTIVE_ALL_REDUCE || i == c->root)
            memcpy(c->receive[i].data, sum, bytes);
    }
    free(sum);
    return RH_OK;
}

static enum rh_status broadcast(const struct collective *c)
{
    const struct side *from = &c->send[c->root];
    size_t bytes = type_bytes(&from->type);
    for (int i = 0; i < c->count; i++)
        if (c->receive[i].data && c->receive[i].data != from->data)
            memcpy(c->receive[i].data, from->data, bytes);
    return RH_OK;
}

/* Both kinds are laid out in full first: receives may be in place. */
static enum rh_status exchange(const struct collective *c)
{
    bool gather = c->in->collect.kind == COLLECTIVE_ALL_GATHER;
    size_t bytes = type_bytes(&c->send[0].type);
    size_t piece = gather ? bytes : bytes / (size_t)c->count;
    size_t whole = piece * (size_t)c->count;
    char *all = malloc(gather ? whole + 1 : whole * (size_t)c->count + 1);
    if (!all)
        return no_memory(c);
    for (int i = 0; i < c->count; i++)
        memcpy(all + (size_t)i * bytes, c->send[i].data, bytes);
    for (int i = 0; i < c->count; i++)
        for (int k = 0; c->receive[i].data && k < c->count; k++)
            memcpy(c->receive[i].data + (size_t)k * piece,
                   gather ? all + (size_t)k * piece : all + (size_t)k * bytes + (size_t)i * piece,
                   piece);
    free(all);
    return RH_OK;
}

enum rh_status collect_values(const struct areas *areas, const struct untimed_member *members,
                              int count, int root)
{
    struct collective c = {.count = count, .root = root, .in = members[0].instruction};
    c.send = memory_new_array((size_t)count, sizeof *c.send);
    c.receive = memory_new_array((size_t)count, sizeof *c.receive);
    for (int i = 0; i < count; i++) {
        c.send[i] = side_of(areas, &members[i], members[i].part->send);
        c.receive[i] = side_of(areas, &members[i], members[i].part->receive);
    }
    enum rh_status status = check(&c, &members[root]);
    if (status == RH_OK)
        switch (c.in->collect.kind) {
        case COLLECTIVE_BROADCAST: status = broadcast(&c); break;
        case COLLECTIVE_ALL_GATHER:
        case COLLECTIVE_ALL_TO_ALL: status = exchange(&c); break;
        default: status = reduction(&c); break;
        }
    free(c.send);
    free(c.receive);
    return status;
}
