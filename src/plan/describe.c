#include "plan/describe.h"

#include <assert.h>
#include <stdlib.h>

const char *use_name(enum buffer_use use)
{
    static const char *const names[] = {
        "none",  "input",     "target",   "control", "losses", "parameter",
        "state", "optimizer", "gradient", "scaler",  "tensor",
    };
    assert((unsigned)use <= USE_TENSOR);
    return names[use];
}

const char *reduce_name(enum reduce_op reduce)
{
    static const char *const names[] = {"sum", "max", "min"};
    assert((unsigned)reduce <= REDUCE_MIN);
    return names[reduce];
}

static void describe_window(struct text *out, const struct op *op)
{
    if (op->window.output_h > 0) {
        text_add(out, " output %dx%d", op->window.output_h, op->window.output_w);
        return;
    }
    text_add(out, " kernel %dx%d stride %dx%d", op->window.kernel_h, op->window.kernel_w,
             op->window.stride_h, op->window.stride_w);
    if (op->window.padding_h || op->window.padding_w)
        text_add(out, " padding %dx%d", op->window.padding_h, op->window.padding_w);
    if (op->window.dilation > 1)
        text_add(out, " dilation %d", op->window.dilation);
    if (op->window.groups > 1)
        text_add(out, " groups %d", op->window.groups);
    if (op->window.ceil_mode)
        text_add(out, " ceil");
}

static void describe_sgd(struct text *out, const struct op *op)
{
    if (op->sgd.momentum != 0)
        text_add(out, " momentum %g", op->sgd.momentum);
    if (op->sgd.dampening != 0)
        text_add(out, " dampening %g", op->sgd.dampening);
    if (op->sgd.weight_decay != 0)
        text_add(out, " weight_decay %g", op->sgd.weight_decay);
    if (op->sgd.nesterov)
        text_add(out, " nesterov");
}

static void describe_scaler(struct text *out, const struct op *op)
{
    if (op->scaler.max_norm > 0)
        text_add(out, " max_norm %g", op->scaler.max_norm);
    if (op->scaler.skip)
        text_add(out, " skip growth %g backoff %g interval %d", op->scaler.growth,
                 op->scaler.backoff, op->scaler.interval);
}

static void describe_attributes(struct text *out, const struct op *op)
{
    switch (op->kind) {
    case OP_conv2d:
    case OP_conv2d_input_grad:
    case OP_conv2d_weight_grad:
    case OP_max_pool2d:
    case OP_max_pool2d_grad:
    case OP_avg_pool2d:
    case OP_avg_pool2d_grad: describe_window(out, op); return;
    case OP_batch_norm2d:
    case OP_batch_norm2d_input_grad:
    case OP_batch_norm2d_weight_grad:
    case OP_batch_norm2d_grad:
        text_add(out, " %s epsilon %g momentum %g%s", op->norm.training ? "training" : "evaluation",
                 op->norm.epsilon, op->norm.momentum, op->norm.relu ? " relu" : "");
        return;
    case OP_mse_loss:
    case OP_mse_loss_grad:
    case OP_cross_entropy:
    case OP_cross_entropy_grad:
        text_add(out, " %s weight %.9g", op->loss.sum ? "sum" : "mean", op->loss.weight);
        return;
    case OP_sgd: describe_sgd(out, op); return;
    case OP_adam:
    case OP_adamw:
        text_add(out, " beta1 %g beta2 %g epsilon %g weight_decay %g", op->adam.beta1,
                 op->adam.beta2, op->adam.epsilon, op->adam.weight_decay);
        return;
    case OP_grad_scaler: describe_scaler(out, op); return;
    case OP_scale_add:
        text_add(out, " alpha %.9g beta %.9g", op->scale_add.alpha, op->scale_add.beta);
        return;
    case OP_bucket_copy: text_add(out, " alpha %.9g", op->scale_add.alpha); return;
    default: return;
    }
}

void describe_op(struct text *out, const struct op *op)
{
    struct text words = {0};
    describe_attributes(&words, op);
    if (op->compute != DTYPE_F32)
        text_add(&words, " %s", dtype_name(op->compute));
    if (op->accumulate)
        text_add(&words, " accumulate");
    if (op->scaled)
        text_add(&words, " scaled");
    if (words.data)
        text_add(out, "%s", words.data + 1); /* without the first blank */
    free(words.data);
}

void describe_view(struct text *out, const struct role *role, const struct view *view)
{
    char shape[64];
    text_add(out, "%s", role->buffers[view->buffer].name);
    if (view->offset)
        text_add(out, "+%lld", (long long)view->offset);
    text_add(out, " %s %s", dtype_name(view->type.dtype), shape_text(shape, &view->type.shape));
    if (!view_is_row_major(view) && view_is_dense(view)) {
        text_add(out, " channels_last");
    } else if (!view_is_dense(view)) {
        struct shape strides = shape_of(view->type.shape.rank, view->stride);
        text_add(out, " strides %s", shape_text(shape, &strides));
    }
}

void describe_group(struct text *out, const struct plan *plan, const struct group *group)
{
    bool any = false;
    for (int i = 0; i < plan->mesh.axis_count; i++)
        if (group->axes & 1u << i) {
            text_add(out, "%s%s", any ? " " : "", plan->mesh.axis[i]);
            any = true;
        }
    if (!any)
        text_add(out, "local");
    for (int i = 0; i < group->coordinate_count; i++)
        text_add(out, "%s%d", i ? " " : " at ", group->coordinates[i]);
}

void describe_peer(struct text *out, const struct peer *peer)
{
    text_add(out, peer->relative ? "%+d" : "%d", peer->value);
}
