#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/touch.h"
#include "plan/uses.h"

/* The arena of a device, byte range by byte range, and which buffer had it last. "All uses before
 * all uses" is transitive, so going through the buffers by first use each needs a look only at the
 * last owner of its bytes. A segment tree over the offsets where buffers begin or end. */
enum { NOBODY = -1, MIXED = -2 };

struct owners {
    size_t *bounds; /* sorted */
    int bound_count;
    int *owner; /* of tree nodes: a buffer, NOBODY or MIXED */
};

struct claim {
    const struct uses *uses;
    const struct owners *owners;
    int buffer;
    size_t start, end;
    int clash; /* a buffer that is not certainly done, or NOBODY */
};

static int compare_sizes(const void *a, const void *b)
{
    const size_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Node `node` spans bounds[low] … bounds[high]. */
static void claim_node(struct claim *claim, int node, int low, int high)
{
    int *owner = claim->owners->owner;
    const size_t *bounds = claim->owners->bounds;
    if (claim->clash != NOBODY || claim->end <= bounds[low] || bounds[high] <= claim->start)
        return;
    if (owner[node] >= 0 && !uses_before(claim->uses, owner[node], claim->buffer)) {
        claim->clash = owner[node];
        return;
    }
    bool whole = claim->start <= bounds[low] && bounds[high] <= claim->end;
    if (whole && owner[node] != MIXED) {
        owner[node] = claim->buffer;
        return;
    }
    int middle = low + (high - low) / 2;
    if (owner[node] != MIXED)
        owner[2 * node] = owner[2 * node + 1] = owner[node];
    claim_node(claim, 2 * node, low, middle);
    claim_node(claim, 2 * node + 1, middle, high);
    owner[node] = whole ? claim->buffer : MIXED;
}

static bool bytes_meet(const struct touches *touches, const struct touch *a, const struct touch *b)
{
    int64_t x = (int64_t)touches->role->buffers[a->view->buffer].offset;
    int64_t y = (int64_t)touches->role->buffers[b->view->buffer].offset;
    return x + a->start < y + b->end && y + b->start < x + a->end;
}

/* A race if there is one; else one buffer's contents are overwritten in the midst of its uses. */
static enum rh_status fail_sharing(const struct touches *touches, const struct uses *uses, int a,
                                   int b)
{
    const struct buffer *x = &touches->role->buffers[a], *y = &touches->role->buffers[b];
    const struct instruction *instructions = touches->list->instructions;
    for (int i = touches->first[a]; i < touches->first[a + 1]; i++) {
        for (int j = touches->first[b]; j < touches->first[b + 1]; j++) {
            const struct touch *p = &touches->all[i], *q = &touches->all[j];
            if (p->instruction > q->instruction) {
                p = q;
                q = &touches->all[i];
            }
            if ((p->write || q->write) && bytes_meet(touches, p, q) &&
                touches_unordered(touches, p, q))
                return touches_race(touches, p, q);
        }
    }
    return fail(RH_INVALID,
                "buffer reused too early in list '%s' of role '%s': '%s' (instruction %d) begins "
                "to use '%s' while '%s' (instruction %d) has yet to use '%s' in the same bytes of "
                "the arena of device %d",
                touches->list->name, touches->role->name, instructions[uses->first[b]].name,
                uses->first[b], y->name, instructions[uses->last[a]].name, uses->last[a], x->name,
                x->device);
}

struct member {
    int first, buffer;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static enum rh_status check_members(const struct touches *touches, const struct uses *uses,
                                    const struct member *members, int count)
{
    struct owners owners = {memory_new_array(2 * (size_t)count, sizeof(size_t)), 0, NULL};
    struct claim claim = {.uses = uses, .owners = &owners, .clash = NOBODY};
    for (int i = 0; i < count; i++) {
        const struct buffer *buffer = &touches->role->buffers[members[i].buffer];
        owners.bounds[2 * i] = buffer->offset;
        owners.bounds[2 * i + 1] = buffer->offset + buffer->bytes;
    }
    qsort(owners.bounds, 2 * (size_t)count, sizeof *owners.bounds, compare_sizes);
    for (int i = 0; i < 2 * count; i++)
        if (owners.bound_count == 0 || owners.bounds[owners.bound_count - 1] != owners.bounds[i])
            owners.bounds[owners.bound_count++] = owners.bounds[i];
    owners.owner = memory_new_array(4 * (size_t)owners.bound_count, sizeof *owners.owner);
    for (int i = 0; i < 4 * owners.bound_count; i++)
        owners.owner[i] = NOBODY;
    for (int i = 0; i < count && claim.clash == NOBODY; i++) {
        const struct buffer *buffer = &touches->role->buffers[members[i].buffer];
        claim.buffer = members[i].buffer;
        claim.start = buffer->offset;
        claim.end = buffer->offset + buffer->bytes;
        claim_node(&claim, 1, 0, owners.bound_count - 1);
    }
    free(owners.bounds);
    free(owners.owner);
    if (claim.clash != NOBODY)
        return fail_sharing(touches, uses, claim.clash, claim.buffer);
    return RH_OK;
}

enum rh_status touches_check_sharing(const struct touches *touches)
{
    const struct role *role = touches->role;
    struct uses uses;
    enum rh_status status = RH_OK;
    uses_init(&uses, role, touches->list_index, touches->order);
    struct member *members = memory_new_array((size_t)role->buffer_count, sizeof *members);
    for (int device = 0; device <= role->gpus && status == RH_OK; device++) {
        int count = 0;
        for (int b = 0; b < role->buffer_count; b++)
            if (role->buffers[b].device == device && uses.first[b] >= 0 && role->buffers[b].bytes)
                members[count++] = (struct member){uses.first[b], b};
        qsort(members, (size_t)count, sizeof *members, compare_members);
        if (count > 0)
            status = check_members(touches, &uses, members, count);
    }
    free(members);
    uses_clear(&uses);
    return status;
}
