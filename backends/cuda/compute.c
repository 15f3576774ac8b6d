#include <string.h>

#include "backends/cuda/ready.h"

/* One compute instruction on its way to its stream. */
struct call {
    struct session *s;
    const struct instruction *in;
    const struct view *views; /* reads, then writes */
    void *at[16];             /* their memory */
    struct ready *ready;
    cudaStream_t stream;
    void *workspace;
};

static const struct shape *shape(const struct call *c, int operand)
{
    return &c->views[operand].type.shape;
}

static int64_t elements(const struct call *c, int operand)
{
    return shape_elements(shape(c, operand));
}

/* The element type of an operand as kernels know it. */
static enum kernel_type type_of(const struct call *c, int operand)
{
    enum dtype dtype = c->views[operand].type.dtype;
    return dtype == DTYPE_BF16 ? KERNEL_BF16 : dtype == DTYPE_F16 ? KERNEL_F16 : KERNEL_F32;
}

static enum rh_status product(struct call *c, const void *a, const void *b, void *out)
{
    float one = 1;
    float beta = c->in->compute.op.accumulate ? 1 : 0;
    LT_DO(cublasLtMatmul(c->s->lt, c->ready->product, &one, a, c->ready->a, b, c->ready->b, &beta,
                         out, c->ready->c, out, c->ready->c, &c->ready->product_algorithm,
                         c->workspace, c->s->workspace_bytes, c->stream));
    return RH_OK;
}

static enum rh_status linear(struct call *c)
{
    int write = c->in->compute.read_count;
    switch (c->in->compute.op.kind) {
    case OP_linear: return product(c, c->at[1], c->at[0], c->at[write]);
    case OP_linear_input_grad: return product(c, c->at[1], c->at[0], c->at[write]);
    default: break;
    }
    RETURN_IF_FAILED(product(c, c->at[1], c->at[0], c->at[write]));
    if (c->in->compute.write_count > 1)
        kernel_channel_sums(c->stream, type_of(c, 0), c->at[0], c->at[write + 1],
                            shape(c, 0)->dim[0], shape(c, 0)->dim[1], 1,
                            c->in->compute.op.accumulate);
    return RH_OK;
}

/* cuDNN gives the gradient in the type of its operands: fp16 and bf16 wait at the workspace's end
 * and are added up in fp32. */
static enum rh_status conv2d_weight_grad(struct call *c)
{
    const struct ready *r = c->ready;
    const struct shape *gy = shape(c, 0);
    int write = c->in->compute.read_count;
    int add = c->in->compute.op.accumulate;
    float one = 1;
    float beta = add && !r->narrow_bytes ? 1 : 0;
    size_t room = c->s->workspace_bytes - r->narrow_bytes;
    void *gw = r->narrow_bytes ? (char *)c->workspace + room : c->at[write];
    DNN_DO(cudnnConvolutionBackwardFilter(
        c->s->dnn, &one, r->x, c->at[1], r->y, c->at[0], r->convolution,
        (cudnnConvolutionBwdFilterAlgo_t)r->algorithm, c->workspace, room, &beta, r->w, gw));
    if (r->narrow_bytes)
        kernel_widen(c->stream, type_of(c, 0), gw, c->at[write], elements(c, write), add);
    if (c->in->compute.write_count > 1)
        kernel_channel_sums(c->stream, type_of(c, 0), c->at[0], c->at[write + 1], gy->dim[0],
                            gy->dim[1], gy->dim[2] * gy->dim[3], add);
    return RH_OK;
}

static enum rh_status conv2d(struct call *c)
{
    const struct ready *r = c->ready;
    float one = 1;
    float zero = 0;
    int write = c->in->compute.read_count;
    size_t room = c->s->workspace_bytes;
    DNN_DO(cudnnSetStream(c->s->dnn, c->stream));
    switch (c->in->compute.op.kind) {
    case OP_conv2d:
        DNN_DO(cudnnConvolutionForward(c->s->dnn, &one, r->x, c->at[0], r->w, c->at[1],
                                       r->convolution, (cudnnConvolutionFwdAlgo_t)r->algorithm,
                                       c->workspace, room, &zero, r->y, c->at[write]));
        if (write > 2)
            DNN_DO(cudnnAddTensor(c->s->dnn, &one, r->bias, c->at[2], &one, r->y, c->at[write]));
        return RH_OK;
    case OP_conv2d_input_grad:
        DNN_DO(cudnnConvolutionBackwardData(c->s->dnn, &one, r->w, c->at[1], r->y, c->at[0],
                                            r->convolution,
                                            (cudnnConvolutionBwdDataAlgo_t)r->algorithm,
                                            c->workspace, room, &zero, r->x, c->at[write]));
        return RH_OK;
    default: return conv2d_weight_grad(c);
    }
}

