/* Which operands a GPU takes: element types and memory formats. */
#include "backends/cuda/ready.h"
#include "op/convert.h"

static const struct tensor_type *operand(const struct role *role, const struct instruction *in,
                                         int index)
{
    return &role->views[in->compute.view_first + index].type;
}

static enum dtype stored(enum dtype dtype)
{
    return dtype == DTYPE_TF32 ? DTYPE_F32 : dtype;
}

/* Whether the library or kernel of this op takes fp16 and bf16 there. */
static bool takes_low(const struct op *op, int operand, int reads)
{
    switch (op->kind) {
    case OP_linear_weight_grad:
    case OP_conv2d_weight_grad:
    case OP_embedding_weight_grad:
    case OP_mse_loss:
    case OP_cross_entropy: return operand < reads && operand < 2;
    case OP_mse_loss_grad:
    case OP_cross_entropy_grad: return operand < 2 || operand == reads;
    case OP_batch_norm2d: return operand == 0 || operand == 6 || operand == reads;
    case OP_batch_norm2d_grad:
        return operand < 2 || operand == 6 || operand == reads || operand == reads + 3;
    case OP_batch_norm2d_input_grad: return operand < 2 || operand == reads;
    case OP_batch_norm2d_weight_grad: return operand < 2;
    case OP_pack:
    case OP_unpack:
    case OP_grad_norm:
    case OP_grad_scaler:
    case OP_sgd:
    case OP_adam:
    case OP_adamw: return false;
    default: return true;
    }
}

/* On a GPU the operands that may be fp16 or bf16 are all of one type. */
static enum rh_status check_type(const struct role *role, const struct instruction *in, int index,
                                 enum dtype *common)
{
    const struct op *op = &in->compute.op;
    enum dtype dtype = stored(operand(role, in, index)->dtype);
    bool takes = takes_low(op, index, in->compute.read_count);
    if (dtype == DTYPE_I64 || dtype == DTYPE_I32 || op->kind == OP_cast)
        return RH_OK;
    if (takes && *common == DTYPE_COUNT)
        *common = dtype;
    if (takes ? dtype != *common : dtype_is_low(dtype))
        return fail(RH_INVALID, "'%s': operand %d of %s is %s; the cuda backend wants %s there",
                    in->name, index, op_name(op->kind), dtype_name(dtype),
                    dtype_name(takes ? *common : DTYPE_F32));
    return RH_OK;
}

/* All pictures of an instruction lie alike, and there are no gaps. A cast may change the format. */
static enum rh_status check_layout(const struct role *role, const struct instruction *in, int index)
{
    const struct view *view = &role->views[in->compute.view_first + index];
    const struct view *first = &role->views[in->compute.view_first];
    if (!view_is_dense(view))
        return fail(RH_INVALID, "'%s': operand %d of %s is strided", in->name, index,
                    op_name(in->compute.op.kind));
    if (view->type.shape.rank == 4 && first->type.shape.rank == 4 &&
        view->type.channels_last != first->type.channels_last && in->compute.op.kind != OP_cast)
        return fail(RH_INVALID, "'%s': operand %d of %s is %s, operand 0 is not", in->name, index,
                    op_name(in->compute.op.kind),
                    view->type.channels_last ? "channels last" : "row-major");
    return RH_OK;
}

enum rh_status operands_check(const struct role *role, const struct instruction *in)
{
    bool on_host = role->streams[in->stream].device == role->gpus;
    enum dtype common = DTYPE_COUNT;
    for (int i = 0; i < in->compute.read_count + in->compute.write_count; i++) {
        if (!on_host)
            RETURN_IF_FAILED(check_type(role, in, i, &common));
        RETURN_IF_FAILED(check_layout(role, in, i));
    }
    return RH_OK;
}
