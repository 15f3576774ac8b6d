/* Memory that an op works in. What a library may choose is bounded by its operands too: it wants
 * copies of them in another layout, or some partial sums of the result. */
#include "op/norm_cut.h"
#include "op/op.h"

static const double operands_times = 8;
/* Indices and counters that a convolution wants however small it is. */
static const double convolution_least_bytes = 1048576;

static size_t whole_lines(double bytes)
{
    return ((size_t)bytes + 255) / 256 * 256;
}

static double operand_bytes(const struct tensor_type *types, int count)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (double)type_bytes(&types[i]);
    return bytes;
}

static double at_most(double limit, double wanted)
{
    return limit < wanted ? limit : wanted;
}

static enum dtype stored(enum dtype dtype)
{
    return dtype == DTYPE_TF32 ? DTYPE_F32 : dtype;
}

/* For a result that is widened or added afterwards: beyond the library's limit. */
static size_t aside_bytes(const struct op *op, const struct tensor_type *reads,
                          const struct tensor_type *writes)
{
    if (op->accumulate)
        return whole_lines((double)type_bytes(&writes[0]));
    if (stored(writes[0].dtype) != stored(reads[0].dtype))
        return whole_lines((double)shape_elements(&writes[0].shape) *
                           (double)dtype_bytes(reads[0].dtype));
    return 0;
}

size_t op_workspace_bytes(const struct op *op, const struct tensor_type *reads, int read_count,
                          const struct tensor_type *writes, int write_count,
                          const struct workspace_limits *limits)
{
    double operands = operand_bytes(reads, read_count) + operand_bytes(writes, write_count);
    const int64_t *x = reads ? reads[0].shape.dim : NULL;
    switch (op->kind) {
    case OP_linear:
    case OP_linear_input_grad:
    case OP_linear_weight_grad:
        return whole_lines(at_most(limits->matmul_bytes, operands_times * operands));
    case OP_conv2d:
    case OP_conv2d_input_grad:
    case OP_conv2d_weight_grad:
        return whole_lines(at_most(limits->convolution_bytes,
                                   convolution_least_bytes + operands_times * operands)) +
               aside_bytes(op, reads, writes);
    case OP_batch_norm2d:
        if (!op->norm.training)
            return 0;
        return whole_lines((double)norm_cut_bytes(x[0], x[1], x[2], x[3], reads->channels_last));
    case OP_batch_norm2d_grad:
    case OP_batch_norm2d_input_grad:
    case OP_batch_norm2d_weight_grad:
        return whole_lines((double)norm_cut_bytes(x[0], x[1], x[2], x[3], reads->channels_last));
    default: return 0;
    }
}
