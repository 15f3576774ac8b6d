#include "op/rule.h"

/* An op with its operands, by position. */
struct call {
    const struct op *op;
    const struct tensor_type *reads, *writes;
    int read_count, write_count;
};

static struct operand read_of(const struct call *call, int i)
{
    return (struct operand){op_signatures[call->op->kind].reads[i].name,
                            i < call->read_count ? &call->reads[i] : NULL};
}

static struct operand write_of(const struct call *call, int i)
{
    return (struct operand){op_signatures[call->op->kind].writes[i].name,
                            i < call->write_count ? &call->writes[i] : NULL};
}

static enum rh_status check_elements(const struct op *op, struct operand operand, int64_t wanted)
{
    int64_t got = shape_elements(&operand.type->shape);
    return got == wanted ? RH_OK
                         : rule_fault(op, operand, "elements", got, op_name(op->kind), wanted);
}

static enum rh_status check_forward(const struct call *call)
{
    struct tensor_type wanted[OP_MAX_WRITES];
    int count;
    RETURN_IF_FAILED(op_infer(call->op, call->reads, call->read_count, wanted, &count));
    if (count != call->write_count)
        return fail(RH_INVALID, "wrong number of writes of op '%s': %d given, %d wanted",
                    op_name(call->op->kind), call->write_count, count);
    if (op_class(call->op->kind) == OP_CLASS_LOSS) /* any number of slots */
        return rule_rank(call->op, write_of(call, 0), 1);
    const char *by = op_signatures[call->op->kind].reads[0].name;
    for (int i = 0; i < count; i++)
        RETURN_IF_FAILED(rule_is_shape(call->op, write_of(call, i), by, &wanted[i].shape));
    return RH_OK;
}

/* linear and conv2d: the forward shape of (gx or x, w or gw) must be gy's. */
static enum rh_status check_product_grad(const struct call *call, bool of_input)
{
    const struct op *op = call->op;
    bool linear = op->kind == OP_linear_input_grad || op->kind == OP_linear_weight_grad;
    struct operand gy = read_of(call, 0);
    struct operand x = of_input ? write_of(call, 0) : read_of(call, 1);
    struct operand w = of_input ? read_of(call, 1) : write_of(call, 0);
    struct operand b = of_input ? (struct operand){0} : write_of(call, 1);
    struct shape y;
    RETURN_IF_FAILED((linear ? shape_linear : shape_conv2d)(op, x, w, b, &y));
    return rule_is_shape(op, gy, x.name, &y);
}

static enum rh_status check_norm_grad(const struct call *call)
{
    struct operand vectors[4], x = read_of(call, 1);
    int count = 0;
    if (!call->op->norm.training)
        return fail(RH_INVALID,
                    "no gradient of op 'batch_norm2d' in evaluation: '%s' wants training",
                    op_name(call->op->kind));
    for (int i = 2; i < call->read_count; i++)
        vectors[count++] = read_of(call, i);
    RETURN_IF_FAILED(shape_channels(call->op, x, vectors, count));
    RETURN_IF_FAILED(rule_same_shape(call->op, read_of(call, 0), x));
    if (call->op->kind == OP_batch_norm2d_input_grad)
        return rule_same_shape(call->op, write_of(call, 0), x);
    vectors[0] = write_of(call, 0);
    vectors[1] = write_of(call, 1);
    return shape_channels(call->op, x, vectors, 2);
}

/* y and gresidual come with a residual, and both or neither do. */
static enum rh_status check_whole_norm_grad(const struct call *call)
{
    struct operand vectors[6], x = read_of(call, 1), y = read_of(call, 6);
    struct operand residual = write_of(call, 3);
    int count = 0;
    for (int i = 2; i < 6; i++)
        vectors[count++] = read_of(call, i);
    vectors[count++] = write_of(call, 1);
    vectors[count++] = write_of(call, 2);
    RETURN_IF_FAILED(shape_channels(call->op, x, vectors, count));
    RETURN_IF_FAILED(rule_same_shape(call->op, read_of(call, 0), x));
    RETURN_IF_FAILED(rule_same_shape(call->op, write_of(call, 0), x));
    if (!y.type != !residual.type)
        return fail(RH_INVALID,
                    "wrong operands of op 'batch_norm2d_grad': 'y' and 'gresidual' go together, "
                    "%d of 2 given",
                    1);
    if (!y.type)
        return RH_OK;
    RETURN_IF_FAILED(rule_same_shape(call->op, y, x));
    return rule_same_shape(call->op, residual, x);
}

static enum rh_status check_pool_grad(const struct call *call)
{
    struct operand gy = read_of(call, 0), gx = write_of(call, 0);
    struct shape y;
    RETURN_IF_FAILED(shape_pool2d(call->op, gx, &y));
    RETURN_IF_FAILED(rule_is_shape(call->op, gy, gx.name, &y));
    if (call->op->kind == OP_avg_pool2d_grad)
        return RH_OK;
    RETURN_IF_FAILED(rule_same_shape(call->op, read_of(call, 1), gx));
    return rule_same_shape(call->op, read_of(call, 2), gy);
}

