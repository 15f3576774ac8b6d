#include "plan/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/access.h"

/* Who touches each buffer of the role in this list, in list order. */
struct users {
    int *at; /* instruction indices, each once for a buffer */
    int count, capacity;
};

enum { MOST_OPERANDS = 16 };

struct fuse {
    struct role *role;
    struct list *list;
    int list_index;
    struct users *users; /* per buffer */
    bool *gone;          /* per instruction */
    int removed;
};

static struct view *operand(const struct fuse *f, int instruction, int index)
{
    return &f->role->views[f->list->instructions[instruction].compute.view_first + index];
}

static struct view *result(const struct fuse *f, int instruction, int index)
{
    return operand(f, instruction, f->list->instructions[instruction].compute.read_count + index);
}

static void add_user(struct fuse *f, int buffer, int instruction)
{
    struct users *u = &f->users[buffer];
    int at = u->count;
    while (at > 0 && u->at[at - 1] > instruction)
        at--;
    if (at > 0 && u->at[at - 1] == instruction)
        return;
    ARRAY_ADD(u->at, u->count, u->capacity);
    memmove(&u->at[at + 1], &u->at[at], (size_t)(u->count - 1 - at) * sizeof *u->at);
    u->at[at] = instruction;
}

static void find_users(struct fuse *f)
{
    for (int i = 0; i < f->list->count; i++) {
        const struct instruction *in = &f->list->instructions[i];
        for (int k = 0; k < access_count(in); k++) {
            struct access access = access_at(f->role, in, k);
            if (access.view >= 0)
                add_user(f, f->role->views[access.view].buffer, i);
        }
    }
}

/* Users that are still there. */
static int users_of(const struct fuse *f, int buffer, int *found, int most)
{
    const struct users *u = &f->users[buffer];
    int count = 0;
    for (int i = 0; i < u->count; i++) {
        if (f->gone[u->at[i]])
            continue;
        if (count < most)
            found[count] = u->at[i];
        count++;
    }
    return count;
}

static bool is_op(const struct fuse *f, int i, enum op_kind kind)
{
    const struct instruction *in = &f->list->instructions[i];
    return !f->gone[i] && in->kind == INSTRUCTION_COMPUTE && in->compute.op.kind == kind;
}

/* A whole transient buffer of this list: nothing outside the list sees it. */
static bool is_passing(const struct fuse *f, const struct view *view)
{
    const struct buffer *b = &f->role->buffers[view->buffer];
    return b->lifetime == LIFETIME_TRANSIENT && b->list == f->list_index && view->offset == 0 &&
           type_bytes(&view->type) == b->bytes && view_is_dense(view);
}

static bool same_view(const struct view *a, const struct view *b)
{
    return a->buffer == b->buffer && a->offset == b->offset &&
           shape_equal(&a->type.shape, &b->type.shape) && view_same_order(a, b);
}

/* On one stream, and whatever stands between them there is compute: no event, copy or collective
 * marks a place that the joined instruction would cross. */
static bool together(const struct fuse *f, int first, int last)
{
    int stream = f->list->instructions[first].stream;
    if (f->list->instructions[last].stream != stream)
        return false;
    for (int i = first + 1; i < last; i++) {
        const struct instruction *in = &f->list->instructions[i];
        for (int k = 0; k < access_stream_count(in); k++)
            if (!f->gone[i] && in->kind != INSTRUCTION_COMPUTE &&
                access_stream(f->role, in, k) == stream)
                return false;
    }
    return true;
}

/* Instruction `at` becomes `op` with these operands; its name stays that of `named`. */
static void replace(struct fuse *f, int at, int named, const struct op *op,
                    const struct view *views, int reads, int writes)
{
    struct role *role = f->role;
    struct instruction *in = &f->list->instructions[at];
    int first = role->view_count;
    for (int i = 0; i < reads + writes; i++) {
        struct view view = views[i];
        *ARRAY_ADD(role->views, role->view_count, role->view_capacity) = view;
    }
    in->name = f->list->instructions[named].name;
    in->compute.op = *op;
    in->compute.view_first = first;
    in->compute.read_count = reads;
    in->compute.write_count = writes;
    for (int i = 0; i < reads + writes; i++)
        add_user(f, views[i].buffer, at);
}

static void remove_instruction(struct fuse *f, int i)
{
    f->gone[i] = true;
    f->removed++;
}

/* The only other user of what `i` writes first, if it is there alone; -1. */
static int only_reader(const struct fuse *f, int i)
{
    int users[3];
    const struct view *y = result(f, i, 0);
    if (!is_passing(f, y) || users_of(f, y->buffer, users, 3) != 2 || users[0] != i)
        return -1;
    return users[1];
}

