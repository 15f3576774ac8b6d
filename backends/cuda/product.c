/* Matrix products of linear layers: descriptors and cuBLASLt's algorithm, chosen at load. */
#include "backends/cuda/ready.h"
#include "plan/workspace.h"

static cublasComputeType_t product_type(const struct op *op)
{
    return op->compute == DTYPE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static cudaDataType_t matrix_type(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* Where a product's matrices lie: the heuristic must know how they are aligned. */
struct matrices {
    const void *a, *b, *c, *bias; /* bias may be NULL */
    enum dtype from, to;
};

static uint32_t alignment_of(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer;
    return address % 256 ? (uint32_t)(address & -address) : 256;
}

static void prefer_alignment(cublasLtMatmulPreference_t preference, const struct matrices *at)
{
    uint32_t a = alignment_of(at->a), b = alignment_of(at->b), c = alignment_of(at->c);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a,
                                         sizeof a);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b,
                                         sizeof b);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c,
                                         sizeof c);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c,
                                         sizeof c);
}

/* Column-major C (m x n) = op(A) op(B): a row-major matrix is the transpose of a column-major one.
 */
static enum rh_status make_product(struct session *s, struct ready *r, const struct op *op,
                                   int64_t m, int64_t n, int64_t k, bool transpose_a,
                                   bool transpose_b, const struct matrices *at)
{
    cublasOperation_t yes = CUBLAS_OP_T;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    LT_DO(cublasLtMatmulDescCreate(&r->product, product_type(op), CUDA_R_32F));
    if (transpose_a)
        LT_DO(cublasLtMatmulDescSetAttribute(r->product, CUBLASLT_MATMUL_DESC_TRANSA, &yes,
                                             sizeof yes));
    if (transpose_b)
        LT_DO(cublasLtMatmulDescSetAttribute(r->product, CUBLASLT_MATMUL_DESC_TRANSB, &yes,
                                             sizeof yes));
    if (at->bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        cudaDataType_t type = matrix_type(at->from);
        LT_DO(cublasLtMatmulDescSetAttribute(r->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                             sizeof epilogue));
        LT_DO(cublasLtMatmulDescSetAttribute(r->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                             &at->bias, sizeof at->bias));
        LT_DO(cublasLtMatmulDescSetAttribute(r->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                             sizeof type));
    }
    LT_DO(cublasLtMatrixLayoutCreate(&r->a, matrix_type(at->from), (uint64_t)(transpose_a ? k : m),
                                     (uint64_t)(transpose_a ? m : k), transpose_a ? k : m));
    LT_DO(cublasLtMatrixLayoutCreate(&r->b, matrix_type(at->from), (uint64_t)(transpose_b ? n : k),
                                     (uint64_t)(transpose_b ? k : n), transpose_b ? n : k));
    LT_DO(cublasLtMatrixLayoutCreate(&r->c, matrix_type(at->to), (uint64_t)m, (uint64_t)n, m));
    LT_DO(cublasLtMatmulPreferenceCreate(&preference));
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &r->workspace_bytes, sizeof r->workspace_bytes);
    prefer_alignment(preference, at);
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(s->lt, r->product, r->a, r->b, r->c,
                                                           r->c, preference, 1, &found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0)
        return fail(RH_FAILED, "cuBLASLt has no algorithm for a %lld x %lld x %lld product",
                    (long long)m, (long long)n, (long long)k);
    r->product_algorithm = found.algo;
    return RH_OK;
}

enum rh_status ready_product(struct session *s, int worker, const struct role *role,
                             const struct instruction *in, struct ready *r)
{
    const struct op *op = &in->compute.op;
    const struct view *views = &role->views[in->compute.view_first];
    const struct shape *first = &views[0].type.shape;  /* x or gy */
    const struct shape *second = &views[1].type.shape; /* w or x */
    int write = in->compute.read_count;
    r->workspace_bytes = workspace_bytes(role, in);
    struct matrices at = {.a = view_pointer(s, worker, &views[1]),
                          .b = view_pointer(s, worker, &views[0]),
                          .c = view_pointer(s, worker, &views[write]),
                          .bias = write > 2 ? view_pointer(s, worker, &views[2]) : NULL,
                          .from = views[0].type.dtype,
                          .to = views[write].type.dtype};
    switch (op->kind) {
    case OP_linear: /* y' (o x n) = w (o x i) x' */
        return make_product(s, r, op, second->dim[0], first->dim[0], first->dim[1], true, false,
                            &at);
    case OP_linear_input_grad: /* gx' (i x n) = w' gy' */
        return make_product(s, r, op, second->dim[1], first->dim[0], first->dim[1], false, false,
                            &at);
    default: /* gw' (i x o) = x' gy */
        return make_product(s, r, op, second->dim[1], first->dim[1], first->dim[0], false, true,
                            &at);
    }
}
