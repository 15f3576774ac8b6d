#include "plan/touch.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/access.h"

/* A broadcast over several workers gives one root's contents; on the others the same view of the
 * same role may hold nothing yet. Accumulating ops add to what their writes hold. */
static bool needs_content(const struct plan *plan, const struct instruction *instruction, int k,
                          bool write)
{
    int operands = instruction->compute.read_count + instruction->compute.write_count;
    if (instruction->kind == INSTRUCTION_COMPUTE && k == operands)
        return false;
    if (instruction->kind == INSTRUCTION_COMPUTE)
        return !write || op_adds_to(&instruction->compute.op, k - instruction->compute.read_count);
    if (instruction->kind == INSTRUCTION_COLLECT && !write &&
        instruction->collect.kind == COLLECTIVE_BROADCAST)
        return plan->groups[instruction->collect.group].axes == 0 &&
               k / 2 == instruction->collect.root_part;
    return !write;
}

/* Calls with `counts` only count; else the touches go to the places that `next` tells. */
static void visit(struct touches *touches, int *counts, int *next)
{
    const struct role *role = touches->role;
    for (int i = 0; i < touches->list->count; i++) {
        const struct instruction *instruction = &touches->list->instructions[i];
        int count = access_count(instruction);
        for (int k = 0; k < count; k++) {
            struct access access = access_at(role, instruction, k);
            const struct view *view = access.view < 0 ? NULL : &role->views[access.view];
            if (!view || view_end(view) == view->offset)
                continue;
            if (counts) {
                counts[view->buffer]++;
                continue;
            }
            touches->all[next[view->buffer]++] = (struct touch){
                .instruction = i,
                .stream = access_stream(role, instruction, 0),
                .view = view,
                .start = view->offset,
                .end = view_end(view),
                .write = access.write,
                .needs_content = needs_content(touches->plan, instruction, k, access.write),
            };
        }
    }
}

enum rh_status touches_new(const struct plan *plan, int role, int list, struct touches *touches)
{
    struct order *order;
    RETURN_IF_FAILED(order_new(plan, role, list, &order));
    const struct role *r = &plan->roles[role];
    size_t buffers = (size_t)r->buffer_count;
    *touches = (struct touches){plan, r, &r->lists[list], list, order, NULL, NULL};
    int *counts = memory_new_array(buffers, sizeof *counts);
    visit(touches, counts, NULL);
    touches->first = memory_new_array(buffers + 1, sizeof *touches->first);
    for (size_t b = 0; b < buffers; b++) {
        touches->first[b + 1] = touches->first[b] + counts[b];
        counts[b] = touches->first[b];
    }
    touches->all = memory_new_array((size_t)touches->first[buffers], sizeof *touches->all);
    visit(touches, NULL, counts);
    free(counts);
    return RH_OK;
}

void touches_clear(struct touches *touches)
{
    order_free(touches->order);
    free(touches->all);
    free(touches->first);
}

bool touches_unordered(const struct touches *touches, const struct touch *a, const struct touch *b)
{
    return a->instruction != b->instruction &&
           !order_before(touches->order, a->instruction, b->instruction);
}

/* "'conv1' (instruction 3, stream 'compute') writes". */
static void describe(char out[200], const struct touches *touches, const struct touch *touch)
{
    snprintf(out, 200, "'%s' (instruction %d, stream '%s') %s",
             touches->list->instructions[touch->instruction].name, touch->instruction,
             touches->role->streams[touch->stream].name, touch->write ? "writes" : "reads");
}

enum rh_status touches_race(const struct touches *touches, const struct touch *a,
                            const struct touch *b)
{
    const struct buffer *x = &touches->role->buffers[a->view->buffer];
    const struct buffer *y = &touches->role->buffers[b->view->buffer];
    char first[200], second[200];
    describe(first, touches, a);
    describe(second, touches, b);
    int64_t shift = x == y ? 0 : (int64_t)y->offset - (int64_t)x->offset;
    int64_t start = a->start > b->start + shift ? a->start : b->start + shift;
    int64_t end = a->end < b->end + shift ? a->end : b->end + shift;
    if (x == y)
        return fail(RH_INVALID,
                    "race in list '%s' of role '%s': %s and %s bytes [%lld, %lld) of buffer '%s' "
                    "on device %d, and neither waits for the other",
                    touches->list->name, touches->role->name, first, second, (long long)start,
                    (long long)end, x->name, x->device);
    return fail(RH_INVALID,
                "race in list '%s' of role '%s': %s buffer '%s' and %s buffer '%s', which share "
                "bytes [%lld, %lld) of the arena of device %d, and neither waits for the other",
                touches->list->name, touches->role->name, first, x->name, second, y->name,
                (long long)(start + (int64_t)x->offset), (long long)(end + (int64_t)x->offset),
                x->device);
}
