#include "backends/cuda/search.h"

#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/random.h"
#include "op/convert.h"

enum { TIMED_RUNS = 3, CAPTURED_RUNS = 16 };

static const double most_seconds = 15;
static const float short_seconds = 1e-4F; /* a launch by the host takes a few of 1e-6 */

double search_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool search_is_over(const struct session *s)
{
    return s->search_seconds > most_seconds;
}

void *search_pattern(enum dtype dtype)
{
    float *values = memory_new_array(SEARCH_PATTERN, sizeof *values);
    void *pattern = memory_new_array(SEARCH_PATTERN, dtype_bytes(dtype));
    for (int i = 0; i < SEARCH_PATTERN; i++)
        values[i] = (float)(2 * random_uniform(1, (uint64_t)i) - 1);
    convert_from_f32(dtype, values, pattern, SEARCH_PATTERN);
    free(values);
    return pattern;
}

/* The pattern is repeated by ever longer copies. */
enum rh_status search_fill(struct session *s, void *at, size_t bytes, const void *pattern,
                           size_t pattern_bytes)
{
    size_t done = bytes < pattern_bytes ? bytes : pattern_bytes;
    CUDA_DO(cudaMemcpyAsync(at, pattern, done, cudaMemcpyHostToDevice, s->origin));
    while (done < bytes) {
        size_t more = done < bytes - done ? done : bytes - done;
        CUDA_DO(cudaMemcpyAsync((char *)at + done, at, more, cudaMemcpyDeviceToDevice, s->origin));
        done += more;
    }
    CUDA_DO(cudaStreamSynchronize(s->origin));
    return RH_OK;
}

/* A search under the clock. */
struct timing {
    struct session *session;
    search_launch *launch;
    void *context;
    cudaEvent_t begin, end;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
};

static enum rh_status run(const struct timing *t, int count)
{
    for (int i = 0; i < count; i++)
        RETURN_IF_FAILED(t->launch(t->context));
    CUDA_DO(cudaGetLastError());
    return RH_OK;
}

static enum rh_status stop(const struct timing *t, int count, float *seconds)
{
    float milliseconds = 0;
    CUDA_DO(cudaEventRecord(t->end, t->session->origin));
    CUDA_DO(cudaEventSynchronize(t->end));
    CUDA_DO(cudaEventElapsedTime(&milliseconds, t->begin, t->end));
    *seconds = milliseconds * 1e-3F / (float)count;
    return RH_OK;
}

static enum rh_status time_eager(const struct timing *t, float *seconds)
{
    RETURN_IF_FAILED(run(t, 1));
    CUDA_DO(cudaEventRecord(t->begin, t->session->origin));
    RETURN_IF_FAILED(run(t, TIMED_RUNS));
    return stop(t, TIMED_RUNS, seconds);
}

static enum rh_status time_captured(struct timing *t, float *seconds)
{
    cudaStream_t stream = t->session->origin;
    CUDA_DO(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enum rh_status status = run(t, CAPTURED_RUNS);
    cudaError_t error = cudaStreamEndCapture(stream, &t->graph);
    RETURN_IF_FAILED(status);
    if (error != cudaSuccess)
        return cuda_failed("capturing a search", error);
    CUDA_DO(cudaGraphInstantiate(&t->ready, t->graph, 0));
    CUDA_DO(cudaGraphLaunch(t->ready, stream)); /* the first launch brings the graph there */
    CUDA_DO(cudaEventRecord(t->begin, stream));
    CUDA_DO(cudaGraphLaunch(t->ready, stream));
    return stop(t, CAPTURED_RUNS, seconds);
}

static enum rh_status make_events(struct timing *t)
{
    CUDA_DO(cudaEventCreate(&t->begin));
    CUDA_DO(cudaEventCreate(&t->end));
    return RH_OK;
}

static void drop(struct timing *t)
{
    if (t->ready)
        cudaGraphExecDestroy(t->ready);
    if (t->graph)
        cudaGraphDestroy(t->graph);
    if (t->begin)
        cudaEventDestroy(t->begin);
    if (t->end)
        cudaEventDestroy(t->end);
}

enum rh_status search_time(struct session *s, search_launch *launch, void *context, bool capture,
                           float *seconds)
{
    struct timing t = {.session = s, .launch = launch, .context = context};
    enum rh_status status = make_events(&t);
    if (status == RH_OK)
        status = time_eager(&t, seconds);
    if (status == RH_OK && capture && *seconds < short_seconds)
        status = time_captured(&t, seconds);
    drop(&t);
    if (status != RH_OK)
        cudaGetLastError();
    return status;
}
