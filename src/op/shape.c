#include "op/rule.h"

static struct shape shape_make(int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (struct shape){.rank = rank, .dim = {a, b, c, d}};
}

static int64_t dim(struct operand operand, int index)
{
    return operand.type->shape.dim[index];
}

static enum rh_status check_vector(const struct op *op, struct operand vector, const char *by,
                                   int64_t elements)
{
    struct shape shape = shape_make(1, elements, 0, 0, 0);
    return rule_is_shape(op, vector, by, &shape);
}

enum rh_status shape_linear(const struct op *op, struct operand x, struct operand w,
                            struct operand b, struct shape *y)
{
    RETURN_IF_FAILED(rule_rank(op, x, 2));
    RETURN_IF_FAILED(rule_rank(op, w, 2));
    if (dim(w, 1) != dim(x, 1))
        return rule_fault(op, w, "inputs", dim(w, 1), x.name, dim(x, 1));
    if (b.type)
        RETURN_IF_FAILED(check_vector(op, b, w.name, dim(w, 0)));
    *y = shape_make(2, dim(x, 0), dim(w, 0), 0, 0);
    return RH_OK;
}

/* One side of a convolution's or a pooling's output, as torch: with `round_up` a last window may
 * hang over the end, but must start inside the input or its leading padding. */
static enum rh_status window_output(const struct op *op, struct operand x, int axis, bool round_up,
                                    int64_t *output)
{
    bool rows = axis == 2;
    int64_t kernel = rows ? op->window.kernel_h : op->window.kernel_w;
    int64_t stride = rows ? op->window.stride_h : op->window.stride_w;
    int64_t padding = rows ? op->window.padding_h : op->window.padding_w;
    int64_t input = dim(x, axis);
    int64_t extent = op->window.dilation * (kernel - 1) + 1;
    int64_t room = input + 2 * padding - extent + (round_up ? stride - 1 : 0);
    if (room < 0)
        return rule_fault(op, x, rows ? "rows with padding" : "columns with padding",
                          input + 2 * padding, rows ? "kernel_h" : "kernel_w", extent);
    *output = room / stride + 1;
    if (round_up && (*output - 1) * stride >= input + padding)
        (*output)--;
    return RH_OK;
}

static enum rh_status check_attribute(const struct op *op, const char *name, int64_t value,
                                      int64_t least)
{
    if (value < least)
        return fail(RH_INVALID, "wrong attribute '%s' of op '%s': %lld given, at least %lld wanted",
                    name, op_name(op->kind), (long long)value, (long long)least);
    return RH_OK;
}

static enum rh_status check_window(const struct op *op)
{
    RETURN_IF_FAILED(check_attribute(op, "kernel_h", op->window.kernel_h, 1));
    RETURN_IF_FAILED(check_attribute(op, "kernel_w", op->window.kernel_w, 1));
    RETURN_IF_FAILED(check_attribute(op, "stride_h", op->window.stride_h, 1));
    RETURN_IF_FAILED(check_attribute(op, "stride_w", op->window.stride_w, 1));
    RETURN_IF_FAILED(check_attribute(op, "padding_h", op->window.padding_h, 0));
    RETURN_IF_FAILED(check_attribute(op, "padding_w", op->window.padding_w, 0));
    return check_attribute(op, "dilation", op->window.dilation, 1);
}

static enum rh_status check_conv2d_weight(const struct op *op, struct operand x, struct operand w)
{
    int64_t groups = op->window.groups;
    RETURN_IF_FAILED(check_attribute(op, "groups", groups, 1));
    if (dim(w, 2) != op->window.kernel_h)
        return rule_fault(op, w, "kernel rows", dim(w, 2), "kernel_h", op->window.kernel_h);
    if (dim(w, 3) != op->window.kernel_w)
        return rule_fault(op, w, "kernel columns", dim(w, 3), "kernel_w", op->window.kernel_w);
    if (dim(x, 1) != dim(w, 1) * groups)
        return rule_fault(op, x, "channels", dim(x, 1), w.name, dim(w, 1) * groups);
    if (dim(w, 0) % groups)
        return fail(RH_INVALID,
                    "wrong operand '%s' of op 'conv2d': %lld output channels do not divide into "
                    "%lld groups",
                    w.name, (long long)dim(w, 0), (long long)groups);
    return RH_OK;
}

