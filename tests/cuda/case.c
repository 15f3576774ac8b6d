#include "cuda/case.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/random.h"
#include "op/convert.h"

enum { GUARD_BYTES = 256, GUARD = 0x5a, WORKSPACE_MOST_BYTES = 512 << 20 };

enum rh_status cuda_failed(const char *what, cudaError_t error)
{
    return fail(RH_FAILED, "%.80s: %s", what, cudaGetErrorString(error));
}

struct convolution_request request_of(const struct picture *p, const struct setting *t,
                                      const struct direction *d, bool channels_last)
{
    struct convolution_request r = {.type = t->type,
                                    .out = d->kind == OP_conv2d_weight_grad ? DTYPE_F32 : t->type,
                                    .n = p->n,
                                    .c = p->c,
                                    .h = p->h,
                                    .w = p->w,
                                    .k = p->k,
                                    .p = (p->h + 2 * p->padding - p->kernel) / p->stride + 1,
                                    .q = (p->w + 2 * p->padding - p->kernel) / p->stride + 1,
                                    .channels_last = channels_last,
                                    .bias = d->bias,
                                    .relu = d->relu,
                                    .workspace_bytes = WORKSPACE_MOST_BYTES};
    r.op.kind = d->kind;
    r.op.compute = t->compute;
    r.op.accumulate = d->accumulate;
    r.op.window.kernel_h = r.op.window.kernel_w = p->kernel;
    r.op.window.stride_h = r.op.window.stride_w = p->stride;
    r.op.window.padding_h = r.op.window.padding_w = p->padding;
    r.op.window.dilation = 1;
    r.op.window.groups = p->groups;
    return r;
}

static enum rh_status make_operand(struct operand *o, enum dtype dtype, int64_t a, int64_t b,
                                   int64_t c, int64_t d, uint64_t seed)
{
    *o = (struct operand){.dtype = dtype, .dim = {a, b, c, d}, .n = a * b * c * d};
    o->bytes = (size_t)o->n * dtype_bytes(dtype);
    o->values = memory_new_array((size_t)o->n, sizeof *o->values);
    void *stored = memory_new(o->bytes);
    for (int64_t i = 0; i < o->n; i++)
        o->values[i] = (float)(2 * random_uniform(seed, (uint64_t)i) - 1);
    convert_from_f32(dtype, o->values, stored, o->n);
    convert_to_f32(dtype, stored, o->values, o->n);
    CUDA_DO(cudaMalloc((void **)&o->device, o->bytes + GUARD_BYTES));
    CUDA_DO(cudaMemset(o->device + o->bytes, GUARD, GUARD_BYTES));
    CUDA_DO(cudaMemcpy(o->device, stored, o->bytes, cudaMemcpyHostToDevice));
    free(stored);
    return RH_OK;
}

static void drop_operand(struct operand *o)
{
    free(o->values);
    cudaFree(o->device);
    *o = (struct operand){.n = 0};
}

bool is_guarded(const char *device_end)
{
    unsigned char found[GUARD_BYTES];
    if (cudaMemcpy(found, device_end, GUARD_BYTES, cudaMemcpyDeviceToHost) != cudaSuccess)
        return false;
    for (int i = 0; i < GUARD_BYTES; i++)
        if (found[i] != GUARD)
            return false;
    return true;
}

enum rh_status launch(struct run *u)
{
    return convolution_run(u->s, u->c, u->s->origin, u->o[0].device, u->o[1].device, u->o[3].device,
                           u->o[2].device, u->workspace);
}

static enum rh_status capture(struct run *u)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    CUDA_DO(cudaStreamBeginCapture(u->s->origin, cudaStreamCaptureModeGlobal));
    enum rh_status status = launch(u);
    CUDA_DO(cudaStreamEndCapture(u->s->origin, &graph));
    RETURN_IF_FAILED(status);
    CUDA_DO(cudaGraphInstantiate(&ready, graph, 0));
    CUDA_DO(cudaGraphLaunch(ready, u->s->origin));
    CUDA_DO(cudaStreamSynchronize(u->s->origin));
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    return RH_OK;
}

enum rh_status run_twice(struct run *u)
{
    struct operand *out = &u->o[2];
    void *before = memory_new(out->bytes);
    convert_from_f32(out->dtype, out->values, before, out->n);
    for (int i = 0; i < 2; i++) {
        u->out[i] = memory_new(out->bytes);
        CUDA_DO(cudaMemcpy(out->device, before, out->bytes, cudaMemcpyHostToDevice));
        CUDA_DO(cudaMemset(u->workspace, 0xff, u->workspace_bytes)); /* NaN */
        CUDA_DO(cudaDeviceSynchronize());
        RETURN_IF_FAILED(i ? capture(u) : launch(u));
        CUDA_DO(cudaStreamSynchronize(u->s->origin));
        CUDA_DO(cudaGetLastError());
        CUDA_DO(cudaMemcpy(u->out[i], out->device, out->bytes, cudaMemcpyDeviceToHost));
    }
    free(before);
    return RH_OK;
}

enum rh_status make_run(struct session *s, const struct convolution_request *r, struct run *u)
{
    enum op_kind kind = r->op.kind;
    int64_t x[] = {r->n, r->c, r->h, r->w}, y[] = {r->n, r->k, r->p, r->q};
    int64_t w[] = {r->k, r->c / r->op.window.groups, r->op.window.kernel_h, r->op.window.kernel_w};
    int64_t *a = kind == OP_conv2d ? x : y, *b = kind == OP_conv2d_weight_grad ? x : w;
    int64_t *o = kind == OP_conv2d ? y : kind == OP_conv2d_input_grad ? x : w;
    u->s = s;
    RETURN_IF_FAILED(make_operand(&u->o[0], r->type, a[0], a[1], a[2], a[3], 1));
    RETURN_IF_FAILED(make_operand(&u->o[1], r->type, b[0], b[1], b[2], b[3], 2));
    RETURN_IF_FAILED(make_operand(&u->o[2], r->out, o[0], o[1], o[2], o[3], 3));
    RETURN_IF_FAILED(make_operand(&u->o[3], r->type, 1, r->k, 1, 1, 4));
    RETURN_IF_FAILED(convolution_find(s, r, "test", &u->c));
    u->workspace_bytes = convolution_workspace(u->c);
    CUDA_DO(cudaMalloc((void **)&u->workspace, u->workspace_bytes + GUARD_BYTES));
    CUDA_DO(cudaMemset(u->workspace + u->workspace_bytes, GUARD, GUARD_BYTES));
    return RH_OK;
}

void drop_run(struct run *u)
{
    for (int i = 0; i < 4; i++)
        drop_operand(&u->o[i]);
    cudaFree(u->workspace);
    free(u->out[0]);
    free(u->out[1]);
}
