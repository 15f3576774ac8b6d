#include "op/rule.h"

const struct signature op_signatures[OP_COUNT] = {
    [OP_linear] = {{{"x", REAL}, {"w", REAL}, {"b", MAYBE}}, {{"y", REAL}}},
    [OP_conv2d] = {{{"x", REAL}, {"w", REAL}, {"b", MAYBE}}, {{"y", REAL}}},
    [OP_batch_norm2d] = {{{"x", REAL},
                          {"gamma", REAL},
                          {"beta", REAL},
                          {"mean", REAL},
                          {"var", REAL},
                          {"count", INTEGER},
                          {"residual", MAYBE}},
                         {{"y", REAL},
                          {"save_mean", MAYBE},
                          {"save_invstd", MAYBE},
                          {"mean", MAYBE},
                          {"var", MAYBE},
                          {"count", MAYBE | INTEGER}}},
    [OP_relu] = {{{"x", REAL}}, {{"y", REAL}}},
    [OP_add] = {{{"a", REAL}, {"b", REAL}}, {{"y", REAL}}},
    [OP_max_pool2d] = {{{"x", REAL}}, {{"y", REAL}}},
    [OP_avg_pool2d] = {{{"x", REAL}}, {{"y", REAL}}},
    [OP_flatten] = {{{"x", REAL}}, {{"y", REAL}}},
    [OP_embedding] = {{{"index", INTEGER}, {"w", REAL}}, {{"y", REAL}}},
    [OP_mse_loss] = {{{"x", REAL}, {"target", REAL}, {"control", REAL}}, {{"losses", REAL}}},
    [OP_cross_entropy] = {{{"x", REAL}, {"target", INTEGER}, {"control", REAL}},
                          {{"losses", REAL}}},
    [OP_linear_input_grad] = {{{"gy", REAL}, {"w", REAL}}, {{"gx", REAL}}},
    [OP_linear_weight_grad] = {{{"gy", REAL}, {"x", REAL}}, {{"gw", REAL}, {"gb", MAYBE}}},
    [OP_conv2d_input_grad] = {{{"gy", REAL}, {"w", REAL}}, {{"gx", REAL}}},
    [OP_conv2d_weight_grad] = {{{"gy", REAL}, {"x", REAL}}, {{"gw", REAL}, {"gb", MAYBE}}},
    [OP_batch_norm2d_input_grad] =
        {{{"gy", REAL}, {"x", REAL}, {"gamma", REAL}, {"save_mean", REAL}, {"save_invstd", REAL}},
         {{"gx", REAL}}},
    [OP_batch_norm2d_weight_grad] =
        {{{"gy", REAL}, {"x", REAL}, {"save_mean", REAL}, {"save_invstd", REAL}},
         {{"ggamma", REAL}, {"gbeta", REAL}}},
    [OP_batch_norm2d_grad] =
        {{{"gy", REAL},
          {"x", REAL},
          {"gamma", REAL},
          {"beta", REAL},
          {"save_mean", REAL},
          {"save_invstd", REAL},
          {"y", MAYBE}},
         {{"gx", REAL}, {"ggamma", REAL}, {"gbeta", REAL}, {"gresidual", MAYBE}}},
    [OP_relu_grad] = {{{"gy", REAL}, {"y", REAL}}, {{"gx", REAL}}},
    [OP_max_pool2d_grad] = {{{"gy", REAL}, {"x", REAL}, {"y", REAL}}, {{"gx", REAL}}},
    [OP_avg_pool2d_grad] = {{{"gy", REAL}}, {{"gx", REAL}}},
    [OP_embedding_weight_grad] = {{{"gy", REAL}, {"index", INTEGER}}, {{"gw", REAL}}},
    [OP_mse_loss_grad] = {{{"x", REAL}, {"target", REAL}, {"scaler", MAYBE}}, {{"gx", REAL}}},
    [OP_cross_entropy_grad] = {{{"x", REAL}, {"target", INTEGER}, {"scaler", MAYBE}},
                               {{"gx", REAL}}},
    [OP_sgd] = {{{"control", REAL}, {"count", INTEGER}, {"scaler", MAYBE}}, {{"count", INTEGER}}},
    [OP_adam] = {{{"control", REAL}, {"count", INTEGER}, {"scaler", MAYBE}}, {{"count", INTEGER}}},
    [OP_adamw] = {{{"control", REAL}, {"count", INTEGER}, {"scaler", MAYBE}}, {{"count", INTEGER}}},
    [OP_grad_norm] = {{{"g", REAL}}, {{"norm", REAL}}},
    [OP_grad_scaler] = {{{"norms", REAL}, {"scaler", REAL}}, {{"scaler", REAL}}},
    [OP_zero] = {.writes = {{"y", REAL}}},
    [OP_scale_add] = {{{"x", REAL}, {"y", MAYBE}}, {{"y", REAL}}},
    [OP_bucket_copy] = {{{"x", REAL}}, {{"y", REAL}}},
    [OP_pack] = {{{"x", REAL}}, {{"y", REAL}}},
    [OP_unpack] = {{{"x", REAL}}, {{"y", REAL}}},
    [OP_cast] = {{{"x", REAL}}, {{"y", REAL}}},
};

