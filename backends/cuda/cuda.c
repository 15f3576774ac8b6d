#include "backends/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/cuda/convolution.h"
#include "backends/cuda/ranks.h"
#include "backends/cuda/timeline.h"
#include "base/memory.h"

static enum rh_status find_gpu(void)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0)
        return fail(RH_FAILED, "no GPU: %s",
                    error != cudaSuccess ? cudaGetErrorString(error) : "the driver shows none");
    return RH_OK;
}

static enum rh_status probe(char version[128])
{
    struct cudaDeviceProp properties;
    int runtime = 0;
    RETURN_IF_FAILED(find_gpu());
    CUDA_DO(cudaGetDeviceProperties(&properties, 0));
    CUDA_DO(cudaRuntimeGetVersion(&runtime));
    int nccl = ranks_nccl_version();
    snprintf(version, 128, "CUDA %d.%d, cuDNN %zu, NCCL %d.%d.%d, %.60s", runtime / 1000,
             runtime % 1000 / 10, cudnnGetVersion(), nccl / 10000, nccl % 10000 / 100, nccl % 100,
             properties.name);
    return RH_OK;
}

static enum rh_status open_libraries(struct session *s)
{
    RETURN_IF_FAILED(find_gpu());
    RETURN_IF_FAILED(ranks_set_device());
    CUDA_DO(cudaStreamCreateWithFlags(&s->origin, cudaStreamNonBlocking));
    CUDA_DO(cudaEventCreateWithFlags(&s->fork, cudaEventDisableTiming));
    CUDA_DO(cudaEventCreateWithFlags(&s->join, cudaEventDisableTiming));
    LT_DO(cublasLtCreate(&s->lt));
    DNN_DO(cudnnCreate(&s->dnn));
    return RH_OK;
}

static void close_session(struct session *s);

static enum rh_status open_session(const struct backend_options *options, struct session **session)
{
    struct session *s = memory_new(sizeof *s);
    s->options = *options;
    enum rh_status status = open_libraries(s);
    if (status != RH_OK) {
        close_session(s);
        s = NULL;
    }
    *session = s;
    return status;
}

static enum rh_status describe(struct session *s, int device, struct device_description *out)
{
    RETURN_IF_FAILED(memory_look(s));
    out->capacity_bytes = s->footprint.capacity_bytes;
    out->runtime_bytes = s->plan ? s->footprint.runtime_bytes : s->footprint.now_bytes;
    snprintf(out->name, sizeof out->name, "device %d", device);
    return RH_OK;
}

static enum rh_status make_streams(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++) {
        struct cuda_worker *w = &s->workers[i];
        const struct role *role = &s->plan->roles[w->role];
        if (!ranks_owns(s, i))
            continue;
        for (int k = 0; k < role->stream_count; k++)
            CUDA_DO(cudaStreamCreateWithFlags(&w->streams[k], cudaStreamNonBlocking));
        for (int k = 0; k < role->event_count; k++)
            CUDA_DO(cudaEventCreateWithFlags(&w->events[k], cudaEventDisableTiming));
    }
    return RH_OK;
}

static enum rh_status make_staging(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++) {
        const struct role *role = &s->plan->roles[s->workers[i].role];
        for (int b = 0; b < role->buffer_count; b++)
            if (role->buffers[b].lifetime == LIFETIME_PERSISTENT &&
                role->buffers[b].purpose == PURPOSE_INPUTS &&
                role->buffers[b].bytes > s->staging_bytes)
                s->staging_bytes = role->buffers[b].bytes;
    }
    if (s->staging_bytes)
        CUDA_DO(cudaMallocHost(&s->staging, s->staging_bytes));
    return RH_OK;
}

static void unload(struct session *s)
{
    if (!s->plan)
        return;
    cudaDeviceSynchronize();
    for (int l = 0; s->graphs && l < s->plan->roles[0].list_count; l++)
        if (s->graphs[l])
            cudaGraphExecDestroy(s->graphs[l]);
    timeline_drop(s);
    ranks_leave(s);
    ready_drop(s);
    areas_drop(s);
    for (int i = 0; i < s->worker_count; i++) {
        struct cuda_worker *w = &s->workers[i];
        const struct role *role = &s->plan->roles[w->role];
        for (int k = 0; k < role->stream_count; k++)
            if (w->streams[k])
                cudaStreamDestroy(w->streams[k]);
        for (int k = 0; k < role->event_count; k++)
            if (w->events[k])
                cudaEventDestroy(w->events[k]);
        free(w->streams);
        free(w->events);
    }
    cudaFreeHost(s->staging);
    free(s->workers);
    free(s->graphs);
    s->plan = NULL;
    s->workers = NULL;
    s->graphs = NULL;
    s->staging = NULL;
    s->staging_bytes = 0;
    s->footprint = (struct footprint){0};
}

