#include "backends/cuda/convolution_way.h"
#include "kernels/cuda/kernels.h"

static enum kernel_type type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? KERNEL_BF16 : dtype == DTYPE_F16 ? KERNEL_F16 : KERNEL_F32;
}

size_t convolution_lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

int64_t convolution_elements(const struct convolution_request *r, int tensor)
{
    switch (tensor) {
    case CONVOLUTION_X: return r->n * r->c * r->h * r->w;
    case CONVOLUTION_W:
        return r->k * (r->c / r->op.window.groups) * r->op.window.kernel_h * r->op.window.kernel_w;
    default: return r->n * r->k * r->p * r->q;
    }
}

int convolution_written(const struct convolution_request *r)
{
    return r->op.kind == OP_conv2d              ? CONVOLUTION_Y
           : r->op.kind == OP_conv2d_input_grad ? CONVOLUTION_X
                                                : CONVOLUTION_W;
}

size_t convolution_aside(const struct convolution_request *r, const struct convolution_form *form)
{
    if (!form->aside)
        return 0;
    return convolution_lines((size_t)convolution_elements(r, convolution_written(r)) *
                             dtype_bytes(form->writes));
}

bool convolution_room(const struct convolution_request *r, const struct convolution_form *form,
                      size_t *engine_bytes)
{
    size_t aside = convolution_aside(r, form);
    *engine_bytes = r->workspace_bytes > aside ? r->workspace_bytes - aside : 0;
    return r->workspace_bytes >= aside;
}

static enum rh_status run_product(struct session *s, const struct convolution_way *w,
                                  cudaStream_t stream, const void *a, const void *b, void *out,
                                  void *workspace)
{
    float one = 1;
    float beta = w->form.adds ? 1 : 0;
    LT_DO(cublasLtMatmul(s->lt, w->product, &one, b, w->b, a, w->a, &beta, out, w->out, out, w->out,
                         &w->algorithm, workspace, w->engine_bytes, stream));
    return RH_OK;
}

static enum rh_status fill_pack(const struct convolution_request *r, const void *a, const void *b,
                                void *out, void *workspace, cudnnBackendDescriptor_t pack)
{
    enum op_kind kind = r->op.kind;
    int64_t ids[] = {kind == OP_conv2d ? CONVOLUTION_X : CONVOLUTION_Y,
                     kind == OP_conv2d_weight_grad ? CONVOLUTION_X : CONVOLUTION_W,
                     convolution_written(r)};
    const void *at[] = {a, b, out};
    DNN_DO(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3,
                                    ids));
    DNN_DO(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                    CUDNN_TYPE_VOID_PTR, 3, at));
    DNN_DO(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                    &workspace));
    DNN_DO(cudnnBackendFinalize(pack));
    return RH_OK;
}

/* The pack is host memory alone: fit for capture. */
static enum rh_status run_engine(struct session *s, const struct convolution_request *r,
                                 const struct convolution_way *w, cudaStream_t stream,
                                 const void *a, const void *b, void *out, void *workspace)
{
    cudnnBackendDescriptor_t pack = NULL;
    DNN_DO(cudnnSetStream(s->dnn, stream));
    DNN_DO(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    enum rh_status status = fill_pack(r, a, b, out, workspace, pack);
    cudnnStatus_t error =
        status == RH_OK ? cudnnBackendExecute(s->dnn, w->plan, pack) : CUDNN_STATUS_SUCCESS;
    cudnnBackendDestroyDescriptor(pack);
    if (error != CUDNN_STATUS_SUCCESS)
        return fail(RH_FAILED, "%s: %s", w->engine, cudnnGetErrorString(error));
    return status;
}

enum rh_status convolution_way_run(struct session *s, const struct convolution_request *r,
                                   const struct convolution_way *w, cudaStream_t stream,
                                   const void *a, const void *b, void *out, void *workspace)
{
    int64_t n = convolution_elements(r, convolution_written(r));
    void *result = w->form.aside ? (char *)workspace + w->engine_bytes : out;
    RETURN_IF_FAILED(w->plan ? run_engine(s, r, w, stream, a, b, result, workspace)
                             : run_product(s, w, stream, a, b, result, workspace));
    if (!w->form.aside)
        return RH_OK;
    if (r->out == DTYPE_F32)
        kernel_widen(stream, type_of(w->form.writes), result, out, n, r->op.accumulate);
    else
        kernel_scale_add(stream, type_of(r->out), result, out, 1, 1, n);
    return RH_OK;
}

void convolution_way_drop(struct convolution_way *w)
{
    if (w->plan)
        cudnnBackendDestroyDescriptor(w->plan);
    if (w->config)
        cudnnBackendDestroyDescriptor(w->config);
    if (w->product)
        cublasLtMatmulDescDestroy(w->product);
    if (w->a)
        cublasLtMatrixLayoutDestroy(w->a);
    if (w->b)
        cublasLtMatrixLayoutDestroy(w->b);
    if (w->out)
        cublasLtMatrixLayoutDestroy(w->out);
    *w = (struct convolution_way){.plan = NULL};
}

void convolution_bias_relu(const struct convolution_request *r, cudaStream_t stream,
                           const void *bias, void *y)
{
    if ((r->bias && bias) || r->relu)
        kernel_bias_relu(stream, type_of(r->out), y, r->bias ? bias : NULL, r->n, r->k, r->p * r->q,
                         r->channels_last, r->relu);
}
