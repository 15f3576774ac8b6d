#include "backends/cuda/ready.h"

#include <stdlib.h>

#include "backends/cuda/convolution.h"
#include "backends/cuda/ranks.h"
#include "base/memory.h"
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

/* Areas begin at whole lines of 256 bytes, so offsets tell how a view is aligned, also before there
 * are areas. */
static size_t place_of(const struct role *role, const struct view *view)
{
    return role->buffers[view->buffer].offset + (size_t)view->offset;
}

static int alignment_of(const struct role *role, const struct instruction *in)
{
    const struct view *views = &role->views[in->compute.view_first];
    int pictures[] = {0, 1, in->compute.read_count};
    size_t all = 16;
    for (int i = 0; i < 3; i++)
        all |= place_of(role, &views[pictures[i]]);
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

/* The bias or its gradient; NULL: none. */
static const struct view *vector_of(const struct role *role, const struct instruction *in)
{
    const struct view *views = &role->views[in->compute.view_first];
    int write = in->compute.read_count;
    if (in->compute.write_count > 1)
        return &views[write + 1];
    return in->compute.op.kind == OP_linear && write > 2 ? &views[2] : NULL;
}

/* What relu gave, whose zeros mask the input's gradient; NULL: no mask. */
static const struct view *mask_of(const struct role *role, const struct instruction *in)
{
    bool masked = in->compute.op.kind == OP_linear_input_grad && in->compute.read_count > 2;
    return masked ? &role->views[in->compute.view_first + 2] : NULL;
}

static enum rh_status find_product(struct session *s, const struct role *role,
                                   const struct instruction *in, const struct product **product)
{
    const struct op *op = &in->compute.op;
    const struct view *views = &role->views[in->compute.view_first];
    const struct view *out = &views[in->compute.read_count], *vector = vector_of(role, in);
    const struct view *weights = op->kind == OP_linear_weight_grad ? out : &views[1];
    struct product_request request = {
        .kind = op->kind,
        .type = stored(views[0].type.dtype),
        .out = stored(out->type.dtype),
        .compute = op->compute == DTYPE_TF32 ? DTYPE_TF32 : DTYPE_F32,
        .rows = views[0].type.shape.dim[0],
        .inputs = weights->type.shape.dim[1],
        .outputs = weights->type.shape.dim[0],
        .accumulate = op->accumulate,
        .vector = vector != NULL,
        .relu = op->kind == OP_linear ? op->linear.relu : mask_of(role, in) != NULL,
        .first_alignment = matmul_alignment(place_of(role, &views[0])),
        .second_alignment = matmul_alignment(place_of(role, &views[1])),
        .out_alignment = matmul_alignment(place_of(role, out)),
        .vector_alignment = matmul_alignment(vector ? place_of(role, vector) : 0),
        .workspace_bytes = workspace_bytes(role, in)};
    return product_find(s, &request, in->name, product);
}

static enum rh_status ready_product(struct session *s, int worker, const struct role *role,
                                    const struct instruction *in, struct ready *r)
{
    const struct view *views = &role->views[in->compute.view_first];
    const struct view *vector = vector_of(role, in), *mask = mask_of(role, in);
    r->memory =
        (struct product_memory){.first = view_pointer(s, worker, &views[0]),
                                .second = view_pointer(s, worker, &views[1]),
                                .out = view_pointer(s, worker, &views[in->compute.read_count]),
                                .vector = vector ? view_pointer(s, worker, vector) : NULL,
                                .mask = mask ? view_pointer(s, worker, mask) : NULL};
    RETURN_IF_FAILED(find_product(s, role, in, &r->product));
    return product_bind(r->product, &r->memory, &r->matmul);
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

static enum rh_status check(const struct role *role, const struct instruction *in)
{
    RETURN_IF_FAILED(operands_check(role, in));
    return sums_check(role, in);
}

static enum rh_status make_one(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, struct ready **out)
{
    RETURN_IF_FAILED(check(role, in));
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
    case OP_grad_norm: return ready_grad_norm(s, worker, role, in, r);
    case OP_pack:
    case OP_unpack: return ready_pieces(s, worker, role, in, r);
    case OP_cast: return ready_casts(s, worker, role, in, r);
    default: return RH_OK;
    }
}

/* A product or convolution of a GPU: found, and kept by the session. */
static enum rh_status search_one(struct session *s, const struct role *role,
                                 const struct instruction *in)
{
    const struct convolution *convolution;
    const struct product *product;
    if (in->kind != INSTRUCTION_COMPUTE || role->streams[in->stream].device == role->gpus)
        return RH_OK;
    RETURN_IF_FAILED(check(role, in));
    switch (op_class(in->compute.op.kind)) {
    case OP_CLASS_CONVOLUTION: return find_conv2d(s, role, in, &convolution);
    case OP_CLASS_MATMUL: return find_product(s, role, in, &product);
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
            for (int k = 0; k < role->lists[l].count; k++)
                RETURN_IF_FAILED(search_one(s, role, &role->lists[l].instructions[k]));
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
    counters_drop(s);
}
