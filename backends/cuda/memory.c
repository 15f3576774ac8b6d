#include <stdlib.h>

#include "backends/cuda/ranks.h"
#include "base/memory.h"
#include "base/rank.h"
#include "base/text.h"
#include "kernels/cuda/kernels.h"
#include "plan/placement.h"

/* Left free, though nobody may need all of it: kernels that load at their first launch, graphs,
 * tables of pointers. */
static const double first_launch_bytes = 100663296;

enum rh_status cuda_failed(const char *what, cudaError_t error)
{
    enum rh_status status = error == cudaErrorMemoryAllocation ? RH_OUT_OF_MEMORY : RH_FAILED;
    cudaGetLastError(); /* told here: a later launch, maybe of another run, must not find it */
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

enum rh_status memory_look(struct session *s)
{
    struct footprint *f = &s->footprint;
    size_t available = 0;
    size_t total = 0;
    CUDA_DO(cudaMemGetInfo(&available, &total));
    f->capacity_bytes = (double)total;
    f->now_bytes = (double)(total - available);
    f->peak_bytes = f->now_bytes > f->peak_bytes ? f->now_bytes : f->peak_bytes;
    return RH_OK;
}

void memory_expect_communicators(struct session *s, double joined_bytes)
{
    const struct device_model *gpu =
        cluster_device_model(s->options.cluster, s->options.devices[0]);
    double whole = gpu->communicator_bytes * ranks_communicators(s);
    s->footprint.coming_bytes = whole > joined_bytes ? whole - joined_bytes : 0;
}

static double planned_bytes(const struct session *s)
{
    double bytes = 0;
    for (int i = 0; i < s->worker_count; i++) {
        const struct role *role = &s->plan->roles[s->workers[i].role];
        for (int d = 0; ranks_owns(s, i) && d < role->gpus; d++)
            bytes += (double)role->persistent_bytes[d] + (double)role->arena_bytes[d];
    }
    return bytes;
}

/* One worker's GPU is refused in the words of the plan's own check; what several share, in sum. */
static enum rh_status refuse(const struct session *s, double taken_bytes)
{
    const struct footprint *f = &s->footprint;
    char asked[32], available[32], runtime[32];
    if (s->worker_count == 1 && s->plan->roles[0].gpus == 1)
        return plan_fits(s->plan, 0, 0, "this GPU", f->capacity_bytes, taken_bytes);
    return fail(
        RH_OUT_OF_MEMORY,
        "does not fit on 'this GPU': %s asked by all its devices, %s available (%s runtime)",
        text_bytes(asked, f->planned_bytes), text_bytes(available, f->capacity_bytes - taken_bytes),
        text_bytes(runtime, taken_bytes));
}

enum rh_status memory_check(struct session *s)
{
    struct footprint *f = &s->footprint;
    RETURN_IF_FAILED(memory_look(s));
    f->runtime_bytes = f->now_bytes + f->coming_bytes;
    f->planned_bytes = planned_bytes(s);
    f->peak_bytes = 0;
    double taken_bytes = f->runtime_bytes + first_launch_bytes;
    if (s->options.unchecked_memory || f->planned_bytes <= f->capacity_bytes - taken_bytes)
        return RH_OK;
    return refuse(s, taken_bytes);
}

/* Several ranks on one GPU would count each other's bytes. */
static bool shares_gpu(const struct session *s)
{
    struct rank rank;
    int gpus = 0;
    return s->ranks && (rank_read(&rank) != RH_OK || cudaGetDeviceCount(&gpus) != cudaSuccess ||
                        rank.ranks > gpus);
}

void memory_tell(const struct session *s, struct result *result)
{
    const struct footprint *f = &s->footprint;
    if (shares_gpu(s))
        return;
    result->memory = (struct memory_result){.planned_bytes = f->planned_bytes,
                                            .runtime_bytes = f->runtime_bytes,
                                            .measured_bytes = f->peak_bytes,
                                            .capacity_bytes = f->capacity_bytes};
    for (int i = 0; i < s->worker_count; i++)
        if (ranks_owns(s, i))
            result->memory.devices += s->plan->roles[s->workers[i].role].gpus;
}

enum rh_status areas_make(struct session *s)
{
    RETURN_IF_FAILED(memory_check(s));
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
