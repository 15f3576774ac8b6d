#include <string.h>

#include "backends/cuda/convolution.h"
#include "backends/cuda/ready.h"

/* One compute instruction on its way to its stream. */
struct call {
    struct session *s;
    int worker;
    const struct instruction *in;
    const struct view *views; /* reads, then writes */
    void *at[16];             /* their memory */
    struct ready *ready;
    cudaStream_t stream;
    void *workspace; /* NULL: none */
    unsigned *counters;
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
                         c->workspace, c->ready->workspace_bytes, c->stream));
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

static enum rh_status conv2d(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    int write = c->in->compute.read_count;
    const void *bias = op->kind == OP_conv2d && write > 2 ? c->at[2] : NULL;
    enum rh_status status = convolution_run(c->s, c->ready->convolution, c->stream, c->at[0],
                                            c->at[1], bias, c->at[write], c->workspace);
    if (status != RH_OK)
        return fail_within(status, "'%s'", c->in->name);
    if (op->kind == OP_conv2d_weight_grad && c->in->compute.write_count > 1) {
        const int64_t *gy = shape(c, 0)->dim;
        int64_t area = gy[2] * gy[3];
        bool last = c->views[0].type.channels_last;
        kernel_channel_sums(c->stream, type_of(c, 0), c->at[0], c->at[write + 1],
                            last ? gy[0] * area : gy[0], gy[1], last ? 1 : area, op->accumulate);
    }
    return RH_OK;
}

static struct picture picture_of(const struct call *c, int operand)
{
    const int64_t *dim = shape(c, operand)->dim;
    return (struct picture){(int)dim[0], (int)dim[1], (int)dim[2], (int)dim[3],
                            c->views[operand].type.channels_last};
}

static struct norm_memory norm_memory_of(const struct call *c)
{
    return (struct norm_memory){c->workspace, c->counters};
}

static void batch_norm_forward(struct call *c, struct norm_options options)
{
    void **at = c->at;
    int write = c->in->compute.read_count;
    const void *residual = write > 6 ? at[6] : NULL;
    bool training = options.training;
    kernel_batch_norm(c->stream, type_of(c, 0), at[0], at[1], at[2], at[3], at[4], at[5], residual,
                      at[write], training ? at[write + 1] : NULL, training ? at[write + 2] : NULL,
                      picture_of(c, 0), options, norm_memory_of(c));
}

static void batch_norm(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    struct norm_options options = {(float)op->norm.epsilon, (float)op->norm.momentum,
                                   op->norm.training, op->norm.relu};
    struct picture x = picture_of(c, 0);
    enum kernel_type type = type_of(c, 0);
    struct norm_memory memory = norm_memory_of(c);
    void **at = c->at;
    int write = c->in->compute.read_count;
    bool residual = write > 6;
    switch (op->kind) {
    case OP_batch_norm2d: batch_norm_forward(c, options); break;
    case OP_batch_norm2d_grad:
        kernel_batch_norm_grad(c->stream, type, at[0], at[1], at[2], at[3], at[4], at[5],
                               residual ? at[6] : NULL, at[write], at[write + 1], at[write + 2],
                               residual ? at[write + 3] : NULL, x, options, op->accumulate, memory);
        break;
    case OP_batch_norm2d_input_grad:
        options.relu = 0;
        kernel_batch_norm_grad(c->stream, type, at[0], at[1], at[2], NULL, at[3], at[4], NULL,
                               at[5], NULL, NULL, NULL, x, options, 0, memory);
        break;
    default:
        options.relu = 0;
        kernel_batch_norm_grad(c->stream, type, at[0], at[1], NULL, NULL, at[2], at[3], NULL, NULL,
                               at[4], at[5], NULL, x, options, op->accumulate, memory);
        break;
    }
}

static void pool(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    int write = c->in->compute.read_count;
    bool forward = op->kind == OP_max_pool2d || op->kind == OP_avg_pool2d;
    struct picture x = picture_of(c, forward ? 0 : write);
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

/* Another element type, or another memory format. */
static enum rh_status cast(struct call *c)
{
    const struct view *from = &c->views[0];
    const struct view *to = &c->views[c->in->compute.read_count];
    if (c->in->compute.read_count > 1) {
        kernel_cast_all(c->stream, type_of(c, 0), type_of(c, c->in->compute.read_count),
                        c->ready->table, c->ready->rows);
        return RH_OK;
    }
    void *target = c->at[c->in->compute.read_count];
    if (view_same_order(from, to)) {
        kernel_cast(c->stream, type_of(c, 0), c->at[0], type_of(c, c->in->compute.read_count),
                    target, elements(c, 0));
        return RH_OK;
    }
    if (from->type.dtype != to->type.dtype)
        return fail(RH_INVALID, "'%s': a cast changes either the type or the format, not both",
                    c->in->name);
    view_copy_strided(c->stream, from, c->at[0], to, target);
    return RH_OK;
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
        kernel_mse_grad(c->stream, type, c->at[0], c->at[1], write > 2 ? c->at[2] : NULL,
                        c->at[write], n, scale);
        break;
    case OP_cross_entropy:
        kernel_cross_entropy(c->stream, type, c->at[0], c->at[1], c->at[2], c->at[write], rows,
                             classes, weight, op->loss.sum, op->accumulate);
        break;
    default:
        kernel_cross_entropy_grad(c->stream, type, c->at[0], c->at[1], write > 2 ? c->at[2] : NULL,
                                  c->at[write], rows, classes, weight, op->loss.sum);
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
    kernel_optimizer(c->stream, c->ready->table, c->ready->rows, c->at[0], c->at[1],
                     op->scaled ? c->at[2] : NULL, options);
}

static void grad_scaler(struct call *c)
{
    const struct op *op = &c->in->compute.op;
    struct scaler_options options = {
        .max_norm = (float)op->scaler.max_norm,
        .growth = (float)op->scaler.growth,
        .backoff = (float)op->scaler.backoff,
        .interval = op->scaler.interval,
        .skip = op->scaler.skip,
    };
    kernel_grad_scaler(c->stream, c->at[0], (int)shape(c, 0)->dim[0], c->at[1], c->at[2], options);
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
    case OP_cast: return cast(c);
    case OP_grad_norm:
        kernel_grad_norm(c->stream, c->ready->table, c->ready->rows,
                         view_pointer(c->s, c->worker, &c->views[write]));
        break;
    case OP_grad_scaler: grad_scaler(c); break;
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
                     .worker = worker,
                     .in = in,
                     .views = &role->views[in->compute.view_first],
                     .ready = ready_of(s, worker, list, in),
                     .stream = w->streams[in->stream],
                     .counters = w->counters + in->stream * s->counters_per_stream};
    int count = in->compute.read_count + in->compute.write_count;
    for (int i = 0; i < count && i < 16; i++)
        c.at[i] = view_pointer(s, worker, &c.views[i]);
    if (in->compute.workspace >= 0)
        c.workspace = view_pointer(s, worker, &role->views[in->compute.workspace]);
    if (role->streams[in->stream].device == role->gpus) {
        CUDA_DO(cudaLaunchHostFunc(c.stream, host_main, c.ready));
        return RH_OK;
    }
    RETURN_IF_FAILED(dispatch(&c));
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? RH_OK : cuda_failed(in->name, error);
}
