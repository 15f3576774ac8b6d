/* Costs of ops by their operands' shapes. Products count a multiply-add as two; the small constants
 * below count the arithmetic of the formulas in kernels/cpu, one for each +, -, *, /, comparison,
 * square root or exponential. They matter little: such ops are bound by bytes. */
#include "op/op.h"

#include <assert.h>

enum {
    NORM_TRAINING = 8, /* mean 1, variance 3, normalise 4 */
    NORM_EVALUATION = 4,
    NORM_INPUT_GRAD = 10, /* two sums 4, gradient 6 */
    NORM_WEIGHT_GRAD = 5,
    MSE = 3,
    MSE_GRAD = 2,
    CROSS_ENTROPY = 4,      /* maximum, subtract, exp, add */
    CROSS_ENTROPY_GRAD = 6, /* the same, then divide and multiply */
    ADAM = 13,
};

static double elements(const struct tensor_type *type)
{
    double product = 1;
    for (int i = 0; i < type->shape.rank; i++)
        product *= (double)type->shape.dim[i];
    return product;
}

static double bytes(const struct tensor_type *type)
{
    return elements(type) * (double)dtype_bytes(type->dtype);
}

static double linear_flops(const struct tensor_type *y, const struct tensor_type *w)
{
    return 2 * (double)y->shape.dim[0] * elements(w);
}

/* w holds o * (c / groups) * kh * kw: what each output pixel of an image takes. */
static double conv2d_flops(const struct tensor_type *y, const struct tensor_type *w)
{
    const int64_t *dim = y->shape.dim;
    return 2 * (double)dim[0] * (double)dim[2] * (double)dim[3] * elements(w);
}

static double max_pool_flops(const struct op *op, const struct tensor_type *y)
{
    return elements(y) * op->window.kernel_h * op->window.kernel_w;
}

static double avg_pool_flops(const struct op *op, const struct tensor_type *x,
                             const struct tensor_type *y)
{
    if (op->window.output_h > 0)
        return elements(x) + elements(y);
    return max_pool_flops(op, y) + elements(y);
}

static double sgd_flops(const struct op *op)
{
    double flops = 2; /* p - lr g */
    flops += op->sgd.weight_decay != 0 ? 2 : 0;
    flops += op->sgd.momentum != 0 ? 2 : 0;
    flops += op->sgd.dampening != 0 ? 1 : 0;
    flops += op->sgd.nesterov ? 2 : 0;
    return flops;
}

/* Writes are {p [m] [v]} a parameter, behind the count. */
static double optimizer_flops(const struct op *op, const struct tensor_type *writes,
                              int write_count)
{
    int states = op->kind == OP_sgd ? op->sgd.momentum != 0 : 2;
    double each = op->kind == OP_sgd ? sgd_flops(op) : ADAM + (op->adam.weight_decay != 0 ? 2 : 0);
    double parameters = 0;
    for (int i = 1; i < write_count; i += states + 1)
        parameters += elements(&writes[i]);
    return (each + (op->scaled ? 1 : 0)) * parameters;
}

/* A square and a sum. */
static double grad_norm_flops(const struct tensor_type *reads, int read_count)
{
    double total = 0;
    for (int i = 0; i < read_count; i++)
        total += 2 * elements(&reads[i]);
    return total;
}

/* relu's mask is a comparison with y, or with what is computed anew. */
static double norm_grad_flops(const struct op *op, int read_count)
{
    double mask = !op->norm.relu ? 0 : read_count > 6 ? 1 : 1 + NORM_EVALUATION;
    return NORM_INPUT_GRAD + mask;
}

