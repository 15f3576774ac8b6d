#include "backends/cuda/matmul.h"

enum { MOST_ASKED = 16 };

#define OK(call) ((call) == CUBLAS_STATUS_SUCCESS)

static cudaDataType_t matrix_type(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

int matmul_alignment(size_t place)
{
    place |= 256;
    return (int)(place & -place);
}

#define SET(attribute, value)                                                                      \
    LT_DO(cublasLtMatmulDescSetAttribute(matmul->product, CUBLASLT_MATMUL_DESC_##attribute,        \
                                         &value, sizeof value))

static enum rh_status describe_epilogue(const struct matmul_request *r, const void *vector,
                                        struct matmul *matmul)
{
    if (r->epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return RH_OK;
    SET(EPILOGUE, r->epilogue);
    if (vector)
        SET(BIAS_POINTER, vector);
    return RH_OK;
}

enum rh_status matmul_describe(const struct matmul_request *r, const void *vector,
                               struct matmul *matmul)
{
    cublasOperation_t yes = CUBLAS_OP_T;
    cublasComputeType_t compute =
        r->compute == DTYPE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cudaDataType_t type = matrix_type(r->type);
    int64_t b_rows = r->transpose_b ? r->k : r->m, b_columns = r->transpose_b ? r->m : r->k;
    int64_t a_rows = r->transpose_a ? r->n : r->k, a_columns = r->transpose_a ? r->k : r->n;
    LT_DO(cublasLtMatmulDescCreate(&matmul->product, compute, CUDA_R_32F));
    if (r->transpose_b)
        SET(TRANSA, yes);
    if (r->transpose_a)
        SET(TRANSB, yes);
    LT_DO(cublasLtMatrixLayoutCreate(&matmul->b, type, (uint64_t)b_rows, (uint64_t)b_columns,
                                     b_rows));
    LT_DO(cublasLtMatrixLayoutCreate(&matmul->a, type, (uint64_t)a_rows, (uint64_t)a_columns,
                                     a_rows));
    LT_DO(cublasLtMatrixLayoutCreate(&matmul->out, matrix_type(r->out), (uint64_t)r->m,
                                     (uint64_t)r->n, r->m));
    return describe_epilogue(r, vector, matmul);
}

#define PREFER(attribute, value)                                                                   \
    OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_##attribute, &value,  \
                                            sizeof value))

/* Partial sums only by a second pass over the workspace: atomics would add in any order. */
static bool prefer(cublasLtMatmulPreference_t preference, const struct matmul_request *r)
{
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t b = (uint32_t)r->b_alignment, a = (uint32_t)r->a_alignment,
             out = (uint32_t)r->out_alignment;
    return PREFER(MAX_WORKSPACE_BYTES, r->workspace_most_bytes) &&
           PREFER(REDUCTION_SCHEME_MASK, reductions) && PREFER(MIN_ALIGNMENT_A_BYTES, b) &&
           PREFER(MIN_ALIGNMENT_B_BYTES, a) && PREFER(MIN_ALIGNMENT_C_BYTES, out) &&
           PREFER(MIN_ALIGNMENT_D_BYTES, out);
}

static bool take(const struct matmul_request *r, const void *vector,
                 const cublasLtMatmulHeuristicResult_t *found, struct matmul *matmul)
{
    uint32_t reduction = 0;
    size_t written = 0;
    *matmul = (struct matmul){.product = NULL};
    if (found->state == CUBLAS_STATUS_SUCCESS && found->workspaceSize <= r->workspace_most_bytes &&
        OK(cublasLtMatmulAlgoConfigGetAttribute(&found->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                &reduction, sizeof reduction, &written)) &&
        !(reduction & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
        OK(cublasLtMatmulAlgoConfigGetAttribute(&found->algo, CUBLASLT_ALGO_CONFIG_ID,
                                                &matmul->number, sizeof matmul->number,
                                                &written)) &&
        matmul_describe(r, vector, matmul) == RH_OK) {
        matmul->algorithm = found->algo;
        matmul->workspace_bytes = (found->workspaceSize + 255) / 256 * 256;
        return true;
    }
    matmul_drop(matmul);
    return false;
}

int matmul_list(struct session *s, const struct matmul_request *r, const void *vector,
                struct matmul *matmuls, int most)
{
    struct matmul asked = {.product = NULL};
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found[MOST_ASKED];
    int listed = 0, count = 0;
    if (matmul_describe(r, vector, &asked) == RH_OK &&
        OK(cublasLtMatmulPreferenceCreate(&preference)) && prefer(preference, r) &&
        OK(cublasLtMatmulAlgoGetHeuristic(s->lt, asked.product, asked.b, asked.a, asked.out,
                                          asked.out, preference,
                                          most < MOST_ASKED ? most : MOST_ASKED, found, &listed)))
        for (int i = 0; i < listed && count < most; i++)
            count += take(r, vector, &found[i], &matmuls[count]);
    if (preference)
        cublasLtMatmulPreferenceDestroy(preference);
    matmul_drop(&asked);
    return count;
}

enum rh_status matmul_run(struct session *s, const struct matmul *matmul, cudaStream_t stream,
                          const void *b, const void *a, float beta, void *out, void *workspace)
{
    float one = 1;
    LT_DO(cublasLtMatmul(s->lt, matmul->product, &one, b, matmul->b, a, matmul->a, &beta, out,
                         matmul->out, out, matmul->out, &matmul->algorithm, workspace,
                         matmul->workspace_bytes, stream));
    return RH_OK;
}

void matmul_drop(struct matmul *matmul)
{
    if (matmul->product)
        cublasLtMatmulDescDestroy(matmul->product);
    if (matmul->a)
        cublasLtMatrixLayoutDestroy(matmul->a);
    if (matmul->b)
        cublasLtMatrixLayoutDestroy(matmul->b);
    if (matmul->out)
        cublasLtMatrixLayoutDestroy(matmul->out);
    *matmul = (struct matmul){.product = NULL};
}