enum rh_status shape_conv2d(const struct op *op, struct operand x, struct operand w,
                            struct operand b, struct shape *y)
{
    RETURN_IF_FAILED(rule_rank(op, x, 4));
    RETURN_IF_FAILED(rule_rank(op, w, 4));
    RETURN_IF_FAILED(check_window(op));
    RETURN_IF_FAILED(check_conv2d_weight(op, x, w));
    if (b.type)
        RETURN_IF_FAILED(check_vector(op, b, w.name, dim(w, 0)));
    *y = shape_make(4, dim(x, 0), dim(w, 0), 0, 0);
    RETURN_IF_FAILED(window_output(op, x, 2, false, &y->dim[2]));
    return window_output(op, x, 3, false, &y->dim[3]);
}

enum rh_status shape_pool2d(const struct op *op, struct operand x, struct shape *y)
{
    bool adaptive = (op->kind == OP_avg_pool2d || op->kind == OP_avg_pool2d_grad) &&
                    (op->window.output_h > 0 || op->window.output_w > 0);
    RETURN_IF_FAILED(rule_rank(op, x, 4));
    *y = shape_make(4, dim(x, 0), dim(x, 1), op->window.output_h, op->window.output_w);
    if (adaptive) {
        if (dim(x, 2) < 1 || dim(x, 3) < 1)
            return rule_fault(op, x, "pixels", dim(x, 2) * dim(x, 3), op_name(op->kind), 1);
        RETURN_IF_FAILED(check_attribute(op, "output_h", op->window.output_h, 1));
        return check_attribute(op, "output_w", op->window.output_w, 1);
    }
    RETURN_IF_FAILED(check_window(op));
    /* More padding would make windows that hold nothing but padding. */
    RETURN_IF_FAILED(
        check_attribute(op, "kernel_h", op->window.kernel_h, 2 * (int64_t)op->window.padding_h));
    RETURN_IF_FAILED(
        check_attribute(op, "kernel_w", op->window.kernel_w, 2 * (int64_t)op->window.padding_w));
    RETURN_IF_FAILED(window_output(op, x, 2, op->window.ceil_mode, &y->dim[2]));
    return window_output(op, x, 3, op->window.ceil_mode, &y->dim[3]);
}

enum rh_status shape_embedding(const struct op *op, struct operand index, struct operand w,
                               struct shape *y)
{
    RETURN_IF_FAILED(rule_rank(op, index, 1));
    RETURN_IF_FAILED(rule_rank(op, w, 2));
    *y = shape_make(2, dim(index, 0), dim(w, 1), 0, 0);
    return RH_OK;
}

enum rh_status shape_loss(const struct op *op, struct operand x, struct operand target)
{
    if (op->kind == OP_mse_loss || op->kind == OP_mse_loss_grad)
        return rule_same_shape(op, target, x);
    RETURN_IF_FAILED(rule_rank(op, x, 2));
    return check_vector(op, target, x.name, dim(x, 0));
}

enum rh_status shape_channels(const struct op *op, struct operand x, const struct operand *vectors,
                              int count)
{
    RETURN_IF_FAILED(rule_rank(op, x, 4));
    for (int i = 0; i < count; i++)
        RETURN_IF_FAILED(check_vector(op, vectors[i], x.name, dim(x, 1)));
    return RH_OK;
}

