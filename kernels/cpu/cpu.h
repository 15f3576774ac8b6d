/* The numbers on the host: one readable kernel an op, the oracle for every other backend.
 * Computed in fp32 (int64 indices and counts), fp16 and bf16 operands converted on the way in and
 * rounded once on the way out; dense row-major tensors, one thread. */
#ifndef REHEARSE_KERNELS_CPU_H
#define REHEARSE_KERNELS_CPU_H

#include "op/op.h"

struct cpu_tensor {
    void *data; /* dense, row-major; owned by the caller; may be NULL for zero elements */
    struct tensor_type type;
};

/* Runs one op. Reads and writes in the order of op/op_list.h; a write may be the same memory as a
 * read only where the op updates in place (optimizers, running statistics, scale_add, accumulate)
 * or is elementwise. Fails (RH_INVALID) on values that have no answer: a target or an index out of
 * range, with both numbers. */
enum rh_status cpu_run(const struct op *op, const struct cpu_tensor *reads, int read_count,
                       const struct cpu_tensor *writes, int write_count);

#endif
