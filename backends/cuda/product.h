/* Linear layers and their gradients: products of matrices with what is fused to them. The fastest
 * way is searched once for each request of a session. */
#ifndef REHEARSE_BACKENDS_CUDA_PRODUCT_H
#define REHEARSE_BACKENDS_CUDA_PRODUCT_H

#include "backends/cuda/matmul.h"

struct product_request {
    enum op_kind kind;             /* OP_linear or one of its gradients */
    enum dtype type, out, compute; /* of what is read; of the result; fp32 or tf32 */
    int64_t rows, inputs, outputs;
    bool accumulate; /* weight gradient */
    bool vector;     /* forward: a bias; weight gradient: the bias's gradient as well */
    bool relu;       /* forward: of the result; input gradient: where the mask is positive */
    /* bytes of the operands' first elements, 256 at most; vector's 256 without one */
    int first_alignment, second_alignment, out_alignment, vector_alignment;
    size_t workspace_bytes; /* what product_run gets; no way that wants more is taken */
};

/* Operands in device memory; vector and mask as the request says, else NULL. */
struct product_memory {
    const void *first, *second; /* x and w, gy and w, or gy and x */
    void *out, *vector;
    const void *mask;
};

enum product_form {
    PRODUCT_WHOLE, /* cuBLASLt, with an epilogue where more than the product is asked */
    PRODUCT_PARTS, /* cuBLASLt, then a kernel of ours */
    PRODUCT_OURS   /* one kernel of ours, for small ones */
};

struct product_way {
    enum product_form form;
    struct matmul matmul; /* not of ours */
    float seconds;        /* 0: not timed */
};

struct product {
    struct product_request request;
    struct product_way way;
    float fastest[3]; /* seconds of each form; 0: none that ran and was timed */
    struct product *next;
};

/* The fastest way, kept by the session until products_drop. `name` is the instruction's. */
enum rh_status product_find(struct session *session, const struct product_request *request,
                            const char *name, const struct product **product);
/* Device memory that product_run wants, aligned to 256 bytes: at most the request's. */
size_t product_workspace(const struct product_request *request, const struct product_way *way);
/* Descriptors of an instruction's own, since they hold the vector's place; matmul_drop. */
enum rh_status product_bind(const struct product *product, const struct product_memory *at,
                            struct matmul *own);
/* `matmul` is the way's or one's own. Launches only: fit for capture. */
enum rh_status product_run(struct session *session, const struct product_request *request,
                           enum product_form form, const struct matmul *matmul, cudaStream_t stream,
                           const struct product_memory *at, void *workspace);
void products_drop(struct session *session);

/* product_ways.c: up to `most` ways in the order in which one would take them untimed. */
int product_ways(struct session *session, const struct product_request *request, const void *vector,
                 struct product_way *ways, int most, bool late);

/* What the way is called: "cublaslt 66 with epilogue", "cublaslt 66", "ours". */
const char *product_engine(const struct product_way *way, char out[48]);

#endif
