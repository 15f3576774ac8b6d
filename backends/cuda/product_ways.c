/* The ways to compute a product, and how each is run. */
#include "backends/cuda/product.h"

#include <stdio.h>

#include "kernels/cuda/kernels.h"
#include "op/sum_cut.h"

enum { MOST_EACH = 8 };

/* Multiply-adds up to which a kernel of ours is worth a try. */
static const int64_t small_products = 1 << 22;

static enum kernel_type type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? KERNEL_BF16 : dtype == DTYPE_F16 ? KERNEL_F16 : KERNEL_F32;
}

/* What cuBLASLt can do of the request beside the product; DEFAULT where it can do nothing. */
static cublasLtEpilogue_t epilogue_of(const struct product_request *r)
{
    if (r->kind == OP_linear && r->vector)
        return r->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    if (r->kind == OP_linear && r->relu)
        return CUBLASLT_EPILOGUE_RELU;
    if (r->kind == OP_linear_weight_grad && r->vector && !r->accumulate) /* it cannot add */
        return CUBLASLT_EPILOGUE_BGRADB;
    return CUBLASLT_EPILOGUE_DEFAULT;
}

static struct matmul_request matmul_of(const struct product_request *r, cublasLtEpilogue_t epilogue)
{
    struct matmul_request request = {.type = r->type,
                                     .out = r->out,
                                     .compute = r->compute,
                                     .b_alignment = r->second_alignment,
                                     .a_alignment = r->first_alignment,
                                     .out_alignment = r->out_alignment,
                                     .epilogue = epilogue,
                                     .workspace_most_bytes = r->workspace_bytes};
    switch (r->kind) {
    case OP_linear: /* y' (o x n) = w (o x i) x' */
        request.m = r->outputs, request.n = r->rows, request.k = r->inputs;
        request.transpose_b = true;
        break;
    case OP_linear_input_grad: /* gx' (i x n) = w' gy' */
        request.m = r->inputs, request.n = r->rows, request.k = r->outputs;
        break;
    default: /* gw' (i x o) = x' gy */
        request.m = r->inputs, request.n = r->outputs, request.k = r->rows;
        request.transpose_a = true;
        break;
    }
    return request;
}

static size_t sums_bytes(const struct product_request *r, enum product_form form)
{
    return r->kind == OP_linear_weight_grad && r->vector && form == PRODUCT_PARTS
               ? (column_sums_bytes(r->rows, r->outputs) + 255) / 256 * 256
               : 0;
}

static int add_matmuls(struct session *s, const struct product_request *r, enum product_form form,
                       const void *vector, struct product_way *ways, int most)
{
    struct matmul found[MOST_EACH];
    if (sums_bytes(r, form) > r->workspace_bytes)
        return 0;
    cublasLtEpilogue_t epilogue =
        form == PRODUCT_WHOLE ? epilogue_of(r) : CUBLASLT_EPILOGUE_DEFAULT;
    struct matmul_request request = matmul_of(r, epilogue);
    int count = matmul_list(s, &request, form == PRODUCT_WHOLE ? vector : NULL, found,
                            most < MOST_EACH ? most : MOST_EACH);
    for (int i = 0; i < count; i++)
        ways[i] = (struct product_way){.form = form, .matmul = found[i]};
    return count;
}

int product_ways(struct session *s, const struct product_request *r, const void *vector,
                 struct product_way *ways, int most, bool late)
{
    int each = late ? 1 : MOST_EACH;
    int count = 0;
    bool more = r->vector || r->relu;
    bool epilogue = epilogue_of(r) != CUBLASLT_EPILOGUE_DEFAULT;
    /* untimed, an epilogue is taken for the better way forward, but not for a sum over rows */
    bool last = r->kind == OP_linear_weight_grad;
    for (int i = 0; i < 2; i++) {
        enum product_form form = (i == 1) != last ? PRODUCT_PARTS : PRODUCT_WHOLE;
        if (form == PRODUCT_PARTS ? more : epilogue || !more)
            count += add_matmuls(s, r, form, vector, &ways[count],
                                 most - count < each ? most - count : each);
    }
    bool small = r->rows * r->inputs <= small_products / r->outputs;
    if (count < most && (count == 0 || (small && !late)))
        ways[count++] = (struct product_way){.form = PRODUCT_OURS};
    return count;
}

