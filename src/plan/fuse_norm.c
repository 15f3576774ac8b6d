#include "plan/fusing.h"

/* batch_norm2d at `norm`, then perhaps add, then relu: joined where the relu stands. */
static void fuse_forward(struct fuse *f, int norm)
{
    const struct instruction *in = &f->list->instructions[norm];
    struct view views[FUSING_OPERANDS];
    int next = fuse_only_reader(f, norm);
    int relu = next;
    int reads = in->compute.read_count;
    const struct view *residual = NULL;
    if (in->compute.op.norm.relu || reads > 6 || next < 0)
        return;
    if (fuse_is(f, next, OP_add)) {
        bool first = fuse_operand(f, next, 0)->buffer == fuse_result(f, norm, 0)->buffer;
        residual = fuse_operand(f, next, first ? 1 : 0);
        relu = fuse_only_reader(f, next);
        if (residual->buffer == fuse_result(f, norm, 0)->buffer)
            return;
    }
    if (relu < 0 || !fuse_is(f, relu, OP_relu) || !fuse_together(f, norm, relu))
        return;
    struct op op = in->compute.op;
    int count = 0;
    op.norm.relu = true;
    for (int i = 0; i < reads; i++)
        views[count++] = *fuse_operand(f, norm, i);
    if (residual)
        views[count++] = *residual;
    reads = count;
    views[count++] = *fuse_result(f, relu, 0);
    for (int i = 1; i < in->compute.write_count; i++)
        views[count++] = *fuse_result(f, norm, i);
    int writes = in->compute.write_count;
    if (residual)
        fuse_remove(f, next);
    fuse_remove(f, norm);
    fuse_replace(f, relu, norm, &op, views, reads, writes);
}

/* The batch_norm2d of this list that saved the mean at `saved`; -1. */
static int norm_that_saved(const struct fuse *f, const struct view *saved)
{
    const struct users *u = &f->users[saved->buffer];
    for (int i = 0; i < u->count; i++)
        if (fuse_is(f, u->at[i], OP_batch_norm2d) &&
            f->list->instructions[u->at[i]].compute.write_count > 1 &&
            fuse_same_view(fuse_result(f, u->at[i], 1), saved))
            return u->at[i];
    return -1;
}

/* relu_grad of the same forward's output in front of the gradients at `input`: where it stands; -1.
 */
static int mask_before(const struct fuse *f, int input, int norm)
{
    const struct view *gy = fuse_operand(f, input, 0);
    int users[1];
    if (!fuse_passes(f, gy) || fuse_users(f, gy->buffer, users, 1) < 1)
        return -1;
    if (!fuse_is(f, users[0], OP_relu_grad) || !fuse_same_view(fuse_result(f, users[0], 0), gy))
        return -1;
    return fuse_same_view(fuse_operand(f, users[0], 1), fuse_result(f, norm, 0)) ? users[0] : -1;
}

/* The masked gradient is not wanted before `weight` by others, and after it only if there is a
 * residual to hand it to. */
static bool masked_here(const struct fuse *f, const struct view *gy, int weight, bool residual)
{
    int users[4];
    int count = fuse_users(f, gy->buffer, users, 4);
    return count >= 3 && users[2] == weight && (residual || count == 3);
}

/* batch_norm2d_input_grad at `input` and the weights' gradient, which comes later. */
static void fuse_backward(struct fuse *f, int input)
{
    const struct view *gy = fuse_operand(f, input, 0);
    int weight = input + 1;
    while (weight < f->list->count && f->gone[weight])
        weight++;
    if (weight == f->list->count || !fuse_is(f, weight, OP_batch_norm2d_weight_grad) ||
        !fuse_same_view(fuse_operand(f, weight, 0), gy) ||
        !fuse_same_view(fuse_operand(f, weight, 2), fuse_operand(f, input, 3)))
        return;
    int norm = norm_that_saved(f, fuse_operand(f, input, 3));
    if (norm < 0 || !fuse_together(f, input, weight))
        return;
    bool relu = f->list->instructions[norm].compute.op.norm.relu;
    bool residual = f->list->instructions[norm].compute.read_count > 6;
    int mask = relu ? mask_before(f, input, norm) : -1;
    if (relu &&
        (mask < 0 || !fuse_together(f, mask, weight) || !masked_here(f, gy, weight, residual)))
        return;
    struct op op = f->list->instructions[weight].compute.op;
    struct view views[FUSING_OPERANDS];
    int count = 0;
    op.kind = OP_batch_norm2d_grad;
    op.norm.training = true;
    op.norm.relu = relu;
    views[count++] = relu ? *fuse_operand(f, mask, 0) : *gy;
    views[count++] = *fuse_operand(f, input, 1);
    views[count++] = *fuse_operand(f, input, 2);
    views[count++] = *fuse_operand(f, norm, 2);
    views[count++] = *fuse_operand(f, input, 3);
    views[count++] = *fuse_operand(f, input, 4);
    if (residual)
        views[count++] = *fuse_result(f, norm, 0);
    int reads = count;
    views[count++] = *fuse_result(f, input, 0);
    views[count++] = *fuse_result(f, weight, 0);
    views[count++] = *fuse_result(f, weight, 1);
    if (residual)
        views[count++] = *gy;
    if (mask >= 0)
        fuse_remove(f, mask);
    fuse_remove(f, input);
    fuse_replace(f, weight, input, &op, views, reads, count - reads);
}

/* sum = other + conv2d_input_grad: the convolution adds to `other` in place, which is then the sum.
 */
static void fuse_sum(struct fuse *f, int add)
{
    const struct view *sum = fuse_result(f, add, 0);
    for (int side = 1; side >= 0; side--) {
        const struct view *part = fuse_operand(f, add, side);
        const struct view *other = fuse_operand(f, add, 1 - side);
        int users[2], others[64];
        int uses = fuse_users(f, other->buffer, others, 64);
        if (!fuse_passes(f, part) || !fuse_passes(f, other) || !fuse_passes(f, sum) ||
            part->buffer == other->buffer || !view_same_order(part, other) ||
            !view_same_order(other, sum) || fuse_users(f, part->buffer, users, 2) != 2 ||
            !fuse_is(f, users[0], OP_conv2d_input_grad) || !fuse_together(f, users[0], add) ||
            f->list->instructions[users[0]].compute.op.accumulate)
            continue;
        /* `other` must be complete before the convolution, and read by nothing from there on. */
        if (uses > 64 || others[uses - 1] != add || (uses > 1 && others[uses - 2] > users[0]))
            continue;
        int convolution = users[0];
        struct op op = f->list->instructions[convolution].compute.op;
        struct view views[3] = {*fuse_operand(f, convolution, 0), *fuse_operand(f, convolution, 1),
                                *other};
        int from = sum->buffer;
        op.accumulate = true;
        fuse_remove(f, add);
        fuse_rename(f, from, views[2].buffer, add);
        fuse_replace(f, convolution, convolution, &op, views, 2, 1);
        return;
    }
}

void fuse_norms(struct fuse *f)
{
    /* From behind: of two that meet in an add the later one takes it, whose gradients come first.
     */
    for (int i = f->list->count - 1; i >= 0; i--)
        if (fuse_is(f, i, OP_batch_norm2d))
            fuse_forward(f, i);
    for (int i = 0; i < f->list->count; i++)
        if (fuse_is(f, i, OP_batch_norm2d_input_grad))
            fuse_backward(f, i);
    for (int i = 0; i < f->list->count; i++)
        if (fuse_is(f, i, OP_add))
            fuse_sum(f, i);
}
