#include "kernels/cpu/kernel.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "op/convert.h"

static enum rh_status (*const kernels[OP_COUNT])(const struct cpu_call *) = {
#define OP(name, class) [OP_##name] = cpu_##name,
#include "op/op_list.h"
#undef OP
};

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

/* The kernels compute in fp32: fp16 and bf16 operands become fp32 for the call, and what was written
 * is rounded once. tf32 is fp32 in memory, and is computed here as fp32. */
static enum rh_status widen(const struct op *op, const struct cpu_tensor *from, int count,
                            struct cpu_tensor *to)
{
    for (int i = 0; i < count; i++) {
        int64_t elements = shape_elements(&from[i].type.shape);
        assert(from[i].data || elements == 0);
        to[i] = from[i];
        if (!dtype_is_low(from[i].type.dtype))
            continue;
        to[i].type.dtype = DTYPE_F32;
        to[i].data = malloc((size_t)elements * sizeof(float) + 1);
        if (!to[i].data)
            return fail(RH_OUT_OF_MEMORY, "op '%s': no memory for %lld elements as fp32",
                        op_name(op->kind), (long long)elements);
        convert_to_f32(from[i].type.dtype, from[i].data, to[i].data, elements);
    }
    return RH_OK;
}

static void narrow(const struct cpu_tensor *wide, const struct cpu_tensor *to, int count)
{
    for (int i = 0; i < count; i++)
        if (wide[i].data != to[i].data)
            convert_from_f32(to[i].type.dtype, wide[i].data, to[i].data,
                             shape_elements(&to[i].type.shape));
}

static bool any_low(const struct cpu_tensor *tensors, int count)
{
    for (int i = 0; i < count; i++)
        if (dtype_is_low(tensors[i].type.dtype))
            return true;
    return false;
}

static enum rh_status run_widened(const struct op *op, const struct cpu_tensor *reads,
                                  int read_count, const struct cpu_tensor *writes, int write_count)
{
    size_t count = (size_t)(read_count + write_count);
    struct cpu_tensor *wide = memory_new_array(count, sizeof *wide);
    struct cpu_call call = {op, wide, wide + read_count, read_count, write_count};
    enum rh_status status = widen(op, reads, read_count, wide);
    if (status == RH_OK)
        status = widen(op, writes, write_count, wide + read_count);
    if (status == RH_OK)
        status = kernels[op->kind](&call);
    if (status == RH_OK)
        narrow(wide + read_count, writes, write_count);
    for (int i = 0; i < read_count; i++)
        if (wide[i].data != reads[i].data)
            free(wide[i].data);
    for (int i = 0; i < write_count; i++)
        if (wide[read_count + i].data != writes[i].data)
            free(wide[read_count + i].data);
    free(wide);
    return status;
}

enum rh_status cpu_run(const struct op *op, const struct cpu_tensor *reads, int read_count,
                       const struct cpu_tensor *writes, int write_count)
{
    struct tensor_type few[FEW_OPERANDS], *types = few;
    struct cpu_call call = {op, reads, writes, read_count, write_count};
    assert((unsigned)op->kind < OP_COUNT);
    if (read_count + write_count > FEW_OPERANDS)
        types = memory_new_array((size_t)(read_count + write_count), sizeof *types);
    enum rh_status status = check_types(op, reads, read_count, writes, write_count, types);
    if (types != few)
        free(types);
    RETURN_IF_FAILED(status);
    if (any_low(reads, read_count) || any_low(writes, write_count))
        return run_widened(op, reads, read_count, writes, write_count);
    return kernels[op->kind](&call);
}