/* batch_norm2d at `norm`, then perhaps add, then relu: joined where the relu stands. */
static void fuse_forward(struct fuse *f, int norm)
{
    const struct instruction *in = &f->list->instructions[norm];
    struct view views[MOST_OPERANDS];
    int next = only_reader(f, norm);
    int relu = next;
    int reads = in->compute.read_count;
    const struct view *residual = NULL;
    if (in->compute.op.norm.relu || reads > 6 || next < 0)
        return;
    if (is_op(f, next, OP_add)) {
        bool first = operand(f, next, 0)->buffer == result(f, norm, 0)->buffer;
        residual = operand(f, next, first ? 1 : 0);
        relu = only_reader(f, next);
        if (residual->buffer == result(f, norm, 0)->buffer)
            return;
    }
    if (relu < 0 || !is_op(f, relu, OP_relu) || !together(f, norm, relu))
        return;
    struct op op = in->compute.op;
    int count = 0;
    op.norm.relu = true;
    for (int i = 0; i < reads; i++)
        views[count++] = *operand(f, norm, i);
    if (residual)
        views[count++] = *residual;
    reads = count;
    views[count++] = *result(f, relu, 0);
    for (int i = 1; i < in->compute.write_count; i++)
        views[count++] = *result(f, norm, i);
    int writes = in->compute.write_count;
    if (residual)
        remove_instruction(f, next);
    remove_instruction(f, norm);
    replace(f, relu, norm, &op, views, reads, writes);
}

/* The batch_norm2d of this list that saved the mean at `saved`; -1. */
static int norm_that_saved(const struct fuse *f, const struct view *saved)
{
    const struct users *u = &f->users[saved->buffer];
    for (int i = 0; i < u->count; i++)
        if (is_op(f, u->at[i], OP_batch_norm2d) &&
            f->list->instructions[u->at[i]].compute.write_count > 1 &&
            same_view(result(f, u->at[i], 1), saved))
            return u->at[i];
    return -1;
}

/* relu_grad of the same forward's output in front of the gradients at `input`: where it stands; -1.
 */
static int mask_before(const struct fuse *f, int input, int norm)
{
    const struct view *gy = operand(f, input, 0);
    int users[1];
    if (!is_passing(f, gy) || users_of(f, gy->buffer, users, 1) < 1)
        return -1;
    if (!is_op(f, users[0], OP_relu_grad) || !same_view(result(f, users[0], 0), gy))
        return -1;
    return same_view(operand(f, users[0], 1), result(f, norm, 0)) ? users[0] : -1;
}

/* The masked gradient is not wanted before `weight` by others, and after it only if there is a
 * residual to hand it to. */
static bool masked_here(const struct fuse *f, const struct view *gy, int weight, bool residual)
{
    int users[4];
    int count = users_of(f, gy->buffer, users, 4);
    return count >= 3 && users[2] == weight && (residual || count == 3);
}

/* batch_norm2d_input_grad at `input` and the weights' gradient, which comes later. */
static void fuse_backward(struct fuse *f, int input)
{
    const struct view *gy = operand(f, input, 0);
    int weight = input + 1;
    while (weight < f->list->count && f->gone[weight])
        weight++;
    if (weight == f->list->count || !is_op(f, weight, OP_batch_norm2d_weight_grad) ||
        !same_view(operand(f, weight, 0), gy) ||
        !same_view(operand(f, weight, 2), operand(f, input, 3)))
        return;
    int norm = norm_that_saved(f, operand(f, input, 3));
    if (norm < 0 || !together(f, input, weight))
        return;
    bool relu = f->list->instructions[norm].compute.op.norm.relu;
    bool residual = f->list->instructions[norm].compute.read_count > 6;
    int mask = relu ? mask_before(f, input, norm) : -1;
    if (relu && (mask < 0 || !together(f, mask, weight) || !masked_here(f, gy, weight, residual)))
        return;
    struct op op = f->list->instructions[weight].compute.op;
    struct view views[MOST_OPERANDS];
    int count = 0;
    op.kind = OP_batch_norm2d_grad;
    op.norm.training = true;
    op.norm.relu = relu;
    views[count++] = relu ? *operand(f, mask, 0) : *gy;
    views[count++] = *operand(f, input, 1);
    views[count++] = *operand(f, input, 2);
    views[count++] = *operand(f, norm, 2);
    views[count++] = *operand(f, input, 3);
    views[count++] = *operand(f, input, 4);
    if (residual)
        views[count++] = *result(f, norm, 0);
    int reads = count;
    views[count++] = *result(f, input, 0);
    views[count++] = *result(f, weight, 0);
    views[count++] = *result(f, weight, 1);
    if (residual)
        views[count++] = *gy;
    if (mask >= 0)
        remove_instruction(f, mask);
    remove_instruction(f, input);
    replace(f, weight, input, &op, views, reads, count - reads);
}

