/* What compute.c finds prepared: made by ready.c, one for each instruction that needs it. */
#ifndef REHEARSE_BACKENDS_CUDA_READY_H
#define REHEARSE_BACKENDS_CUDA_READY_H

#include "backends/cuda/product.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/kernels.h"

struct ready {
    /* linear layers */
    const struct product *product; /* the session's */
    struct matmul matmul;
    struct product_memory memory;
    /* convolutions */
    const struct convolution *convolution; /* the session's */
    /* in device memory: tables of optimizers, norms, casts, pack and unpack */
    void *table;
    int rows;
    int64_t longest;
    /* host computes */
    struct op op;
    struct cpu_tensor *tensors;
    int read_count, write_count;
    enum rh_status *host_status;
};

struct ready *ready_of(const struct session *session, int worker, int list,
                       const struct instruction *instruction);

/* operands.c: fails where the GPU takes no operand of that type or format. */
enum rh_status operands_check(const struct role *role, const struct instruction *in);

/* tables.c: of instructions over many tensors. A cast of one has none. */
enum rh_status ready_optimizer(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, struct ready *r);
enum rh_status ready_grad_norm(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, struct ready *r);
enum rh_status ready_casts(struct session *s, int worker, const struct role *role,
                           const struct instruction *in, struct ready *r);
enum rh_status ready_pieces(struct session *s, int worker, const struct role *role,
                            const struct instruction *in, struct ready *r);

/* sums.c: RH_INVALID where the plan gave an op that sums in our kernels too little room; counters
 * of all streams. */
enum rh_status sums_check(const struct role *role, const struct instruction *in);
enum rh_status counters_make(struct session *s);
void counters_drop(struct session *s);

#endif
