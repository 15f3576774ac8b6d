#include "backends/cuda/ready.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/convolution.h"
#include "backends/cuda/ranks.h"
#include "base/memory.h"

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

static size_t whole_lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static enum dtype stored(enum dtype dtype)
{
    return dtype == DTYPE_TF32 ? DTYPE_F32 : dtype;
}

static void need_workspace(struct session *s, size_t bytes)
{
    if (bytes > s->workspace_bytes)
        s->workspace_bytes = whole_lines(bytes);
}

static int alignment_of(struct session *s, int worker, const struct role *role,
                        const struct instruction *in)
{
    const struct view *views = &role->views[in->compute.view_first];
    int pictures[] = {0, 1, in->compute.read_count};
    uintptr_t all = 16;
    for (int i = 0; i < 3; i++)
        all |= (uintptr_t)view_pointer(s, worker, &views[pictures[i]]);
    return (int)(all & -all);
}

static enum rh_status ready_conv2d(struct session *s, int worker, const struct role *role,
                                   const struct instruction *in, struct ready *r)
{
    const struct op *op = &in->compute.op;
    int write = in->compute.read_count;
    bool forward = op->kind == OP_conv2d;
    bool weights = op->kind == OP_conv2d_weight_grad;
    const int64_t *x = operand(role, in, forward ? 0 : weights ? 1 : write)->shape.dim;
    const int64_t *y = operand(role, in, forward ? write : 0)->shape.dim;
    struct convolution_request request = {.op = *op,
                                          .type = stored(operand(role, in, 0)->dtype),
                                          .out = stored(operand(role, in, write)->dtype),
                                          .n = x[0],
                                          .c = x[1],
                                          .h = x[2],
                                          .w = x[3],
                                          .k = y[1],
                                          .p = y[2],
                                          .q = y[3],
                                          .bias = forward && write > 2,
                                          .alignment_bytes = alignment_of(s, worker, role, in)};
    request.channels_last = operand(role, in, 0)->channels_last;
    RETURN_IF_FAILED(convolution_find(s, &request, in->name, &r->convolution));
    need_workspace(s, convolution_workspace(r->convolution));
    if (weights && in->compute.write_count > 1 && request.channels_last)
        need_workspace(s, kernel_column_sums_scratch(y[0] * y[2] * y[3], y[1]));
    return RH_OK;
}

static enum rh_status ready_product(struct session *s, int worker, const struct role *role,
                                    const struct instruction *in, struct ready *r)
{
    const struct op *op = &in->compute.op;
    const struct view *views = &role->views[in->compute.view_first];
    int write = in->compute.read_count;
    bool forward = op->kind == OP_linear;
    bool third = write > 2; /* the bias, or y */
    struct product_memory at = {.first = view_pointer(s, worker, &views[0]),
                                .second = view_pointer(s, worker, &views[1]),
                                .out = view_pointer(s, worker, &views[write])};
    if (third)
        *(forward ? (const void **)&at.vector : &at.mask) = view_pointer(s, worker, &views[2]);
    if (in->compute.write_count > 1)
        at.vector = view_pointer(s, worker, &views[write + 1]);
    const int64_t *weights = views[op->kind == OP_linear_weight_grad ? write : 1].type.shape.dim;
    struct product_request request = {.kind = op->kind,
                                      .type = stored(views[0].type.dtype),
                                      .out = stored(views[write].type.dtype),
                                      .compute = op->compute == DTYPE_TF32 ? DTYPE_TF32 : DTYPE_F32,
                                      .rows = views[0].type.shape.dim[0],
                                      .inputs = weights[1],
                                      .outputs = weights[0],
                                      .accumulate = op->accumulate,
                                      .vector = at.vector != NULL,
                                      .relu = forward ? op->linear.relu : at.mask != NULL,
                                      .first_alignment = matmul_alignment(at.first),
                                      .second_alignment = matmul_alignment(at.second),
                                      .out_alignment = matmul_alignment(at.out),
                                      .vector_alignment = matmul_alignment(at.vector)};
    RETURN_IF_FAILED(product_find(s, &request, in->name, &r->product));
    r->memory = at;
    need_workspace(s, product_workspace(&request, &r->product->way));
    return product_bind(r->product, &at, &r->matmul);
}

static enum rh_status to_device(struct ready *r, const void *rows, size_t bytes)
{
    CUDA_DO(cudaMalloc(&r->table, bytes));
    CUDA_DO(cudaMemcpy(r->table, rows, bytes, cudaMemcpyHostToDevice));
    return RH_OK;
}

/* Rows of at most KERNEL_ROW_ELEMENTS that `elements` take. */
static int rows_for(int64_t elements)
{
    return (int)((elements + KERNEL_ROW_ELEMENTS - 1) / KERNEL_ROW_ELEMENTS);
}