static void rename_views(struct fuse *f, int from, int to, int after)
{
    for (int i = after; i < f->list->count; i++) {
        const struct instruction *in = &f->list->instructions[i];
        for (int k = 0; k < access_count(in) && !f->gone[i]; k++) {
            struct access access = access_at(f->role, in, k);
            if (access.view >= 0 && f->role->views[access.view].buffer == from) {
                f->role->views[access.view].buffer = to;
                add_user(f, to, i);
            }
        }
    }
}

/* sum = other + conv2d_input_grad: the convolution adds to `other` in place, which is then the sum.
 */
static void fuse_sum(struct fuse *f, int add)
{
    const struct view *sum = result(f, add, 0);
    for (int side = 1; side >= 0; side--) {
        const struct view *part = operand(f, add, side);
        const struct view *other = operand(f, add, 1 - side);
        int users[2], others[64];
        int uses = users_of(f, other->buffer, others, 64);
        if (!is_passing(f, part) || !is_passing(f, other) || !is_passing(f, sum) ||
            part->buffer == other->buffer || !view_same_order(part, other) ||
            !view_same_order(other, sum) || users_of(f, part->buffer, users, 2) != 2 ||
            !is_op(f, users[0], OP_conv2d_input_grad) || !together(f, users[0], add) ||
            f->list->instructions[users[0]].compute.op.accumulate)
            continue;
        /* `other` must be complete before the convolution, and read by nothing from there on. */
        if (uses > 64 || others[uses - 1] != add || (uses > 1 && others[uses - 2] > users[0]))
            continue;
        int convolution = users[0];
        struct op op = f->list->instructions[convolution].compute.op;
        struct view views[3] = {*operand(f, convolution, 0), *operand(f, convolution, 1), *other};
        int from = sum->buffer;
        op.accumulate = true;
        remove_instruction(f, add);
        rename_views(f, from, views[2].buffer, add);
        replace(f, convolution, convolution, &op, views, 2, 1);
        return;
    }
}

static bool joins_casts(const struct fuse *f, int first, int next)
{
    if (!is_op(f, next, OP_cast) || !together(f, first, next) ||
        f->list->instructions[next].compute.read_count != 1)
        return false;
    return operand(f, first, 0)->type.dtype == operand(f, next, 0)->type.dtype &&
           result(f, first, 0)->type.dtype == result(f, next, 0)->type.dtype &&
           view_same_order(operand(f, next, 0), result(f, next, 0));
}

/* A run of casts between the same types, as of all low copies of the parameters. */
static void fuse_casts(struct fuse *f, int first)
{
    int last = first;
    if (f->list->instructions[first].compute.read_count != 1 || !joins_casts(f, first, first))
        return;
    while (last + 1 < f->list->count && joins_casts(f, first, last + 1))
        last++;
    int count = last - first + 1;
    if (count == 1)
        return;
    struct op op = f->list->instructions[first].compute.op;
    struct view *views = memory_new_array(2 * (size_t)count, sizeof *views);
    for (int i = 0; i < count; i++) {
        views[i] = *operand(f, first + i, 0);
        views[count + i] = *result(f, first + i, 0);
    }
    for (int i = first + 1; i <= last; i++)
        remove_instruction(f, i);
    replace(f, first, first, &op, views, count, count);
    free(views);
}

static void close_gaps(struct fuse *f)
{
    int kept = 0;
    for (int i = 0; i < f->list->count; i++)
        if (!f->gone[i])
            f->list->instructions[kept++] = f->list->instructions[i];
    f->list->count = kept;
}

static int fuse_list(struct role *role, int list)
{
    struct fuse f = {.role = role, .list = &role->lists[list], .list_index = list};
    f.users = memory_new_array((size_t)role->buffer_count + 1, sizeof *f.users);
    f.gone = memory_new_array((size_t)f.list->count + 1, sizeof *f.gone);
    find_users(&f);
    /* From behind: of two that meet in an add the later one takes it, whose gradients come first.
     */
    for (int i = f.list->count - 1; i >= 0; i--)
        if (is_op(&f, i, OP_batch_norm2d))
            fuse_forward(&f, i);
    for (int i = 0; i < f.list->count; i++)
        if (is_op(&f, i, OP_batch_norm2d_input_grad))
            fuse_backward(&f, i);
    for (int i = 0; i < f.list->count; i++)
        if (is_op(&f, i, OP_add))
            fuse_sum(&f, i);
    for (int i = 0; i < f.list->count; i++)
        if (is_op(&f, i, OP_cast))
            fuse_casts(&f, i);
    close_gaps(&f);
    for (int b = 0; b < role->buffer_count; b++)
        free(f.users[b].at);
    free(f.users);
    free(f.gone);
    return f.removed;
}

int plan_fuse(struct plan *plan)
{
    int removed = 0;
    for (int r = 0; r < plan->role_count; r++)
        for (int l = 0; l < plan->roles[r].list_count; l++)
            removed += fuse_list(&plan->roles[r], l);
    return removed;
}
