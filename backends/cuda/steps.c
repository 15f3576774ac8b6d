/* The steps of a run: batches are fed, lists issued and timed, losses read. */
#include <math.h>
#include <stdlib.h>

#include "backends/cuda/ranks.h"
#include "backends/cuda/ready.h"
#include "backends/cuda/timeline.h"
#include "base/memory.h"

static const struct role *role_of(const struct session *s, int worker)
{
    return &s->plan->roles[s->workers[worker].role];
}

/* Fed buffers are filled between lists, which is not timed: a batch is there when its step begins.
 */
static enum rh_status feed_worker(struct session *s, const struct backend_feed *feed, int worker,
                                  int step, int pass)
{
    const struct role *role = role_of(s, worker);
    int coordinate[MESH_MAX_AXES] = {0};
    mesh_coordinate(&s->plan->mesh, worker, coordinate);
    for (int b = 0; b < role->buffer_count; b++) {
        const struct buffer *buffer = &role->buffers[b];
        bool fed =
            buffer->use == USE_INPUT || buffer->use == USE_TARGET || buffer->use == USE_CONTROL;
        if (!fed)
            continue;
        bool on_host = buffer->device == role->gpus;
        void *to = on_host ? buffer_pointer(s, worker, b) : s->staging;
        RETURN_IF_FAILED(feed->fill(feed->context, worker, step, pass, buffer, coordinate, to));
        if (!on_host)
            CUDA_DO(cudaMemcpy(buffer_pointer(s, worker, b), s->staging, buffer->bytes,
                               cudaMemcpyHostToDevice));
    }
    return RH_OK;
}

static enum rh_status feed_all(struct session *s, const struct backend_feed *feed, int step,
                               int pass)
{
    CUDA_DO(cudaStreamSynchronize(s->origin)); /* nobody reads the batch before any more */
    for (int w = 0; feed && w < s->worker_count; w++)
        if (ranks_owns(s, w))
            RETURN_IF_FAILED(feed_worker(s, feed, w, step, pass));
    return RH_OK;
}

/* Waiting for a batch is not timed, so that the timeline leaves it out: `seconds` is where it
 * stands. */
struct clock {
    cudaEvent_t begin, end;
    double seconds, step_start;
};

static enum rh_status run_pass(struct session *s, const struct backend_feed *feed,
                               struct clock *clock, int list, int step, int pass,
                               struct result *result)
{
    float milliseconds = 0;
    RETURN_IF_FAILED(feed_all(s, feed, step, pass));
    CUDA_DO(cudaEventRecord(clock->begin, s->origin));
    RETURN_IF_FAILED(issue_list(s, list));
    CUDA_DO(cudaEventRecord(clock->end, s->origin));
    RETURN_IF_FAILED(ranks_wait(s, clock->end));
    CUDA_DO(cudaEventElapsedTime(&milliseconds, clock->begin, clock->end));
    RETURN_IF_FAILED(timeline_read(s, list, step, clock->seconds, clock->begin, result));
    result->step_seconds[step] += (double)milliseconds * 1e-3;
    clock->seconds += (double)milliseconds * 1e-3;
    return RH_OK;
}

static enum rh_status run_steps(struct session *s, const struct run_order *order,
                                const struct backend_feed *feed, struct clock *clock,
                                struct result *result)
{
    int step = 0;
    int pass = 0;
    int at = 0;
    while (step < order->steps) {
        const struct run_entry *entry = &order->entries[at];
        for (int k = 0; k < entry->repeat && step < order->steps; k++) {
            if (pass == 0)
                clock->step_start = clock->seconds;
            RETURN_IF_FAILED(run_pass(s, feed, clock, entry->list, step, pass++, result));
            if (entry->ends_step) {
                if (step == 0) /* all is loaded by now */
                    RETURN_IF_FAILED(memory_look(s));
                step++;
                pass = 0;
            }
        }
        if (++at == order->count)
            at = order->loop_first;
    }
    return RH_OK;
}

static enum rh_status read_losses(struct session *s, int steps, double *losses)
{
    float *values = memory_new_array((size_t)steps, sizeof *values);
    double count = 0;
    enum rh_status status = RH_OK;
    for (int w = 0; w < s->worker_count && status == RH_OK; w++) {
        const struct role *role = role_of(s, w);
        for (int b = 0; b < role->buffer_count; b++) {
            if (role->buffers[b].use != USE_LOSSES || !ranks_owns(s, w))
                continue;
            cudaError_t error = cudaMemcpy(values, buffer_pointer(s, w, b),
                                           (size_t)steps * sizeof *values, cudaMemcpyDefault);
            if (error != cudaSuccess)
                status = cuda_failed("reading the losses", error);
            for (int k = 0; k < steps; k++)
                losses[k] += (double)values[k];
            count++;
        }
    }
    if (status == RH_OK)
        status = ranks_sum(s, losses, steps, false);
    if (status == RH_OK)
        status = ranks_sum(s, &count, 1, false);
    for (int k = 0; k < steps; k++)
        losses[k] = count > 0 ? losses[k] / count : NAN;
    free(values);
    return status;
}

static enum rh_status check_host_calls(const struct session *s)
{
    for (int w = 0; w < s->worker_count; w++) {
        const struct role *role = role_of(s, w);
        for (int l = 0; ranks_owns(s, w) && l < role->list_count; l++)
            for (int k = 0; k < role->lists[l].count; k++) {
                const struct ready *r = s->workers[w].ready[l][k];
                if (r && r->host_status && *r->host_status != RH_OK)
                    return fail(*r->host_status, "worker %d: '%s' failed on the host", w,
                                role->lists[l].instructions[k].name);
            }
    }
    return RH_OK;
}

enum rh_status steps_run(struct session *s, const struct run_order *order,
                         const struct backend_feed *feed, struct result *result)
{
    struct clock clock = {0};
    for (int i = 0; i < order->count; i++)
        RETURN_IF_FAILED(issue_capture(s, order->entries[i].list));
    CUDA_DO(cudaEventCreate(&clock.begin));
    CUDA_DO(cudaEventCreate(&clock.end));
    result->step_count = order->steps;
    result->step_seconds = memory_new_array((size_t)order->steps, sizeof(double));
    result->losses = memory_new_array((size_t)order->steps, sizeof(double));
    enum rh_status status = run_steps(s, order, feed, &clock, result);
    cudaEventDestroy(clock.begin);
    cudaEventDestroy(clock.end);
    RETURN_IF_FAILED(status);
    CUDA_DO(cudaStreamSynchronize(s->origin));
    RETURN_IF_FAILED(memory_look(s));
    RETURN_IF_FAILED(check_host_calls(s));
    RETURN_IF_FAILED(ranks_sum(s, result->step_seconds, order->steps, true));
    RETURN_IF_FAILED(read_losses(s, order->steps, result->losses));
    /* untraced there are no spans, and nobody knows how a step was spent */
    result_account(result, s->options.trace ? clock.step_start : 0,
                   s->options.trace ? clock.seconds : 0);
    return RH_OK;
}
