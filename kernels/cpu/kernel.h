/* What the kernels of this folder share: one function an op, and how it finds its operands.
 * cpu_run has checked operand counts, shapes and element types before a kernel runs. */
#ifndef REHEARSE_KERNELS_CPU_KERNEL_H
#define REHEARSE_KERNELS_CPU_KERNEL_H

#include "kernels/cpu/cpu.h"

struct cpu_call {
    const struct op *op;
    const struct cpu_tensor *reads, *writes;
    int read_count, write_count;
};

#define OP(name, class) enum rh_status cpu_##name(const struct cpu_call *call);
#include "op/op_list.h"
#undef OP

/* Operands by position; NULL where an optional one is left out. */
static inline const float *cpu_read(const struct cpu_call *call, int i)
{
    return i < call->read_count ? call->reads[i].data : NULL;
}

static inline const int64_t *cpu_read_integers(const struct cpu_call *call, int i)
{
    return i < call->read_count ? call->reads[i].data : NULL;
}

static inline float *cpu_write(const struct cpu_call *call, int i)
{
    return i < call->write_count ? call->writes[i].data : NULL;
}

static inline const int64_t *cpu_read_dim(const struct cpu_call *call, int i)
{
    return call->reads[i].type.shape.dim;
}

static inline const int64_t *cpu_write_dim(const struct cpu_call *call, int i)
{
    return call->writes[i].type.shape.dim;
}

static inline int64_t cpu_read_elements(const struct cpu_call *call, int i)
{
    return shape_elements(&call->reads[i].type.shape);
}

static inline int64_t cpu_write_elements(const struct cpu_call *call, int i)
{
    return shape_elements(&call->writes[i].type.shape);
}

/* c[rows, columns] = a[rows, inner] b[inner, columns] + beta c, all row-major; a_turned: a is
 * stored [inner, rows], b_turned: b is stored [columns, inner]. */
struct cpu_matrix {
    const float *data;
    bool turned;
};
void cpu_multiply(int64_t rows, int64_t columns, int64_t inner, struct cpu_matrix a,
                  struct cpu_matrix b, float beta, float *c);

/* What `scaler` says to an optimizer (scaling.c); `first` is its first parameter's read. */
struct cpu_scaling {
    double multiplier;
    bool skip;
    int first;
};
struct cpu_scaling cpu_scaling(const struct cpu_call *call);
/* The step that is skipped: every write as its read. */
enum rh_status cpu_hold(const struct cpu_call *call);

/* Writes weight * loss into the slot of write 0 that `control` (read 2) names, or adds it there
 * where the op accumulates. */
enum rh_status cpu_store_loss(const struct cpu_call *call, double loss);

#endif
