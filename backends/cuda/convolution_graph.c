#include "backends/cuda/convolution_way.h"

#define GRAPH_DO(call)                                                                             \
    do {                                                                                           \
        cudnnStatus_t error_ = (call);                                                             \
        if (error_ != CUDNN_STATUS_SUCCESS)                                                        \
            return fail(RH_FAILED, "'%s': %.60s: %s", name, #call, cudnnGetErrorString(error_));   \
    } while (0)
#define SET(descriptor, attribute, type, count, value)                                             \
    GRAPH_DO(cudnnBackendSetAttribute(descriptor, attribute, type, count, value))

static enum rh_status make_tensor(const struct convolution_request *r, const char *name, int64_t id,
                                  enum dtype dtype, const int64_t dim[4],
                                  cudnnBackendDescriptor_t *out)
{
    bool last = r->channels_last;
    cudnnDataType_t type = dtype == DTYPE_BF16  ? CUDNN_DATA_BFLOAT16
                           : dtype == DTYPE_F16 ? CUDNN_DATA_HALF
                                                : CUDNN_DATA_FLOAT;
    int64_t area = dim[2] * dim[3];
    int64_t stride[4] = {dim[1] * area, last ? 1 : area, last ? dim[3] * dim[1] : dim[3],
                         last ? dim[1] : 1};
    int64_t alignment_bytes = r->alignment_bytes ? r->alignment_bytes : 16;
    GRAPH_DO(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, out));
    SET(*out, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    SET(*out, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    SET(*out, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    SET(*out, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    SET(*out, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment_bytes);
    GRAPH_DO(cudnnBackendFinalize(*out));
    return RH_OK;
}

static enum rh_status make_window(const char *name, const struct op *op,
                                  cudnnBackendDescriptor_t *out)
{
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t dims = 2;
    int64_t padding[] = {op->window.padding_h, op->window.padding_w};
    int64_t stride[] = {op->window.stride_h, op->window.stride_w};
    int64_t dilation[] = {op->window.dilation, op->window.dilation};
    GRAPH_DO(cudnnBackendCreateDescriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, out));
    SET(*out, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    SET(*out, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    SET(*out, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    SET(*out, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, padding);
    SET(*out, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, padding);
    SET(*out, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    SET(*out, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    GRAPH_DO(cudnnBackendFinalize(*out));
    return RH_OK;
}

#define SET_OPERATION(prefix, x_name, w_name, y_name)                                              \
    do {                                                                                           \
        cudnnBackendAttributeType_t d = CUDNN_TYPE_BACKEND_DESCRIPTOR;                             \
        SET(g->operation, prefix##_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);                              \
        SET(g->operation, prefix##_BETA, CUDNN_TYPE_FLOAT, 1, &beta);                              \
        SET(g->operation, prefix##_CONV_DESC, d, 1, &g->window);                                   \
        SET(g->operation, prefix##_##x_name, d, 1, &g->x);                                         \
        SET(g->operation, prefix##_##w_name, d, 1, &g->w);                                         \
        SET(g->operation, prefix##_##y_name, d, 1, &g->y);                                         \
    } while (0)

static enum rh_status make_operation(const char *name, enum op_kind kind, float beta,
                                     struct convolution_graph *g)
{
    float one = 1;
    GRAPH_DO(cudnnBackendCreateDescriptor(
        kind == OP_conv2d ? CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
        : kind == OP_conv2d_input_grad
            ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
            : CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        &g->operation));
    if (kind == OP_conv2d)
        SET_OPERATION(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, X, W, Y);
    else if (kind == OP_conv2d_input_grad)
        SET_OPERATION(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA, DX, W, DY);
    else
        SET_OPERATION(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY);
    GRAPH_DO(cudnnBackendFinalize(g->operation));
    return RH_OK;
}

enum rh_status convolution_graph_make(struct session *s, const struct convolution_request *r,
                                      enum dtype out, float beta, const char *name,
                                      struct convolution_graph *g)
{
    enum op_kind kind = r->op.kind;
    int64_t x[] = {r->n, r->c, r->h, r->w}, y[] = {r->n, r->k, r->p, r->q};
    int64_t w[] = {r->k, r->c / r->op.window.groups, r->op.window.kernel_h, r->op.window.kernel_w};
    *g = (struct convolution_graph){0};
    RETURN_IF_FAILED(make_tensor(r, name, CONVOLUTION_X,
                                 kind == OP_conv2d_input_grad ? out : r->type, x, &g->x));
    RETURN_IF_FAILED(make_tensor(r, name, CONVOLUTION_W,
                                 kind == OP_conv2d_weight_grad ? out : r->type, w, &g->w));
    RETURN_IF_FAILED(
        make_tensor(r, name, CONVOLUTION_Y, kind == OP_conv2d ? out : r->type, y, &g->y));
    RETURN_IF_FAILED(make_window(name, &r->op, &g->window));
    RETURN_IF_FAILED(make_operation(name, kind, beta, g));
    GRAPH_DO(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &g->graph));
    SET(g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->dnn);
    SET(g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->operation);
    GRAPH_DO(cudnnBackendFinalize(g->graph));
    return RH_OK;
}

void convolution_graph_drop(struct convolution_graph *g)
{
    cudnnBackendDescriptor_t all[] = {g->graph, g->operation, g->window, g->x, g->w, g->y};
    for (int i = 0; i < 6; i++)
        if (all[i])
            cudnnBackendDestroyDescriptor(all[i]);
    *g = (struct convolution_graph){0};
}