const char *product_engine(const struct product_way *w, char out[48])
{
    if (w->form == PRODUCT_OURS)
        return "ours";
    snprintf(out, 48, "cublaslt %d%s", w->matmul.number,
             w->form == PRODUCT_PARTS ? ", then ours" : "");
    return out;
}

size_t product_workspace(const struct product_request *r, const struct product_way *w)
{
    size_t sums = sums_bytes(r, w->form);
    return w->matmul.workspace_bytes > sums ? w->matmul.workspace_bytes : sums;
}

enum rh_status product_bind(const struct product *p, const struct product_memory *at,
                            struct matmul *own)
{
    bool whole = p->way.form == PRODUCT_WHOLE;
    if (p->way.form == PRODUCT_OURS)
        return RH_OK;
    struct matmul_request request =
        matmul_of(&p->request, whole ? epilogue_of(&p->request) : CUBLASLT_EPILOGUE_DEFAULT);
    own->algorithm = p->way.matmul.algorithm;
    own->number = p->way.matmul.number;
    own->workspace_bytes = p->way.matmul.workspace_bytes;
    return matmul_describe(&request, whole ? at->vector : NULL, own);
}

static void run_ours(const struct product_request *r, cudaStream_t stream,
                     const struct product_memory *at)
{
    struct product_shape shape = {
        .mask = at->mask, .relu = r->kind == OP_linear && r->relu, .accumulate = r->accumulate};
    switch (r->kind) {
    case OP_linear: /* y = x w' */
        shape.rows = r->rows, shape.columns = r->outputs, shape.inner = r->inputs;
        shape.a_row = r->inputs, shape.a_inner = 1, shape.b_inner = 1, shape.b_column = r->inputs;
        shape.bias = at->vector;
        break;
    case OP_linear_input_grad: /* gx = gy w */
        shape.rows = r->rows, shape.columns = r->inputs, shape.inner = r->outputs;
        shape.a_row = r->outputs, shape.a_inner = 1, shape.b_inner = r->inputs, shape.b_column = 1;
        break;
    default: /* gw = gy' x */
        shape.rows = r->outputs, shape.columns = r->inputs, shape.inner = r->rows;
        shape.a_row = 1, shape.a_inner = r->outputs, shape.b_inner = r->inputs, shape.b_column = 1;
        shape.row_sums = at->vector;
        break;
    }
    kernel_product(stream, type_of(r->type), at->first, at->second, r->out == DTYPE_F32, at->out,
                   shape);
}

/* What a bare product leaves to do. */
static void run_rest(const struct product_request *r, cudaStream_t stream,
                     const struct product_memory *at, void *workspace)
{
    enum kernel_type type = type_of(r->type);
    switch (r->kind) {
    case OP_linear:
        kernel_bias_relu(stream, type, at->out, at->vector, r->rows, r->outputs, 1, true, r->relu);
        break;
    case OP_linear_input_grad:
        kernel_relu_grad(stream, type, at->out, at->mask, at->out, r->rows * r->inputs);
        break;
    default:
        kernel_column_sums(stream, type, at->first, at->vector, r->rows, r->outputs, r->accumulate,
                           workspace);
        break;
    }
}

enum rh_status product_run(struct session *s, const struct product_request *r,
                           enum product_form form, const struct matmul *matmul, cudaStream_t stream,
                           const struct product_memory *at, void *workspace)
{
    if (form == PRODUCT_OURS) {
        run_ours(r, stream, at);
        return RH_OK;
    }
    RETURN_IF_FAILED(matmul_run(s, matmul, stream, at->second, at->first, r->accumulate ? 1 : 0,
                                at->out, workspace));
    if (form == PRODUCT_PARTS)
        run_rest(r, stream, at, workspace);
    return RH_OK;
}
