#include "backends/cuda/ready.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/convolution.h"
#include "backends/cuda/ranks.h"
#include "base/memory.h"
#include "op/convert.h"
#include "plan/workspace.h"

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

static enum dtype stored(enum dtype dtype)
{
    return dtype == DTYPE_TF32 ? DTYPE_F32 : dtype;
}

/* Areas begin at whole lines of 256 bytes, so offsets tell, also before there are areas. */
static int alignment_of(const struct role *role, const struct instruction *in)
{
    const struct view *views = &role->views[in->compute.view_first];
    int pictures[] = {0, 1, in->compute.read_count};
    size_t all = 16;
    for (int i = 0; i < 3; i++)
        all |= role->buffers[views[pictures[i]].buffer].offset + (size_t)views[pictures[i]].offset;
    return (int)(all & -all);
}

static enum rh_status find_conv2d(struct session *s, const struct role *role,
                                  const struct instruction *in,
                                  const struct convolution **convolution)
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
                                          .alignment_bytes = alignment_of(role, in),
                                          .workspace_bytes = workspace_bytes(role, in)};
    request.channels_last = operand(role, in, 0)->channels_last;
    return convolution_find(s, &request, in->name, convolution);
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
    int first_read = op->scaled ? 3 : 2;
    for (int i = first_read; i < in->compute.read_count; i += stride)
        r->rows += rows_for(shape_elements(&views[i].type.shape));
    struct optimizer_table *rows = memory_new_array((size_t)r->rows + 2, sizeof *rows);
    int at = 0;
    for (int i = first_read; i < in->compute.read_count; i += stride) {
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

static enum rh_status ready_grad_norm(struct session *s, int worker, const struct role *role,
                                      const struct instruction *in, struct ready *r)
{
    const struct view *views = &role->views[in->compute.view_first];
    for (int i = 0; i < in->compute.read_count; i++)
        r->rows += rows_for(shape_elements(&views[i].type.shape));
    /* two floats a row and a counter: half as many rows again, and one */
    size_t most = (size_t)r->rows + (size_t)r->rows / 2 + 2;
    struct norm_table *rows = memory_new_array(most, sizeof *rows);
    int at = 0;
    for (int i = 0; i < in->compute.read_count; i++) {
        int64_t elements = shape_elements(&views[i].type.shape);
        const float *g = view_pointer(s, worker, &views[i]);
        for (int k = 0; k < rows_for(elements); k++)
            rows[at++] =
                (struct norm_table){g + (int64_t)k * KERNEL_ROW_ELEMENTS, row_length(elements, k)};
    }
    enum rh_status status = to_device(r, rows, most * sizeof *rows);
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
    case OP_batch_norm2d: return operand == 0 || operand == 6 || operand == reads;
    case OP_batch_norm2d_grad:
        return operand < 2 || operand == 6 || operand == reads || operand == reads + 3;
    case OP_batch_norm2d_input_grad: return operand < 2 || operand == reads;
    case OP_batch_norm2d_weight_grad: return operand < 2;
    case OP_mse_loss_grad:
    case OP_cross_entropy_grad: return operand != 2 || operand >= reads;
    case OP_pack:
    case OP_unpack:
    case OP_grad_norm:
    case OP_grad_scaler:
    case OP_sgd:
    case OP_adam:
    case OP_adamw: return false;
    default: return true;
    }
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

/* All pictures of an instruction lie alike, and there are no gaps. A cast may change the format. */
static enum rh_status check_layout(const struct role *role, const struct instruction *in, int index)
{
    const struct view *view = &role->views[in->compute.view_first + index];
    const struct view *first = &role->views[in->compute.view_first];
    if (!view_is_dense(view))
        return fail(RH_INVALID, "'%s': operand %d of %s is strided", in->name, index,
                    op_name(in->compute.op.kind));
    if (view->type.shape.rank == 4 && first->type.shape.rank == 4 &&
        view->type.channels_last != first->type.channels_last && in->compute.op.kind != OP_cast)
        return fail(RH_INVALID, "'%s': operand %d of %s is %s, operand 0 is not", in->name, index,
                    op_name(in->compute.op.kind),
                    view->type.channels_last ? "channels last" : "row-major");
    return RH_OK;
}

static enum rh_status check_operands(const struct role *role, const struct instruction *in)
{
    bool on_host = role->streams[in->stream].device == role->gpus;
    enum dtype common = DTYPE_COUNT;
    for (int i = 0; i < in->compute.read_count + in->compute.write_count; i++) {
        if (!on_host)
            RETURN_IF_FAILED(check_type(role, in, i, &common));
        RETURN_IF_FAILED(check_layout(role, in, i));
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
    case OP_conv2d_weight_grad: return find_conv2d(s, role, in, &r->convolution);
    case OP_sgd:
    case OP_adam:
    case OP_adamw: return ready_optimizer(s, worker, role, in, r);
    case OP_batch_norm2d:
    case OP_batch_norm2d_input_grad:
    case OP_batch_norm2d_weight_grad:
    case OP_batch_norm2d_grad: return ready_batch_norm(role, in);
    case OP_grad_norm: return ready_grad_norm(s, worker, role, in, r);
    case OP_pack:
    case OP_unpack: return ready_pieces(s, worker, role, in, r);
    case OP_cast: return ready_casts(s, worker, role, in, r);
    default: return RH_OK;
    }
}

enum rh_status ready_search(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++) {
        const struct role *role = &s->plan->roles[s->workers[i].role];
        if (!ranks_owns(s, i))
            continue;
        for (int l = 0; l < role->list_count; l++)
            for (int k = 0; k < role->lists[l].count; k++) {
                const struct instruction *in = &role->lists[l].instructions[k];
                const struct convolution *found;
                if (in->kind != INSTRUCTION_COMPUTE ||
                    op_class(in->compute.op.kind) != OP_CLASS_CONVOLUTION ||
                    role->streams[in->stream].device == role->gpus)
                    continue;
                RETURN_IF_FAILED(check_operands(role, in));
                RETURN_IF_FAILED(find_conv2d(s, role, in, &found));
            }
    }
    return RH_OK;
}

enum rh_status ready_make(struct session *s)
{
    RETURN_IF_FAILED(counters_make(s));
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
    counters_drop(s);
}