enum rh_status rule_fault(const struct op *op, struct operand operand, const char *what,
                          int64_t got, const char *by, int64_t wanted)
{
    char shape[64];
    return fail(RH_INVALID, "wrong operand '%s' of op '%s': %s has %lld %s, %lld wanted by '%s'",
                operand.name, op_name(op->kind), shape_text(shape, &operand.type->shape),
                (long long)got, what, (long long)wanted, by);
}

enum rh_status rule_rank(const struct op *op, struct operand operand, int rank)
{
    if (operand.type->shape.rank != rank)
        return rule_fault(op, operand, "dimensions", operand.type->shape.rank, op_name(op->kind),
                          rank);
    return RH_OK;
}

enum rh_status rule_is_shape(const struct op *op, struct operand operand, const char *by,
                             const struct shape *shape)
{
    char got[64], wanted[64];
    if (!shape_equal(&operand.type->shape, shape))
        return fail(RH_INVALID, "wrong operand '%s' of op '%s': shape is %s, %s wanted by '%s'",
                    operand.name, op_name(op->kind), shape_text(got, &operand.type->shape),
                    shape_text(wanted, shape), by);
    return RH_OK;
}

enum rh_status rule_same_shape(const struct op *op, struct operand operand, struct operand other)
{
    return rule_is_shape(op, operand, other.name, &other.type->shape);
}

enum rh_status rule_same_elements(const struct op *op, struct operand operand, struct operand other)
{
    int64_t got = shape_elements(&operand.type->shape);
    int64_t wanted = shape_elements(&other.type->shape);
    return got == wanted ? RH_OK : rule_fault(op, operand, "elements", got, other.name, wanted);
}

static enum rh_status check_count(const struct op *op, bool write, const struct operand_rule *rules,
                                  int count)
{
    const char *verb = write ? "writes" : "reads";
    int least = 0, most = 0;
    for (; most < SIGNATURE_OPERANDS && rules[most].name; most++)
        least += !(rules[most].kind & MAYBE);
    if (count >= least && count <= most)
        return RH_OK;
    if (least == most)
        return fail(RH_INVALID, "wrong number of %s of op '%s': %d given, %d wanted", verb,
                    op_name(op->kind), count, least);
    return fail(RH_INVALID, "wrong number of %s of op '%s': %d given, %d to %d wanted", verb,
                op_name(op->kind), count, least, most);
}

enum rh_status rule_operand(const struct op *op, const struct operand_rule *rule,
                            const struct tensor_type *type)
{
    bool integer = type->dtype == DTYPE_I64 || type->dtype == DTYPE_I32;
    bool fits = rule->kind & INTEGER ? type->dtype == DTYPE_I64 : !integer;
    if (!fits && op->kind != OP_zero) /* zero clears anything */
        return fail(RH_INVALID, "wrong operand '%s' of op '%s': element type is '%s', %s wanted",
                    rule->name, op_name(op->kind), dtype_name(type->dtype),
                    rule->kind & INTEGER ? "'int64'" : "a floating type");
    for (int i = 0; i < type->shape.rank; i++)
        if (type->shape.dim[i] < 0)
            return rule_fault(op, (struct operand){rule->name, type}, "elements in a dimension",
                              type->shape.dim[i], op_name(op->kind), 0);
    return RH_OK;
}

enum rh_status rule_operands(const struct op *op, bool write, const struct tensor_type *types,
                             int count)
{
    const struct signature *signature = &op_signatures[op->kind];
    const struct operand_rule *rules = write ? signature->writes : signature->reads;
    RETURN_IF_FAILED(check_count(op, write, rules, count));
    for (int i = 0; i < count; i++)
        RETURN_IF_FAILED(rule_operand(op, &rules[i], &types[i]));
    return RH_OK;
}