static enum rh_status check_embedding_grad(const struct call *call)
{
    struct operand gw = write_of(call, 0);
    struct shape y;
    RETURN_IF_FAILED(shape_embedding(call->op, read_of(call, 1), gw, &y));
    return rule_is_shape(call->op, read_of(call, 0), gw.name, &y);
}

static enum rh_status check_loss_grad(const struct call *call)
{
    RETURN_IF_FAILED(shape_loss(call->op, read_of(call, 0), read_of(call, 1)));
    if (call->read_count > 2)
        RETURN_IF_FAILED(check_elements(call->op, read_of(call, 2), SCALER_ELEMENTS));
    return rule_same_shape(call->op, write_of(call, 0), read_of(call, 0));
}

static enum rh_status check_sgd_attributes(const struct op *op)
{
    if (op->sgd.nesterov && (op->sgd.momentum <= 0 || op->sgd.dampening != 0))
        return fail(RH_INVALID,
                    "'nesterov' of op 'sgd' wants a momentum above 0 and a dampening of 0: %g and "
                    "%g given",
                    op->sgd.momentum, op->sgd.dampening);
    return RH_OK;
}

/* One tuple {p g m v} of reads, and its {p m v} of writes. */
static enum rh_status check_update(const struct call *call, const struct tensor_type *reads,
                                   const struct tensor_type *writes, int states)
{
    static const struct operand_rule rules[] = {{"p", REAL}, {"g", REAL}, {"m", REAL}, {"v", REAL}};
    struct operand p = {"p", reads};
    for (int i = 0; i < states + 2; i++) {
        struct operand operand = {rules[i].name, &reads[i]};
        struct operand written = {rules[i].name, &writes[i > 1 ? i - 1 : i]};
        RETURN_IF_FAILED(rule_operand(call->op, &rules[i], operand.type));
        RETURN_IF_FAILED(rule_same_elements(call->op, operand, p));
        if (i == 1) /* the gradient is only read */
            continue;
        RETURN_IF_FAILED(rule_operand(call->op, &rules[i], written.type));
        RETURN_IF_FAILED(rule_same_elements(call->op, written, p));
    }
    return RH_OK;
}

static enum rh_status check_optimizer(const struct call *call)
{
    const struct op *op = call->op;
    int states = op->kind == OP_sgd ? op->sgd.momentum != 0 : 2;
    int first = op->scaled ? 3 : 2;
    int parameters = (call->read_count - first) / (states + 2);
    if (op->kind == OP_sgd)
        RETURN_IF_FAILED(check_sgd_attributes(op));
    if (call->read_count < first || (call->read_count - first) % (states + 2))
        return fail(RH_INVALID,
                    "wrong number of reads of op '%s': %d given, %d and %d a parameter wanted",
                    op_name(op->kind), call->read_count, first, states + 2);
    if (call->write_count != 1 + parameters * (states + 1))
        return fail(RH_INVALID, "wrong number of writes of op '%s': %d given, %d wanted",
                    op_name(op->kind), call->write_count, 1 + parameters * (states + 1));
    RETURN_IF_FAILED(rule_operands(op, false, call->reads, first));
    RETURN_IF_FAILED(rule_operands(op, true, call->writes, 1));
    RETURN_IF_FAILED(check_elements(op, read_of(call, 0), CONTROL_ELEMENTS));
    RETURN_IF_FAILED(check_elements(op, read_of(call, 1), 1));
    if (op->scaled)
        RETURN_IF_FAILED(check_elements(op, read_of(call, 2), SCALER_ELEMENTS));
    RETURN_IF_FAILED(rule_same_elements(op, write_of(call, 0), read_of(call, 1)));
    for (int i = 0; i < parameters; i++)
        RETURN_IF_FAILED(check_update(call, call->reads + first + i * (states + 2),
                                      call->writes + 1 + i * (states + 1), states));
    return RH_OK;
}

static enum rh_status check_scale_add(const struct call *call)
{
    bool needs_y = call->op->scale_add.beta != 0;
    if (call->read_count != (needs_y ? 2 : 1))
        return fail(RH_INVALID,
                    "wrong number of reads of op 'scale_add' with beta %g: %d given, %d wanted",
                    call->op->scale_add.beta, call->read_count, needs_y ? 2 : 1);
    if (needs_y)
        RETURN_IF_FAILED(rule_same_elements(call->op, read_of(call, 1), read_of(call, 0)));
    return rule_same_elements(call->op, write_of(call, 0), read_of(call, 0));
}

