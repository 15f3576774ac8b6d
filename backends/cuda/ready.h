/* What compute.c finds prepared: made by ready.c, one for each instruction that needs it. */
#ifndef REHEARSE_BACKENDS_CUDA_READY_H
#define REHEARSE_BACKENDS_CUDA_READY_H

#include "backends/cuda/session.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/kernels.h"

struct ready {
    /* matrix products */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t product_algorithm;
    size_t workspace_bytes; /* that the algorithm may use */
    /* convolutions */
    const struct convolution *convolution; /* the session's */
    /* in device memory: tables of optimizers, casts, pack and unpack */
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

/* product.c: a linear layer or one of its gradients. */
enum rh_status ready_product(struct session *s, int worker, const struct role *role,
                             const struct instruction *in, struct ready *r);

/* norm.c: RH_INVALID where the plan gave a batch norm too little room; counters of all streams. */
enum rh_status ready_batch_norm(const struct role *role, const struct instruction *in);
enum rh_status counters_make(struct session *s);
void counters_drop(struct session *s);

#endif
