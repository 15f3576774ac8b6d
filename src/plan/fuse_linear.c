#include "plan/access.h"
#include "plan/fusing.h"

/* linear and the relu of its result, joined where the linear stands: relu reads nothing else. */
static void fuse_relu(struct fuse *f, int linear)
{
    int relu = fuse_only_reader(f, linear);
    int reads = f->list->instructions[linear].compute.read_count;
    if (relu < 0 || !fuse_is(f, relu, OP_relu) || !fuse_together(f, linear, relu) ||
        !fuse_untouched(f, fuse_result(f, relu, 0)->buffer, linear, relu))
        return;
    struct op op = f->list->instructions[linear].compute.op;
    struct view views[FUSING_OPERANDS];
    op.linear.relu = true;
    for (int i = 0; i < reads; i++)
        views[i] = *fuse_operand(f, linear, i);
    views[reads] = *fuse_result(f, relu, 0);
    fuse_remove(f, relu);
    fuse_replace(f, linear, linear, &op, views, reads, 1);
}

/* A compute before `at` on its stream touched the buffer, so that no wait between `at` and `last`
 * is for it. */
static bool was_here(const struct fuse *f, int buffer, int at)
{
    const struct users *u = &f->users[buffer];
    for (int i = 0; i < u->count && u->at[i] < at; i++) {
        const struct instruction *in = &f->list->instructions[u->at[i]];
        if (!f->gone[u->at[i]] && in->kind == INSTRUCTION_COMPUTE &&
            in->stream == f->list->instructions[at].stream)
            return true;
    }
    return false;
}

static bool writes_between(const struct fuse *f, int buffer, int first, int last)
{
    for (int i = first + 1; i < last; i++) {
        const struct instruction *in = &f->list->instructions[i];
        if (f->gone[i])
            continue;
        for (int k = 0; k < access_count(in); k++) {
            struct access access = access_at(f->role, in, k);
            if (access.view >= 0 && access.write && f->role->views[access.view].buffer == buffer)
                return true;
        }
    }
    return false;
}

/* linear_input_grad and the relu_grad of what it gives. Joined where the former stands, also over
 * events, as DDP's of the weight gradient between: relu_grad needs y alone besides, which is there
 * since the forward pass. */
static void fuse_mask(struct fuse *f, int input)
{
    int mask = fuse_only_reader(f, input);
    if (mask < 0 || !fuse_is(f, mask, OP_relu_grad) ||
        f->list->instructions[input].compute.read_count > 2 ||
        f->list->instructions[mask].stream != f->list->instructions[input].stream)
        return;
    const struct view *gx = fuse_result(f, input, 0), *y = fuse_operand(f, mask, 1);
    const struct view *masked = fuse_result(f, mask, 0);
    if (!fuse_same_view(fuse_operand(f, mask, 0), gx) || y->buffer == gx->buffer ||
        !fuse_passes(f, masked) || !fuse_untouched(f, masked->buffer, -1, mask) ||
        !was_here(f, y->buffer, input) || writes_between(f, y->buffer, input, mask))
        return;
    struct op op = f->list->instructions[input].compute.op;
    struct view views[4] = {*fuse_operand(f, input, 0), *fuse_operand(f, input, 1), *y, *masked};
    fuse_remove(f, mask);
    fuse_replace(f, input, input, &op, views, 3, 1);
}

/* The loss at `loss` and its gradient: of the same operands and weights, next to each other. The
 * scaler is the gradient's alone. */
static void fuse_loss(struct fuse *f, int loss, enum op_kind gradient)
{
    int next = loss + 1;
    const struct op *op = &f->list->instructions[loss].compute.op;
    while (next < f->list->count && !fuse_is(f, next, gradient))
        next++;
    if (next == f->list->count || !fuse_together(f, loss, next))
        return;
    const struct op *other = &f->list->instructions[next].compute.op;
    const struct view *gx = fuse_result(f, next, 0), *scaler = fuse_operand(f, next, 2);
    if (!fuse_same_view(fuse_operand(f, loss, 0), fuse_operand(f, next, 0)) ||
        !fuse_same_view(fuse_operand(f, loss, 1), fuse_operand(f, next, 1)) ||
        op->loss.weight != other->loss.weight || op->loss.sum != other->loss.sum ||
        !fuse_untouched(f, gx->buffer, loss, next) ||
        writes_between(f, fuse_operand(f, loss, 0)->buffer, loss, next) ||
        writes_between(f, fuse_operand(f, loss, 1)->buffer, loss, next) ||
        (other->scaled && writes_between(f, scaler->buffer, loss, next)))
        return;
    struct op both = *op;
    struct view views[6] = {*fuse_operand(f, loss, 0), *fuse_operand(f, loss, 1),
                            *fuse_operand(f, loss, 2)};
    int reads = 3;
    if (other->scaled)
        views[reads++] = *scaler;
    views[reads] = *gx;
    views[reads + 1] = *fuse_result(f, loss, 0);
    both.kind = gradient;
    both.scaled = other->scaled;
    fuse_remove(f, next);
    fuse_replace(f, loss, loss, &both, views, reads, 2);
}

void fuse_linears(struct fuse *f)
{
    for (int i = 0; i < f->list->count; i++) {
        if (fuse_is(f, i, OP_linear))
            fuse_relu(f, i);
        else if (fuse_is(f, i, OP_linear_input_grad))
            fuse_mask(f, i);
        else if (fuse_is(f, i, OP_mse_loss))
            fuse_loss(f, i, OP_mse_loss_grad);
        else if (fuse_is(f, i, OP_cross_entropy))
            fuse_loss(f, i, OP_cross_entropy_grad);
    }
}