static int64_t row_length(int64_t elements, int row)
{
    int64_t left = elements - (int64_t)row * KERNEL_ROW_ELEMENTS;
    return left < KERNEL_ROW_ELEMENTS ? left : KERNEL_ROW_ELEMENTS;
}

static enum rh_status ready_optimizer(struct session *s, int worker, const struct role *role,
                                      const struct instruction *in, struct ready *r)
{
    const struct op *op = &in->compute.op;
    const struct view *views = &role->views[in->compute.view_first];
    bool adaptive = op->kind != OP_sgd;
    int stride = adaptive ? 4 : op->sgd.momentum != 0 ? 3 : 2;
    for (int i = 2; i < in->compute.read_count; i += stride)
        r->rows += rows_for(shape_elements(&views[i].type.shape));
    struct optimizer_table *rows = memory_new_array((size_t)r->rows + 2, sizeof *rows);
    int at = 0;
    for (int i = 2; i < in->compute.read_count; i += stride) {
        int64_t elements = shape_elements(&views[i].type.shape);
        for (int k = 0; k < rows_for(elements); k++) {
            struct optimizer_table *row = &rows[at++];
            int64_t first = (int64_t)k * KERNEL_ROW_ELEMENTS;
            row->p = (float *)view_pointer(s, worker, &views[i]) + first;
            row->g = (float *)view_pointer(s, worker, &views[i + 1]) + first;
            if (stride > 2)
                row->m = (float *)view_pointer(s, worker, &views[i + 2]) + first;
            if (stride > 3)
                row->v = (float *)view_pointer(s, worker, &views[i + 3]) + first;
            row->n = row_length(elements, k);
        }
    }
    enum rh_status status = to_device(r, rows, (size_t)(r->rows + 2) * sizeof *rows);
    free(rows);
    return status;
}

/* Of one tensor nothing is made ready. */
static enum rh_status ready_casts(struct session *s, int worker, const struct role *role,
                                  const struct instruction *in, struct ready *r)
{
    const struct view *views = &role->views[in->compute.view_first];
    int count = in->compute.read_count;
    if (count == 1)
        return RH_OK;
    for (int i = 0; i < count; i++) {
        if (!view_same_order(&views[i], &views[count + i]))
            return fail(RH_INVALID, "'%s': cast %d of %d changes the memory format", in->name, i,
                        count);
        r->rows += rows_for(shape_elements(&views[i].type.shape));
    }
    struct cast_table *rows = memory_new_array((size_t)r->rows + 1, sizeof *rows);
    int at = 0;
    for (int i = 0; i < count; i++) {
        int64_t elements = shape_elements(&views[i].type.shape);
        for (int k = 0; k < rows_for(elements); k++) {
            size_t first = (size_t)k * KERNEL_ROW_ELEMENTS;
            rows[at].x = (char *)view_pointer(s, worker, &views[i]) +
                         first * dtype_bytes(views[i].type.dtype);
            rows[at].y = (char *)view_pointer(s, worker, &views[count + i]) +
                         first * dtype_bytes(views[count + i].type.dtype);
            rows[at++].n = row_length(elements, k);
        }
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
    const struct tensor_type *x = operand(role, in, 0);
    const int64_t *dim = x->shape.dim;
    struct picture picture = {(int)dim[0], (int)dim[1], (int)dim[2], (int)dim[3], x->channels_last};
    size_t bytes = kernel_batch_norm_scratch(picture);
    CUDA_DO(cudaMalloc(&r->table, bytes));
    CUDA_DO(cudaMemset(r->table, 0, bytes));
    return RH_OK;
}

/* A gradient that gives the loss, too, adds up what its blocks found. */
static enum rh_status ready_loss(const struct instruction *in, struct ready *r)
{
    if (in->compute.write_count < 2)
        return RH_OK;
    CUDA_DO(cudaMalloc(&r->table, sizeof(struct loss_scratch)));
    CUDA_DO(cudaMemset(r->table, 0, sizeof(struct loss_scratch)));
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

static enum rh_status make_one(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, struct ready **out)
{
    RETURN_IF_FAILED(operands_check(role, in));
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
    case OP_conv2d_weight_grad: return ready_conv2d(s, worker, role, in, r);
    case OP_sgd:
    case OP_adam:
    case OP_adamw: return ready_optimizer(s, worker, role, in, r);
    case OP_batch_norm2d:
    case OP_batch_norm2d_input_grad:
    case OP_batch_norm2d_weight_grad:
    case OP_batch_norm2d_grad: return ready_batch_norm(role, in, r);
    case OP_mse_loss_grad:
    case OP_cross_entropy_grad: return ready_loss(in, r);
    case OP_pack:
    case OP_unpack: return ready_pieces(s, worker, role, in, r);
    case OP_cast: return ready_casts(s, worker, role, in, r);
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
    matmul_drop(&r->matmul);
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
