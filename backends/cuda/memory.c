#include <stdlib.h>

#include "backends/cuda/ranks.h"
#include "base/memory.h"
#include "kernels/cuda/kernels.h"

enum rh_status cuda_failed(const char *what, cudaError_t error)
{
    enum rh_status status = error == cudaErrorMemoryAllocation ? RH_OUT_OF_MEMORY : RH_FAILED;
    return fail(status, "%.80s: %s", what, cudaGetErrorString(error));
}

static enum rh_status make_area(bool host, size_t bytes, char **area)
{
    if (bytes == 0)
        return RH_OK;
    if (host)
        CUDA_DO(cudaMallocHost((void **)area, bytes));
    else
        CUDA_DO(cudaMalloc((void **)area, bytes));
    CUDA_DO(cudaMemset(*area, 0, bytes));
    return RH_OK;
}

enum rh_status areas_make(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++) {
        struct cuda_worker *w = &s->workers[i];
        const struct role *role = &s->plan->roles[w->role];
        size_t devices = (size_t)role->gpus + 1;
        if (!ranks_owns(s, i))
            continue;
        w->persistent = memory_new_array(devices, sizeof *w->persistent);
        w->arena = memory_new_array(devices, sizeof *w->arena);
        for (int d = 0; d <= role->gpus; d++) {
            RETURN_IF_FAILED(
                make_area(d == role->gpus, role->persistent_bytes[d], &w->persistent[d]));
            RETURN_IF_FAILED(make_area(d == role->gpus, role->arena_bytes[d], &w->arena[d]));
        }
    }
    return RH_OK;
}

void areas_drop(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++) {
        struct cuda_worker *w = &s->workers[i];
        int gpus = s->plan->roles[w->role].gpus;
        for (int d = 0; w->arena && d <= gpus; d++) {
            (d == gpus ? cudaFreeHost : cudaFree)(w->persistent[d]);
            (d == gpus ? cudaFreeHost : cudaFree)(w->arena[d]);
        }
        free(w->persistent);
        free(w->arena);
    }
}

void *buffer_pointer(const struct session *s, int worker, int buffer)
{
    const struct cuda_worker *w = &s->workers[worker];
    const struct buffer *b = &s->plan->roles[w->role].buffers[buffer];
    char **area = b->lifetime == LIFETIME_PERSISTENT ? w->persistent : w->arena;
    return area[b->device] + b->offset;
}

void *view_pointer(const struct session *s, int worker, const struct view *view)
{
    return (char *)buffer_pointer(s, worker, view->buffer) + view->offset;
}

void view_copy_strided(cudaStream_t stream, const struct view *from, const void *source,
                       const struct view *to, void *target)
{
    struct strided shape = {.rank = from->type.shape.rank};
    for (int d = 0; d < shape.rank; d++) {
        shape.dim[d] = from->type.shape.dim[d];
        shape.from[d] = from->stride[d];
        shape.to[d] = to->stride[d];
    }
    kernel_strided_copy(stream, source, target, shape, (int)dtype_bytes(from->type.dtype));
}
