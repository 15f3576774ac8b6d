/* Products of matrices by cuBLASLt: its deterministic algorithms for a request, and their launch.
 */
#ifndef REHEARSE_BACKENDS_CUDA_MATMUL_H
#define REHEARSE_BACKENDS_CUDA_MATMUL_H

#include "backends/cuda/session.h"

/* out (m x n) = b (m x k) a (k x n), column-major and dense: a row-major matrix is the transpose of
 * a column-major one, so that `a` is the activations' side and `b` the other. */
struct matmul_request {
    int64_t m, n, k;
    bool transpose_b, transpose_a;               /* stored as k x m, as n x k */
    enum dtype type, out, compute;               /* of a and b; of out; fp32 or tf32 */
    int b_alignment, a_alignment, out_alignment; /* bytes of the first elements */
    cublasLtEpilogue_t epilogue;                 /* DEFAULT, or one with `vector` alone beside */
    size_t workspace_most_bytes;                 /* no algorithm that wants more is listed */
};

struct matmul {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t b, a, out;
    cublasLtMatmulAlgo_t algorithm;
    int number; /* of the algorithm */
    size_t workspace_bytes;
};

/* Descriptors alone; `vector` is the bias or its gradient, of out's elements, NULL without. */
enum rh_status matmul_describe(const struct matmul_request *request, const void *vector,
                               struct matmul *matmul);
/* Up to `most` algorithms, in the order of the heuristic, that give the same bits every time; each
 * owns its descriptors. None is no failure. */
int matmul_list(struct session *session, const struct matmul_request *request, const void *vector,
                struct matmul *found, int most);
/* out = b a + beta out. Launches only: fit for capture. */
enum rh_status matmul_run(struct session *session, const struct matmul *matmul, cudaStream_t stream,
                          const void *b, const void *a, float beta, void *out, void *workspace);
void matmul_drop(struct matmul *matmul);

/* Largest power of two, 256 at most, that divides the place: bytes from a whole line. */
int matmul_alignment(size_t place);

#endif
