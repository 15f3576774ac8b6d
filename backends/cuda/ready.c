#include "backends/cuda/ready.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/ranks.h"
#include "base/memory.h"
#include "op/convert.h"

/* Workspace that a convolution or a product may ask for. */
static const size_t workspace_most = (size_t)256 << 20;

struct ready *ready_of(const struct session *s, int worker, int list, const struct instruction *in)
{
    const struct cuda_worker *w = &s->workers[worker];
    const struct list *l = &s->plan->roles[w->role].lists[list];
    return w->ready[list][in - l->instructions];
}

static const struct tensor_type *operand(const struct role *role, const struct instruction *in,
                                         int index)
{
    return &role->views[in->compute.view_first + index].type;
}

static cudnnDataType_t picture_type(enum dtype dtype)
{
    return dtype == DTYPE_BF16  ? CUDNN_DATA_BFLOAT16
           : dtype == DTYPE_F16 ? CUDNN_DATA_HALF
                                : CUDNN_DATA_FLOAT;
}

static enum rh_status describe_picture(cudnnTensorDescriptor_t *descriptor,
                                       const struct tensor_type *t)
{
    DNN_DO(cudnnCreateTensorDescriptor(descriptor));
    DNN_DO(cudnnSetTensor4dDescriptor(*descriptor, CUDNN_TENSOR_NCHW, picture_type(t->dtype),
                                      (int)t->shape.dim[0], (int)t->shape.dim[1],
                                      (int)t->shape.dim[2], (int)t->shape.dim[3]));
    return RH_OK;
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static void need_workspace(struct session *s, size_t bytes)
{
    if (bytes > s->workspace_bytes)
        s->workspace_bytes = whole_lines(bytes);
}

/* The fastest by cuDNN's own estimate whose workspace is not too large. */
#define CHOOSE(kind, performance, ...)                                                             \
    do {                                                                                           \
        performance found[8];                                                                      \
        int count = 0;                                                                             \
        bool chosen = false;                                                                       \
        DNN_DO(cudnnGetConvolution##kind##Algorithm_v7(s->dnn, __VA_ARGS__, 8, &count, found));    \
        for (int i = 0; i < count && !chosen; i++) {                                               \
            if (found[i].status != CUDNN_STATUS_SUCCESS || found[i].memory > workspace_most ||     \
                found[i].determinism != CUDNN_DETERMINISTIC)                                       \
                continue;                                                                          \
            chosen = true;                                                                         \
            r->algorithm = (int)found[i].algo;                                                     \
            need_workspace(s, found[i].memory + r->narrow_bytes);                                  \
        }                                                                                          \
        if (!chosen)                                                                               \
            return fail(RH_FAILED, "cuDNN has no algorithm for '%s'", in->name);                   \
    } while (0)

static enum rh_status ready_conv2d(struct session *s, const struct role *role,
                                   const struct instruction *in, struct ready *r)
{
    const struct op *op = &in->compute.op;
    int write = in->compute.read_count;
    bool forward = op->kind == OP_conv2d;
    bool weights = op->kind == OP_conv2d_weight_grad;
    const struct tensor_type *x = operand(role, in, forward ? 0 : weights ? 1 : write);
    const struct tensor_type *w = operand(role, in, weights ? write : 1);
    const struct tensor_type *y = operand(role, in, forward ? write : 0);
    RETURN_IF_FAILED(describe_picture(&r->x, x));
    RETURN_IF_FAILED(describe_picture(&r->y, y));
    struct tensor_type one = *y;
    one.shape.dim[0] = one.shape.dim[2] = one.shape.dim[3] = 1;
    RETURN_IF_FAILED(describe_picture(&r->bias, &one));
    DNN_DO(cudnnCreateFilterDescriptor(&r->w));
    DNN_DO(cudnnSetFilter4dDescriptor(r->w, picture_type(y->dtype), CUDNN_TENSOR_NCHW,
                                      (int)w->shape.dim[0], (int)w->shape.dim[1],
                                      (int)w->shape.dim[2], (int)w->shape.dim[3]));
    DNN_DO(cudnnCreateConvolutionDescriptor(&r->convolution));
    DNN_DO(cudnnSetConvolution2dDescriptor(
        r->convolution, op->window.padding_h, op->window.padding_w, op->window.stride_h,
        op->window.stride_w, op->window.dilation, op->window.dilation, CUDNN_CROSS_CORRELATION,
        CUDNN_DATA_FLOAT));
    DNN_DO(cudnnSetConvolutionGroupCount(r->convolution, op->window.groups));
    DNN_DO(cudnnSetConvolutionMathType(
        r->convolution, op->compute == DTYPE_F32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH));
    if (weights && dtype_is_low(y->dtype))
        r->narrow_bytes = whole_lines(type_bytes(&(struct tensor_type){y->dtype, w->shape}));
    if (forward)
        CHOOSE(Forward, cudnnConvolutionFwdAlgoPerf_t, r->x, r->w, r->convolution, r->y);
    else if (weights)
        CHOOSE(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t, r->x, r->y, r->convolution,
               r->w);
    else
        CHOOSE(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t, r->w, r->y, r->convolution, r->x);
    return RH_OK;
}

static enum rh_status to_device(struct ready *r, const void *rows, size_t bytes)
{
    CUDA_DO(cudaMalloc(&r->table, bytes));
    CUDA_DO(cudaMemcpy(r->table, rows, bytes, cudaMemcpyHostToDevice));
    return RH_OK;
}

static enum rh_status ready_optimizer(struct session *s, int worker, const struct role *role,
                                      const struct instruction *in, struct ready *r)
{
    const struct op *op = &in->compute.op;
    bool adaptive = op->kind != OP_sgd;
    int stride = adaptive ? 4 : op->sgd.momentum != 0 ? 3 : 2;
    r->rows = (in->compute.read_count - 2) / stride;
    struct optimizer_table *rows = memory_new_array((size_t)r->rows + 1, sizeof *rows);
    for (int i = 0; i < r->rows; i++) {
        const struct view *v = &role->views[in->compute.view_first + 2 + i * stride];
        rows[i] = (struct optimizer_table){.p = view_pointer(s, worker, &v[0]),
                                           .g = view_pointer(s, worker, &v[1]),
                                           .m = stride > 2 ? view_pointer(s, worker, &v[2]) : NULL,
                                           .v = stride > 3 ? view_pointer(s, worker, &v[3]) : NULL,
                                           .n = shape_elements(&v[0].type.shape)};
        r->longest = rows[i].n > r->longest ? rows[i].n : r->longest;
    }
    enum rh_status status = to_device(r, rows, (size_t)(r->rows + 1) * sizeof *rows);
    free(rows);
    return status;
}

static enum rh_status ready_pieces(struct session *s, int worker, const struct role *role,
                                   const struct instruction *in, struct ready *r)
{
    bool pack = in->compute.op.kind == OP_pack;
    r->rows = pack ? in->compute.read_count : in->compute.write_count;
    const struct view *views = &role->views[in->compute.view_first];
    const struct view *tensors = pack ? views : views + 1;
    char *flat = view_pointer(s, worker, pack ? &views[r->rows] : views);
    struct piece_table *rows = memory_new_array((size_t)r->rows + 1, sizeof *rows);
    for (int i = 0; i < r->rows; i++) {
        rows[i] = (struct piece_table){(float *)(void *)flat, view_pointer(s, worker, &tensors[i]),
                                       shape_elements(&tensors[i].type.shape)};
        flat += type_bytes(&tensors[i].type);
        r->longest = rows[i].n > r->longest ? rows[i].n : r->longest;
    }
    enum rh_status status = to_device(r, rows, (size_t)(r->rows + 1) * sizeof *rows);
    free(rows);
    return status;
}

static enum rh_status ready_batch_norm(const struct role *role, const struct instruction *in,
                                       struct ready *r)
{
    const struct shape *x = &operand(role, in, in->compute.op.kind == OP_batch_norm2d ? 0 : 1)->shape;
    size_t bytes = kernel_batch_norm_scratch((struct picture){
        (int)x->dim[0], (int)x->dim[1], (int)x->dim[2], (int)x->dim[3], 0});
    CUDA_DO(cudaMalloc(&r->table, bytes));
    CUDA_DO(cudaMemset(r->table, 0, bytes));
    return RH_OK;
}

static void ready_host(struct session *s, int worker, const struct role *role,
                       const struct instruction *in, struct ready *r)
{
    int count = in->compute.read_count + in->compute.write_count;
    r->op = in->compute.op;
    r->read_count = in->compute.read_count;
    r->write_count = in->compute.write_count;
    r->tensors = memory_new_array((size_t)count + 1, sizeof *r->tensors);
    r->host_status = memory_new(sizeof *r->host_status);
    for (int i = 0; i < count; i++) {
        const struct view *view = &role->views[in->compute.view_first + i];
        r->tensors[i] = (struct cpu_tensor){view_pointer(s, worker, view), view->type};
    }
}

/* Whether the library or kernel of this op takes fp16 and bf16 there. */
static bool takes_low(const struct op *op, int operand, int reads)
{
    switch (op->kind) {
    case OP_linear_weight_grad:
    case OP_conv2d_weight_grad:
    case OP_embedding_weight_grad:
    case OP_mse_loss:
    case OP_cross_entropy: return operand < reads && operand < 2;
    case OP_batch_norm2d: return operand == 0 || operand == reads;
    case OP_batch_norm2d_input_grad: return operand < 2 || operand == reads;
    case OP_batch_norm2d_weight_grad: return operand < 2;
    case OP_pack:
    case OP_unpack:
    case OP_sgd:
    case OP_adam:
    case OP_adamw: return false;
    default: return true;
    }
}

static enum dtype stored(enum dtype dtype)
{
    return dtype == DTYPE_TF32 ? DTYPE_F32 : dtype;
}

/* On a GPU the operands that may be fp16 or bf16 are all of one type. */
static enum rh_status check_type(const struct role *role, const struct instruction *in, int index,
                                 enum dtype *common)
{
    const struct op *op = &in->compute.op;
    enum dtype dtype = stored(operand(role, in, index)->dtype);
    bool takes = takes_low(op, index, in->compute.read_count);
    if (dtype == DTYPE_I64 || dtype == DTYPE_I32 || op->kind == OP_cast)
        return RH_OK;
    if (takes && *common == DTYPE_COUNT)
        *common = dtype;
    if (takes ? dtype != *common : dtype_is_low(dtype))
        return fail(RH_INVALID, "'%s': operand %d of %s is %s; the cuda backend wants %s there",
                    in->name, index, op_name(op->kind), dtype_name(dtype),
                    dtype_name(takes ? *common : DTYPE_F32));
    return RH_OK;
}

static enum rh_status check_operands(const struct role *role, const struct instruction *in)
{
    bool on_host = role->streams[in->stream].device == role->gpus;
    enum dtype common = DTYPE_COUNT;
    for (int i = 0; i < in->compute.read_count + in->compute.write_count; i++) {
        if (!on_host)
            RETURN_IF_FAILED(check_type(role, in, i, &common));
        if (!view_is_dense(&role->views[in->compute.view_first + i]))
            return fail(RH_INVALID, "'%s': operand %d of %s is strided", in->name, i,
                        op_name(in->compute.op.kind));
    }
    return RH_OK;
}

static enum rh_status make_one(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, struct ready **out)
{
    RETURN_IF_FAILED(check_operands(role, in));
    struct ready *r = *out = memory_new(sizeof *r);
    if (role->streams[in->stream].device == role->gpus) {
        ready_host(s, worker, role, in, r);
        return RH_OK;
    }
    switch (in->compute.op.kind) {
    case OP_linear:
    case OP_linear_input_grad:
    case OP_linear_weight_grad: return ready_product(s, worker, role, in, r);
    case OP_conv2d:
    case OP_conv2d_input_grad:
    case OP_conv2d_weight_grad: return ready_conv2d(s, role, in, r);
    case OP_sgd:
    case OP_adam:
    case OP_adamw: return ready_optimizer(s, worker, role, in, r);
    case OP_batch_norm2d:
    case OP_batch_norm2d_input_grad:
    case OP_batch_norm2d_weight_grad: return ready_batch_norm(role, in, r);
    case OP_pack:
    case OP_unpack: return ready_pieces(s, worker, role, in, r);
    default: return RH_OK;
    }
}

enum rh_status ready_make(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++) {
        struct cuda_worker *w = &s->workers[i];
        const struct role *role = &s->plan->roles[w->role];
        if (!ranks_owns(s, i))
            continue;
        w->ready = memory_new_array((size_t)role->list_count, sizeof *w->ready);
        for (int l = 0; l < role->list_count; l++) {
            const struct list *list = &role->lists[l];
            w->ready[l] = memory_new_array((size_t)list->count + 1, sizeof **w->ready);
            for (int k = 0; k < list->count; k++)
                if (list->instructions[k].kind == INSTRUCTION_COMPUTE)
                    RETURN_IF_FAILED(make_one(s, i, role, &list->instructions[k], &w->ready[l][k]));
        }
    }
    return RH_OK;
}

static void ready_free(struct ready *r)
{
    if (!r)
        return;
    if (r->product)
        cublasLtMatmulDescDestroy(r->product);
    if (r->a)
        cublasLtMatrixLayoutDestroy(r->a);
    if (r->b)
        cublasLtMatrixLayoutDestroy(r->b);
    if (r->c)
        cublasLtMatrixLayoutDestroy(r->c);
    if (r->x)
        cudnnDestroyTensorDescriptor(r->x);
    if (r->y)
        cudnnDestroyTensorDescriptor(r->y);
    if (r->bias)
        cudnnDestroyTensorDescriptor(r->bias);
    if (r->w)
        cudnnDestroyFilterDescriptor(r->w);
    if (r->convolution)
        cudnnDestroyConvolutionDescriptor(r->convolution);
    cudaFree(r->table);
    free(r->tensors);
    free(r->host_status);
    free(r);
}

void ready_drop(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++) {
        struct cuda_worker *w = &s->workers[i];
        const struct role *role = &s->plan->roles[w->role];
        for (int l = 0; w->ready && l < role->list_count; l++) {
            for (int k = 0; w->ready[l] && k < role->lists[l].count; k++)
                ready_free(w->ready[l][k]);
            free(w->ready[l]);
        }
        free(w->ready);
    }
}