static struct picture picture_of(const struct shape *shape)
{
    return (struct picture){(int)shape->dim[0], (int)shape->dim[1], (int)shape->dim[2],
                            (int)shape->dim[3], 0};
}

static void batch_norm(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    struct picture x = picture_of(shape(c, op->kind == OP_batch_norm2d ? 0 : 1));
    struct norm_options options = {(float)op->norm.epsilon, (float)op->norm.momentum,
                                   op->norm.training, 0};
    enum kernel_type type = type_of(c, 0);
    void *scratch = c->ready->table;
    void **at = c->at;
    if (op->kind == OP_batch_norm2d)
        kernel_batch_norm(c->stream, type, at[0], at[1], at[2], at[3], at[4], at[5], NULL, at[6],
                          options.training ? at[7] : NULL, options.training ? at[8] : NULL, x,
                          options, scratch);
    else if (op->kind == OP_batch_norm2d_input_grad)
        kernel_batch_norm_grad(c->stream, type, at[0], at[1], at[2], NULL, at[3], at[4], NULL,
                               at[5], NULL, NULL, NULL, x, options, 0, scratch);
    else
        kernel_batch_norm_grad(c->stream, type, at[0], at[1], NULL, NULL, at[2], at[3], NULL, NULL,
                               at[4], at[5], NULL, x, options, op->accumulate, scratch);
}

static void pool(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    int write = c->in->compute.read_count;
    bool forward = op->kind == OP_max_pool2d || op->kind == OP_avg_pool2d;
    struct picture x = picture_of(shape(c, forward ? 0 : write));
    const struct shape *y = shape(c, forward ? write : 0);
    struct window k = {op->window.kernel_h, op->window.kernel_w,  op->window.stride_h,
                       op->window.stride_w, op->window.padding_h, op->window.padding_w};
    int oh = (int)y->dim[2], ow = (int)y->dim[3];
    int adaptive = op->window.output_h > 0;
    enum kernel_type type = type_of(c, 0);
    switch (op->kind) {
    case OP_max_pool2d:
        kernel_max_pool(c->stream, type, c->at[0], c->at[write], x, oh, ow, k);
        break;
    case OP_max_pool2d_grad:
        kernel_max_pool_grad(c->stream, type, c->at[0], c->at[1], c->at[2], c->at[write], x, oh, ow,
                             k);
        break;
    case OP_avg_pool2d:
        kernel_avg_pool(c->stream, type, c->at[0], c->at[write], x, oh, ow, k, adaptive);
        break;
    default:
        kernel_avg_pool_grad(c->stream, type, c->at[0], c->at[write], x, oh, ow, k, adaptive);
        break;
    }
}

static void loss(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    int write = c->in->compute.read_count;
    int64_t n = elements(c, 0);
    float weight = (float)op->loss.weight;
    float scale = op->loss.sum ? weight : weight / (float)n;
    int rows = (int)shape(c, 0)->dim[0];
    int classes = (int)(rows ? n / rows : 0);
    enum kernel_type type = type_of(c, 0);
    switch (op->kind) {
    case OP_mse_loss:
        kernel_mse(c->stream, type, c->at[0], c->at[1], c->at[2], c->at[write], n, scale,
                   op->accumulate);
        break;
    case OP_mse_loss_grad:
        kernel_mse_grad(c->stream, type, c->at[0], c->at[1], c->at[write], n, scale);
        break;
    case OP_cross_entropy:
        kernel_cross_entropy(c->stream, type, c->at[0], c->at[1], c->at[2], c->at[write], rows,
                             classes, weight, op->loss.sum, op->accumulate);
        break;
    default:
        kernel_cross_entropy_grad(c->stream, type, c->at[0], c->at[1], c->at[write], rows, classes,
                                  weight, op->loss.sum);
        break;
    }
}