static enum rh_status load_all(struct session *s)
{
    RETURN_IF_FAILED(memory_look(s));
    double before = s->footprint.now_bytes;
    RETURN_IF_FAILED(ranks_join(s));
    RETURN_IF_FAILED(memory_look(s));
    memory_expect_communicators(s, s->footprint.now_bytes - before);
    RETURN_IF_FAILED(memory_check(s)); /* before time goes into a search */
    RETURN_IF_FAILED(ready_search(s));
    RETURN_IF_FAILED(areas_make(s));
    RETURN_IF_FAILED(ready_make(s));
    RETURN_IF_FAILED(make_streams(s));
    RETURN_IF_FAILED(timeline_make(s));
    return make_staging(s);
}

static enum rh_status load(struct session *s, const struct plan *plan)
{
    s->plan = plan;
    s->worker_count = mesh_workers(&plan->mesh);
    s->workers = memory_new_array((size_t)s->worker_count, sizeof *s->workers);
    s->graphs = memory_new_array((size_t)plan->roles[0].list_count + 1, sizeof(cudaGraphExec_t));
    for (int i = 0; i < s->worker_count; i++) {
        struct cuda_worker *w = &s->workers[i];
        w->role = plan_role_of(plan, i);
        const struct role *role = &plan->roles[w->role];
        w->streams = memory_new_array((size_t)role->stream_count + 1, sizeof(cudaStream_t));
        w->events = memory_new_array((size_t)role->event_count + 1, sizeof(cudaEvent_t));
    }
    enum rh_status status = load_all(s);
    if (status != RH_OK)
        unload(s);
    return status;
}

static void list_devices(const struct session *s, struct result *result)
{
    result->devices =
        memory_new_array((size_t)s->options.device_count + 1, sizeof *result->devices);
    result->device_count = s->options.device_count;
    for (int i = 0; i < s->options.device_count; i++) {
        result->devices[i].device = s->options.devices[i];
        result->devices[i].capacity_bytes = s->footprint.capacity_bytes;
    }
}

static enum rh_status run(struct session *s, const struct run_order *order,
                          const struct backend_feed *feed, struct result *result)
{
    list_devices(s, result);
    RETURN_IF_FAILED(steps_run(s, order, feed, result));
    memory_tell(s, result);
    return RH_OK;
}

static enum rh_status check_buffer(const struct session *s, int worker, int buffer, size_t bytes)
{
    const struct buffer *b = &s->plan->roles[s->workers[worker].role].buffers[buffer];
    if (b->bytes != bytes)
        return fail(RH_INVALID, "buffer '%s' has %zu bytes; %zu are given", b->name, b->bytes,
                    bytes);
    return RH_OK;
}

static enum rh_status write_values(struct session *s, int worker, int buffer, const void *data,
                                   size_t bytes)
{
    RETURN_IF_FAILED(check_buffer(s, worker, buffer, bytes));
    if (!ranks_owns(s, worker))
        return RH_OK;
    CUDA_DO(cudaMemcpy(buffer_pointer(s, worker, buffer), data, bytes, cudaMemcpyDefault));
    return RH_OK;
}

static enum rh_status read_values(struct session *s, int worker, int buffer, void *data,
                                  size_t bytes)
{
    RETURN_IF_FAILED(check_buffer(s, worker, buffer, bytes));
    CUDA_DO(cudaStreamSynchronize(s->origin));
    if (ranks_owns(s, worker))
        CUDA_DO(cudaMemcpy(data, buffer_pointer(s, worker, buffer), bytes, cudaMemcpyDefault));
    return ranks_share(s, worker, data, bytes);
}

static void close_session(struct session *s)
{
    unload(s);
    convolutions_drop(s);
    if (s->dnn)
        cudnnDestroy(s->dnn);
    if (s->lt)
        cublasLtDestroy(s->lt);
    if (s->fork)
        cudaEventDestroy(s->fork);
    if (s->join)
        cudaEventDestroy(s->join);
    if (s->origin)
        cudaStreamDestroy(s->origin);
    free(s);
}

const struct backend backend_cuda_module = {
    .name = "cuda",
    .description = "a real GPU; devices of the plan share it",
    .probe = probe,
    .open = open_session,
    .describe = describe,
    .load = load,
    .run = run,
    .write = write_values,
    .read = read_values,
    .unload = unload,
    .close = close_session,
};