/* Any number of gradients. */
static enum rh_status check_grad_norm(const struct call *call)
{
    if (call->read_count < 1)
        return fail(RH_INVALID, "wrong number of reads of op 'grad_norm': %d given, at least 1",
                    call->read_count);
    for (int i = 0; i < call->read_count; i++)
        RETURN_IF_FAILED(rule_operands(call->op, false, &call->reads[i], 1));
    RETURN_IF_FAILED(rule_operands(call->op, true, call->writes, call->write_count));
    return check_elements(call->op, write_of(call, 0), NORM_ELEMENTS);
}

/* One row of norms for each device that has gradients. */
static enum rh_status check_grad_scaler(const struct call *call)
{
    struct operand norms = read_of(call, 0);
    RETURN_IF_FAILED(rule_rank(call->op, norms, 2));
    if (norms.type->shape.dim[1] != NORM_ELEMENTS)
        return rule_fault(call->op, norms, "columns", norms.type->shape.dim[1], "grad_scaler",
                          NORM_ELEMENTS);
    RETURN_IF_FAILED(check_elements(call->op, read_of(call, 1), SCALER_ELEMENTS));
    return check_elements(call->op, write_of(call, 0), SCALER_ELEMENTS);
}

/* pack and unpack: one flat tensor of as many elements as all the parts. */
static enum rh_status check_pack(const struct op *op, const struct tensor_type *parts,
                                 int part_count, const struct tensor_type *flat, int flat_count)
{
    bool pack = op->kind == OP_pack;
    struct operand_rule part = {pack ? "x" : "y", REAL}, whole = {pack ? "y" : "x", REAL};
    struct operand operand = {whole.name, flat};
    int64_t elements = 0;
    if (part_count < 1 || flat_count != 1)
        return fail(RH_INVALID,
                    "wrong number of operands of op '%s': %d parts and %d wholes given, "
                    "at least 1 and 1 wanted",
                    op_name(op->kind), part_count, flat_count);
    RETURN_IF_FAILED(rule_operand(op, &whole, flat));
    for (int i = 0; i < part_count; i++) {
        RETURN_IF_FAILED(rule_operand(op, &part, &parts[i]));
        if (__builtin_add_overflow(elements, shape_elements(&parts[i].shape), &elements))
            elements = INT64_MAX;
    }
    if (shape_elements(&flat->shape) != elements)
        return rule_fault(op, operand, "elements", shape_elements(&flat->shape), part.name,
                          elements);
    return RH_OK;
}

/* Several casts in one: pair by pair. */
static enum rh_status check_casts(const struct call *call)
{
    if (call->read_count != call->write_count)
        return fail(RH_INVALID, "wrong number of writes of op 'cast': %d given, %d wanted",
                    call->write_count, call->read_count);
    for (int i = 0; i < call->read_count; i++)
        RETURN_IF_FAILED(op_check(call->op, &call->reads[i], 1, &call->writes[i], 1));
    return RH_OK;
}

enum rh_status op_check(const struct op *op, const struct tensor_type *reads, int read_count,
                        const struct tensor_type *writes, int write_count)
{
    struct call call = {op, reads, writes, read_count, write_count};
    if (op_class(op->kind) == OP_CLASS_OPTIMIZER)
        return check_optimizer(&call);
    if (op->kind == OP_grad_norm)
        return check_grad_norm(&call);
    if (op->kind == OP_pack)
        return check_pack(op, reads, read_count, writes, write_count);
    if (op->kind == OP_unpack)
        return check_pack(op, writes, write_count, reads, read_count);
    if (op->kind == OP_cast && read_count > 1)
        return check_casts(&call);
    RETURN_IF_FAILED(rule_operands(op, false, reads, read_count));
    RETURN_IF_FAILED(rule_operands(op, true, writes, write_count));
    switch (op->kind) {
    case OP_linear_input_grad:
    case OP_conv2d_input_grad: return check_product_grad(&call, true);
    case OP_linear_weight_grad:
    case OP_conv2d_weight_grad: return check_product_grad(&call, false);
    case OP_batch_norm2d_input_grad:
    case OP_batch_norm2d_weight_grad: return check_norm_grad(&call);
    case OP_batch_norm2d_grad: return check_whole_norm_grad(&call);
    case OP_relu_grad:
        RETURN_IF_FAILED(rule_same_shape(op, read_of(&call, 1), read_of(&call, 0)));
        return rule_same_shape(op, write_of(&call, 0), read_of(&call, 0));
    case OP_max_pool2d_grad:
    case OP_avg_pool2d_grad: return check_pool_grad(&call);
    case OP_embedding_weight_grad: return check_embedding_grad(&call);
    case OP_mse_loss_grad:
    case OP_cross_entropy_grad: return check_loss_grad(&call);
    case OP_grad_scaler: return check_grad_scaler(&call);
    case OP_zero: return RH_OK;
    case OP_scale_add: return check_scale_add(&call);
    case OP_bucket_copy: return rule_same_elements(op, write_of(&call, 0), read_of(&call, 0));
    case OP_cast: return rule_same_shape(op, write_of(&call, 0), read_of(&call, 0));
    default: return check_forward(&call);
    }
}
