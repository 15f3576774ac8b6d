#include "op/op.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    enum op_class class;
} ops[OP_COUNT] = {
#define OP(name, class) [OP_##name] = {#name, OP_CLASS_##class},
#include "op/op_list.h"
#undef OP
};

const char *op_name(enum op_kind kind)
{
    assert((unsigned)kind < OP_COUNT);
    return ops[kind].name;
}

enum op_class op_class(enum op_kind kind)
{
    assert((unsigned)kind < OP_COUNT);
    return ops[kind].class;
}

const char *op_class_name(enum op_class c)
{
    static const char *const names[OP_CLASS_COUNT] = {
        [OP_CLASS_MATMUL] = "matmul",
        [OP_CLASS_CONVOLUTION] = "convolution",
        [OP_CLASS_NORMALIZATION] = "normalization",
        [OP_CLASS_POOLING] = "pooling",
        [OP_CLASS_ELEMENTWISE] = "elementwise",
        [OP_CLASS_EMBEDDING] = "embedding",
        [OP_CLASS_LOSS] = "loss",
        [OP_CLASS_OPTIMIZER] = "optimizer",
        [OP_CLASS_MEMORY] = "memory",
        [OP_CLASS_VIEW] = "view",
    };
    assert((unsigned)c < OP_CLASS_COUNT);
    return names[c];
}

bool op_adds_to(const struct op *op, int index)
{
    if (op->kind == OP_batch_norm2d_grad) /* ggamma and gbeta */
        return op->accumulate && (index == 1 || index == 2);
    if (op->kind == OP_mse_loss_grad || op->kind == OP_cross_entropy_grad) /* losses */
        return op->accumulate && index == 1;
    return op->accumulate;
}

bool op_parse(const char *name, enum op_kind *kind)
{
    for (int i = 0; i < OP_COUNT; i++)
        if (!strcmp(name, ops[i].name)) {
            *kind = (enum op_kind)i;
            return true;
        }
    return false;
}