static void optimizer(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    struct optimizer_options options = {0};
    if (op->kind == OP_sgd) {
        options.momentum = (float)op->sgd.momentum;
        options.dampening = (float)op->sgd.dampening;
        options.weight_decay = (float)op->sgd.weight_decay;
        options.nesterov = op->sgd.nesterov;
    } else {
        options.kind = op->kind == OP_adam ? 1 : 2;
        options.beta1 = op->adam.beta1;
        options.beta2 = op->adam.beta2;
        options.epsilon = (float)op->adam.epsilon;
        options.weight_decay = (float)op->adam.weight_decay;
    }
    kernel_optimizer(c->stream, c->ready->table, c->ready->rows, c->ready->longest, c->at[0],
                     c->at[1], options);
}

static void host_main(void *context)
{
    struct ready *r = context;
    enum rh_status status =
        cpu_run(&r->op, r->tensors, r->read_count, r->tensors + r->read_count, r->write_count);
    if (status != RH_OK)
        *r->host_status = status;
}

static enum rh_status dispatch(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    int write = c->in->compute.read_count;
    enum kernel_type type = type_of(c, 0);
    switch (op_class(op->kind)) {
    case OP_CLASS_MATMUL: return linear(c);
    case OP_CLASS_CONVOLUTION: return conv2d(c);
    case OP_CLASS_NORMALIZATION: batch_norm(c); return RH_OK;
    case OP_CLASS_POOLING: pool(c); return RH_OK;
    case OP_CLASS_LOSS: loss(c); return RH_OK;
    case OP_CLASS_OPTIMIZER: optimizer(c); return RH_OK;
    default: break;
    }
    switch (op->kind) {
    case OP_relu: kernel_relu(c->stream, type, c->at[0], c->at[write], elements(c, 0)); break;
    case OP_relu_grad:
        kernel_relu_grad(c->stream, type, c->at[0], c->at[1], c->at[write], elements(c, 0));
        break;
    case OP_add:
        kernel_add(c->stream, type, c->at[0], c->at[1], c->at[write], elements(c, 0));
        break;
    case OP_embedding:
        kernel_embedding(c->stream, type_of(c, 1), c->at[0], c->at[1], c->at[write], elements(c, 0),
                         shape(c, 1)->dim[1]);
        break;
    case OP_embedding_weight_grad:
        kernel_embedding_grad(c->stream, type, c->at[0], c->at[1], c->at[write], elements(c, 1),
                              shape(c, write)->dim[1], shape(c, write)->dim[0], op->accumulate);
        break;
    case OP_zero:
        CUDA_DO(cudaMemsetAsync(c->at[write], 0, type_bytes(&c->views[write].type), c->stream));
        break;
    case OP_scale_add:
    case OP_bucket_copy:
        kernel_scale_add(c->stream, type, c->at[0], c->at[write], (float)op->scale_add.alpha,
                         op->kind == OP_scale_add ? (float)op->scale_add.beta : 0, elements(c, 0));
        break;
    case OP_pack: kernel_pack(c->stream, c->ready->table, c->ready->rows, c->ready->longest); break;
    case OP_unpack:
        kernel_unpack(c->stream, c->ready->table, c->ready->rows, c->ready->longest,
                      op->accumulate);
        break;
    case OP_cast:
        kernel_cast(c->stream, type, c->at[0], type_of(c, write), c->at[write], elements(c, 0));
        break;
    default:
        return fail(RH_INVALID, "'%s': the cuda backend has no kernel for %s", c->in->name,
                    op_name(op->kind));
    }
    return RH_OK;
}

enum rh_status compute_launch(struct session *s, int worker, int list, const struct instruction *in)
{
    const struct cuda_worker *w = &s->workers[worker];
    const struct role *role = &s->plan->roles[w->role];
    struct call c = {.s = s,
                     .in = in,
                     .views = &role->views[in->compute.view_first],
                     .ready = ready_of(s, worker, list, in),
                     .stream = w->streams[in->stream],
                     .workspace = w->workspace[in->stream]};
    int count = in->compute.read_count + in->compute.write_count;
    for (int i = 0; i < count && i < 16; i++)
        c.at[i] = view_pointer(s, worker, &c.views[i]);
    if (role->streams[in->stream].device == role->gpus) {
        CUDA_DO(cudaLaunchHostFunc(c.stream, host_main, c.ready));
        return RH_OK;
    }
    RETURN_IF_FAILED(dispatch(&c));
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? RH_OK : cuda_failed(in->name, error);
}