static enum rh_status infer_batch_norm2d(const struct op *op, const struct operand *in,
                                         struct tensor_type *writes, int *write_count)
{
    RETURN_IF_FAILED(shape_channels(op, in[0], &in[1], 4));
    if (shape_elements(&in[5].type->shape) != 1)
        return rule_fault(op, in[5], "elements", shape_elements(&in[5].type->shape),
                          op_name(op->kind), 1);
    if (in[6].type)
        RETURN_IF_FAILED(rule_same_shape(op, in[6], in[0]));
    writes[0].shape = in[0].type->shape;
    *write_count = 1;
    if (!op->norm.training)
        return RH_OK;
    struct shape channel = shape_make(3, dim(in[0], 0), dim(in[0], 2), dim(in[0], 3), 0);
    int64_t values = shape_elements(&channel);
    if (values == 1) /* no unbiased variance; torch refuses it, too */
        return rule_fault(op, in[0], "values a channel in training", values, op_name(op->kind), 2);
    for (int i = 1; i <= 2; i++)
        writes[i] = *in[3].type; /* statistics keep their own precision */
    for (int i = 3; i <= 5; i++)
        writes[i] = *in[i].type;
    *write_count = 6;
    return RH_OK;
}

static struct shape infer_flatten(const struct shape *x)
{
    struct shape rest = shape_of(x->rank - 1, &x->dim[1]);
    return shape_make(2, x->dim[0], shape_elements(&rest), 0, 0);
}

static enum rh_status infer_loss(const struct op *op, const struct operand *in, struct shape *y)
{
    int64_t controls = shape_elements(&in[2].type->shape);
    if (controls != CONTROL_ELEMENTS)
        return rule_fault(op, in[2], "elements", controls, op_name(op->kind), CONTROL_ELEMENTS);
    *y = shape_make(1, 1, 0, 0, 0);
    return shape_loss(op, in[0], in[1]);
}

static enum dtype first_floating(const struct tensor_type *reads, int count)
{
    for (int i = 0; i < count; i++)
        if (reads[i].dtype != DTYPE_I64 && reads[i].dtype != DTYPE_I32)
            return reads[i].dtype;
    return DTYPE_F32;
}

/* The number of slots is the caller's; one is the least, and op_check accepts any. */
enum rh_status op_infer(const struct op *op, const struct tensor_type *reads, int read_count,
                        struct tensor_type writes[OP_MAX_WRITES], int *write_count)
{
    struct operand in[SIGNATURE_OPERANDS];
    struct shape *y = &writes[0].shape;
    RETURN_IF_FAILED(rule_operands(op, false, reads, read_count));
    for (int i = 0; i < SIGNATURE_OPERANDS; i++)
        in[i] = (struct operand){op_signatures[op->kind].reads[i].name,
                                 i < read_count ? &reads[i] : NULL};
    *write_count = 1;
    writes[0].dtype = first_floating(reads, read_count);
    switch (op->kind) {
    case OP_linear: return shape_linear(op, in[0], in[1], in[2], y);
    case OP_conv2d: return shape_conv2d(op, in[0], in[1], in[2], y);
    case OP_batch_norm2d: return infer_batch_norm2d(op, in, writes, write_count);
    case OP_relu: *y = reads[0].shape; return RH_OK;
    case OP_add: *y = reads[0].shape; return rule_same_shape(op, in[1], in[0]);
    case OP_max_pool2d:
    case OP_avg_pool2d: return shape_pool2d(op, in[0], y);
    case OP_flatten:
        if (reads[0].shape.rank < 1)
            return rule_rank(op, in[0], 2);
        *y = infer_flatten(&reads[0].shape);
        return RH_OK;
    case OP_embedding: return shape_embedding(op, in[0], in[1], y);
    case OP_mse_loss:
    case OP_cross_entropy: writes[0].dtype = DTYPE_F32; return infer_loss(op, in, y);
    default:
        return fail(RH_INVALID, "no forward op '%s': its writes do not follow from its reads",
                    op_name(op->kind));
    }
}