double op_flops(const struct op *op, const struct tensor_type *reads, int read_count,
                const struct tensor_type *writes, int write_count)
{
    const struct tensor_type *y = &writes[0];
    double added_bias = read_count > 2 ? elements(y) : 0;
    double summed_bias = write_count > 1 ? elements(&reads[0]) : 0;
    switch (op->kind) {
    case OP_linear: return linear_flops(y, &reads[1]) + added_bias;
    case OP_conv2d: return conv2d_flops(y, &reads[1]) + added_bias;
    case OP_linear_input_grad: return linear_flops(&reads[0], &reads[1]);
    case OP_conv2d_input_grad: return conv2d_flops(&reads[0], &reads[1]);
    case OP_linear_weight_grad: return linear_flops(&reads[0], y) + summed_bias;
    case OP_conv2d_weight_grad: return conv2d_flops(&reads[0], y) + summed_bias;
    case OP_batch_norm2d:
        return elements(y) * ((op->norm.training ? NORM_TRAINING : NORM_EVALUATION) +
                              (op->norm.relu ? 1 : 0) + (read_count > 6 ? 1 : 0));
    case OP_batch_norm2d_grad: return elements(y) * norm_grad_flops(op, read_count);
    case OP_batch_norm2d_input_grad: return elements(y) * NORM_INPUT_GRAD;
    case OP_batch_norm2d_weight_grad: return elements(&reads[0]) * NORM_WEIGHT_GRAD;
    case OP_relu:
    case OP_add:
    case OP_relu_grad: return elements(y);
    case OP_max_pool2d: return max_pool_flops(op, y);
    case OP_max_pool2d_grad: return max_pool_flops(op, &reads[0]) + elements(&reads[0]);
    case OP_avg_pool2d: return avg_pool_flops(op, &reads[0], y);
    case OP_avg_pool2d_grad: return avg_pool_flops(op, y, &reads[0]);
    case OP_embedding_weight_grad: return elements(&reads[0]);
    case OP_mse_loss: return elements(&reads[0]) * MSE;
    case OP_mse_loss_grad: return elements(y) * (MSE_GRAD + (read_count > 2 ? 1 : 0));
    case OP_cross_entropy: return elements(&reads[0]) * CROSS_ENTROPY;
    case OP_cross_entropy_grad:
        return elements(y) * (CROSS_ENTROPY_GRAD + (read_count > 2 ? 1 : 0));
    case OP_sgd:
    case OP_adam:
    case OP_adamw: return optimizer_flops(op, writes, write_count);
    case OP_grad_norm: return grad_norm_flops(reads, read_count);
    case OP_grad_scaler: return elements(&reads[0]);
    case OP_scale_add: return elements(y) * (op->scale_add.beta != 0 ? 3 : 1);
    case OP_bucket_copy: return elements(y);
    case OP_unpack: return op->accumulate ? elements(&reads[0]) : 0;
    case OP_pack:
    case OP_flatten:
    case OP_embedding:
    case OP_zero:
    case OP_cast: return 0;
    case OP_COUNT: break;
    }
    assert(!"known op");
    return 0;
}

/* Embeddings touch the rows that the indices name, not the table (each index its own row). */
static double embedding_bytes(const struct op *op, const struct tensor_type *reads,
                              const struct tensor_type *writes)
{
    if (op->kind == OP_embedding)
        return bytes(&reads[0]) + 2 * bytes(&writes[0]);
    double gradient = bytes(&writes[0]); /* zeroed first, all of it */
    if (op->accumulate)
        gradient = 2 * elements(&reads[0]) * (double)dtype_bytes(writes[0].dtype);
    return bytes(&reads[0]) + bytes(&reads[1]) + gradient;
}

double op_bytes(const struct op *op, const struct tensor_type *reads, int read_count,
                const struct tensor_type *writes, int write_count)
{
    double total = 0;
    switch (op->kind) {
    case OP_flatten: return 0;
    case OP_embedding:
    case OP_embedding_weight_grad: return embedding_bytes(op, reads, writes);
    case OP_mse_loss:
    case OP_cross_entropy: /* one slot of the losses, read only to add to it */
        return bytes(&reads[0]) + bytes(&reads[1]) + bytes(&reads[2]) +
               (op->accumulate ? 2 : 1) * (double)dtype_bytes(writes[0].dtype);
    default: break;
    }
    for (int i = 0; i < read_count; i++)
        total += bytes(&reads[i]);
    for (int i = 0; i < write_count; i++)
        total += bytes(&writes[i]) * (op_adds_to(op, i) ? 2 : 1);
    return total;
}
