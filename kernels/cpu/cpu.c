#include "kernels/cpu/kernel.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

static enum rh_status (*const kernels[OP_COUNT])(const struct cpu_call *) = {
#define OP(name, class) [OP_##name] = cpu_##name,
#include "op/op_list.h"
#undef OP
};

/* tf32 is fp32 in memory, and is computed here as fp32. */
static enum rh_status check_tensors(const struct op *op, const struct cpu_tensor *tensors,
                                    int count)
{
    for (int i = 0; i < count; i++) {
        enum dtype dtype = tensors[i].type.dtype;
        if (dtype == DTYPE_BF16 || dtype == DTYPE_F16)
            return fail(RH_INVALID, "no numbers of op '%s' in '%s': the host computes 'fp32' only",
                        op_name(op->kind), dtype_name(dtype));
        assert(tensors[i].data || shape_elements(&tensors[i].type.shape) == 0);
    }
    return RH_OK;
}

enum { FEW_OPERANDS = 16 };

/* op_check wants bare types: optimizers have any number of operands, all others a few. */
static enum rh_status check_types(const struct op *op, const struct cpu_tensor *reads,
                                  int read_count, const struct cpu_tensor *writes, int write_count,
                                  struct tensor_type *types)
{
    for (int i = 0; i < read_count; i++)
        types[i] = reads[i].type;
    for (int i = 0; i < write_count; i++)
        types[read_count + i] = writes[i].type;
    return op_check(op, types, read_count, types + read_count, write_count);
}

enum rh_status cpu_run(const struct op *op, const struct cpu_tensor *reads, int read_count,
                       const struct cpu_tensor *writes, int write_count)
{
    struct tensor_type few[FEW_OPERANDS], *types = few;
    struct cpu_call call = {op, reads, writes, read_count, write_count};
    assert((unsigned)op->kind < OP_COUNT);
    RETURN_IF_FAILED(check_tensors(op, reads, read_count));
    RETURN_IF_FAILED(check_tensors(op, writes, write_count));
    if (read_count + write_count > FEW_OPERANDS)
        types = memory_new_array((size_t)(read_count + write_count), sizeof *types);
    enum rh_status status = check_types(op, reads, read_count, writes, write_count, types);
    if (types != few)
        free(types);
    return status == RH_OK ? kernels[op->kind](&call) : status;
}
