/* 1x1 convolutions of channels-last tensors as products of matrices. */
#include "backends/cuda/convolution_way.h"

#include <stdio.h>

enum { MOST_PRODUCTS = 4 };

#define OK(call) ((call) == CUBLAS_STATUS_SUCCESS)

static cudaDataType_t matrix_type(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static bool is_product(const struct convolution_request *r)
{
    const struct op *op = &r->op;
    return r->channels_last && op->window.groups == 1 && op->window.kernel_h == 1 &&
           op->window.kernel_w == 1 && op->window.stride_h == 1 && op->window.stride_w == 1 &&
           op->window.padding_h == 0 && op->window.padding_w == 0;
}

/* out (m x n) = b a, column-major; a row-major matrix is the transpose of a column-major one. */
struct sides {
    int64_t m, n, k;
    bool transpose_b, transpose_a;
};

static struct sides sides_of(const struct convolution_request *r)
{
    int64_t pixels = r->n * r->h * r->w;
    switch (r->op.kind) {
    case OP_conv2d: /* y' (k x pixels) = w (k x c) x' */
        return (struct sides){r->k, pixels, r->c, true, false};
    case OP_conv2d_input_grad: /* gx' (c x pixels) = w' gy' */
        return (struct sides){r->c, pixels, r->k, false, false};
    default: /* gw' (c x k) = x' gy */ return (struct sides){r->c, r->k, pixels, false, true};
    }
}

static bool describe(const struct convolution_request *r, const struct convolution_form *form,
                     struct convolution_way *way)
{
    struct sides t = sides_of(r);
    cublasOperation_t yes = CUBLAS_OP_T;
    cublasComputeType_t compute =
        r->op.compute == DTYPE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cudaDataType_t type = matrix_type(r->type);
    int64_t b_rows = t.transpose_b ? t.k : t.m, a_rows = t.transpose_a ? t.n : t.k;
    return OK(cublasLtMatmulDescCreate(&way->product, compute, CUDA_R_32F)) &&
           (!t.transpose_b || OK(cublasLtMatmulDescSetAttribute(
                                  way->product, CUBLASLT_MATMUL_DESC_TRANSA, &yes, sizeof yes))) &&
           (!t.transpose_a || OK(cublasLtMatmulDescSetAttribute(
                                  way->product, CUBLASLT_MATMUL_DESC_TRANSB, &yes, sizeof yes))) &&
           OK(cublasLtMatrixLayoutCreate(&way->b, type, (uint64_t)b_rows,
                                         (uint64_t)(t.transpose_b ? t.m : t.k), b_rows)) &&
           OK(cublasLtMatrixLayoutCreate(&way->a, type, (uint64_t)a_rows,
                                         (uint64_t)(t.transpose_a ? t.k : t.n), a_rows)) &&
           OK(cublasLtMatrixLayoutCreate(&way->out, matrix_type(form->writes), (uint64_t)t.m,
                                         (uint64_t)t.n, t.m));
}

/* Partial sums only by a second pass over the workspace: atomics would add in any order. */
static bool prefer(cublasLtMatmulPreference_t preference, const struct convolution_request *r)
{
    size_t bytes = r->workspace_bytes;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t alignment = r->alignment_bytes ? (uint32_t)r->alignment_bytes : 16;
    static const cublasLtMatmulPreferenceAttributes_t sides[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    bool done = OK(cublasLtMatmulPreferenceSetAttribute(
                    preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes)) &&
                OK(cublasLtMatmulPreferenceSetAttribute(preference,
                                                        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                        &reductions, sizeof reductions));
    for (int i = 0; done && i < 4; i++)
        done = OK(cublasLtMatmulPreferenceSetAttribute(preference, sides[i], &alignment,
                                                       sizeof alignment));
    return done;
}

/* Each way owns its descriptors, so that it can be dropped alone. */
static bool make_way(const struct convolution_request *r, const struct convolution_form *form,
                     const cublasLtMatmulHeuristicResult_t *found, struct convolution_way *way)
{
    uint32_t reduction = 0;
    size_t written = 0;
    int number = 0;
    if (found->state != CUBLAS_STATUS_SUCCESS ||
        !OK(cublasLtMatmulAlgoConfigGetAttribute(&found->algo,
                                                 CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &reduction,
                                                 sizeof reduction, &written)) ||
        (reduction & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) ||
        !OK(cublasLtMatmulAlgoConfigGetAttribute(&found->algo, CUBLASLT_ALGO_CONFIG_ID, &number,
                                                 sizeof number, &written)) ||
        !describe(r, form, way)) {
        convolution_way_drop(way);
        return false;
    }
    way->form = *form;
    way->algorithm = found->algo;
    way->engine_bytes = convolution_lines(found->workspaceSize);
    snprintf(way->engine, sizeof way->engine, "cublaslt %d%s", number,
             form->adds ? ", beta 1" : "");
    return true;
}

void convolution_products(struct session *s, const struct convolution_request *r,
                          const struct convolution_form *form, struct convolution_way *ways,
                          int *count, int most)
{
    struct convolution_way asked = {0};
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found[MOST_PRODUCTS];
    int listed = 0;
    if (!is_product(r))
        return;
    if (describe(r, form, &asked) && OK(cublasLtMatmulPreferenceCreate(&preference)) &&
        prefer(preference, r) &&
        OK(cublasLtMatmulAlgoGetHeuristic(s->lt, asked.product, asked.b, asked.a, asked.out,
                                          asked.out, preference, MOST_PRODUCTS, found, &listed)))
        for (int i = 0; i < listed && *count < most; i++) {
            ways[*count] = (struct convolution_way){0};
            *count += make_way(r, form, &found[i], &ways[*count]);
        }
    if (preference)
        cublasLtMatmulPreferenceDestroy(preference);
    convolution_way_drop(&asked);
}
