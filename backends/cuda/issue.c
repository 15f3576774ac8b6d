/* Issuing a list: the untimed engine calls the instructions in an order in which they may be
 * issued, and each goes to its stream. With launch graph the same calls are captured once a list
 * and replayed. */
#include <string.h>

#include "backends/cuda/ranks.h"
#include "backends/cuda/ready.h"
#include "backends/cuda/timeline.h"
#include "plan/untimed.h"

struct issuing {
    struct session *s;
    int list;
};

static const struct role *role_of(const struct session *s, int worker)
{
    return &s->plan->roles[s->workers[worker].role];
}

static cudaStream_t stream_of(const struct session *s, int worker, int stream)
{
    return s->workers[worker].streams[stream];
}

static enum rh_status compute(void *context, int worker, const struct instruction *in)
{
    struct issuing *i = context;
    if (!ranks_owns(i->s, worker))
        return RH_OK;
    return compute_launch(i->s, worker, i->list, in);
}

/* Between views of equal element count; at least one of them dense where the host takes part. */
static enum rh_status move(struct session *s, cudaStream_t stream, const char *name,
                           int from_worker, const struct view *from, int to_worker,
                           const struct view *to)
{
    const void *source = view_pointer(s, from_worker, from);
    void *target = view_pointer(s, to_worker, to);
    if (view_same_order(from, to)) {
        CUDA_DO(
            cudaMemcpyAsync(target, source, type_bytes(&from->type), cudaMemcpyDefault, stream));
        return RH_OK;
    }
    if (!shape_equal(&from->type.shape, &to->type.shape))
        return fail(RH_INVALID, "'%s': a strided copy between different shapes", name);
    view_copy_strided(stream, from, source, to, target);
    return RH_OK;
}

static enum rh_status copy(void *context, int worker, const struct instruction *in)
{
    struct issuing *i = context;
    if (!ranks_owns(i->s, worker))
        return RH_OK;
    const struct role *role = role_of(i->s, worker);
    return move(i->s, stream_of(i->s, worker, in->stream), in->name, worker,
                &role->views[in->copy.from], worker, &role->views[in->copy.to]);
}

static enum rh_status mark(void *context, int worker, const struct instruction *in)
{
    struct issuing *i = context;
    if (!ranks_owns(i->s, worker))
        return RH_OK;
    struct cuda_worker *w = &i->s->workers[worker];
    if (in->kind == INSTRUCTION_RECORD)
        CUDA_DO(cudaEventRecord(w->events[in->event], w->streams[in->stream]));
    if (in->kind == INSTRUCTION_WAIT)
        CUDA_DO(cudaStreamWaitEvent(w->streams[in->stream], w->events[in->event], 0));
    return RH_OK;
}

/* All of `streams` meet on the first of them, and go on together after what is queued there. */
static enum rh_status gather_streams(struct session *s, const cudaStream_t *streams, int count)
{
    for (int k = 1; k < count; k++) {
        if (streams[k] == streams[0])
            continue;
        CUDA_DO(cudaEventRecord(s->join, streams[k]));
        CUDA_DO(cudaStreamWaitEvent(streams[0], s->join, 0));
    }
    return RH_OK;
}

static enum rh_status release_streams(struct session *s, const cudaStream_t *streams, int count)
{
    CUDA_DO(cudaEventRecord(s->join, streams[0]));
    for (int k = 1; k < count; k++)
        if (streams[k] != streams[0])
            CUDA_DO(cudaStreamWaitEvent(streams[k], s->join, 0));
    return RH_OK;
}

/* The members' memory, in rank order. */
struct sides {
    char *send[KERNEL_MOST_MEMBERS], *receive[KERNEL_MOST_MEMBERS];
    size_t send_bytes, receive_bytes;
    enum dtype dtype;
};

static void find_sides(const struct session *s, const struct untimed_member *members, int count,
                       struct sides *sides)
{
    memset(sides, 0, sizeof *sides);
    for (int k = 0; k < count; k++) {
        const struct role *role = role_of(s, members[k].worker);
        const struct part *part = members[k].part;
        if (part->send >= 0) {
            const struct view *view = &role->views[part->send];
            sides->send[k] = view_pointer(s, members[k].worker, view);
            sides->send_bytes = type_bytes(&view->type);
            sides->dtype = view->type.dtype;
        }
        if (part->receive >= 0) {
            const struct view *view = &role->views[part->receive];
            sides->receive[k] = view_pointer(s, members[k].worker, view);
            sides->receive_bytes = type_bytes(&view->type);
        }
    }
}

static enum rh_status put(cudaStream_t stream, char *to, const char *from, size_t bytes)
{
    if (to && to != from)
        CUDA_DO(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
    return RH_OK;
}

static enum rh_status reduction(const struct instruction *in, cudaStream_t stream,
                                const struct sides *sides, int count, int root)
{
    struct member_table table = {.count = count};
    bool scatter = in->collect.kind == COLLECTIVE_REDUCE_SCATTER;
    if (sides->dtype != DTYPE_F32 && sides->dtype != DTYPE_TF32)
        return fail(RH_INVALID, "'%s': the cuda backend reduces fp32; this is %s", in->name,
                    dtype_name(sides->dtype));
    size_t piece = scatter ? sides->send_bytes / (size_t)count : sides->send_bytes;
    for (int part = 0; part < (scatter ? count : 1); part++) {
        for (int k = 0; k < count; k++) {
            bool takes =
                scatter ? k == part : in->collect.kind == COLLECTIVE_ALL_REDUCE || k == root;
            table.send[k] = (const float *)(void *)(sides->send[k] + (size_t)part * piece);
            table.receive[k] = takes ? (float *)(void *)sides->receive[k] : NULL;
        }
        kernel_reduce(stream, table, (int64_t)(piece / sizeof(float)),
                      (enum kernel_reduction)in->collect.reduce);
    }
    return RH_OK;
}

static enum rh_status run_collective(const struct instruction *in, cudaStream_t stream,
                                     const struct sides *sides, int count, int root)
{
    switch (in->collect.kind) {
    case COLLECTIVE_BROADCAST:
        for (int k = 0; k < count; k++)
            RETURN_IF_FAILED(put(stream, sides->receive[k], sides->send[root], sides->send_bytes));
        return RH_OK;
    case COLLECTIVE_ALL_GATHER:
        for (int k = 0; k < count; k++)
            for (int j = 0; j < count; j++)
                RETURN_IF_FAILED(put(stream, sides->receive[k] + (size_t)j * sides->send_bytes,
                                     sides->send[j], sides->send_bytes));
        return RH_OK;
    case COLLECTIVE_ALL_TO_ALL:
        for (int k = 0; k < count; k++)
            for (int j = 0; j < count; j++) {
                size_t piece = sides->send_bytes / (size_t)count;
                if (sides->send[k] == sides->receive[k])
                    return fail(RH_INVALID, "'%s': an all-to-all in place", in->name);
                RETURN_IF_FAILED(put(stream, sides->receive[k] + (size_t)j * piece,
                                     sides->send[j] + (size_t)k * piece, piece));
            }
        return RH_OK;
    default: return reduction(in, stream, sides, count, root);
    }
}

static enum rh_status collect(void *context, const struct untimed_member *members, int count,
                              int root)
{
    struct issuing *i = context;
    struct session *s = i->s;
    cudaStream_t streams[KERNEL_MOST_MEMBERS] = {NULL};
    struct sides sides;
    if (s->ranks)
        return ranks_collect(s, members, count, root);
    if (count > KERNEL_MOST_MEMBERS)
        return fail(RH_INVALID, "'%s': %d members share the GPU; at most %d can",
                    members[0].instruction->name, count, KERNEL_MOST_MEMBERS);
    for (int k = 0; k < count; k++)
        streams[k] = stream_of(s, members[k].worker, members[k].part->stream);
    find_sides(s, members, count, &sides);
    RETURN_IF_FAILED(gather_streams(s, streams, count));
    RETURN_IF_FAILED(run_collective(members[0].instruction, streams[0], &sides, count, root));
    return release_streams(s, streams, count);
}

static enum rh_status transfer(void *context, const struct untimed_end *from,
                               const struct untimed_end *to)
{
    struct issuing *i = context;
    struct session *s = i->s;
    bool own = from->worker == to->worker && ranks_owns(s, to->worker); /* to itself */
    if (s->ranks && !own)
        return ranks_transfer(s, from, to);
    const cudaStream_t streams[2] = {stream_of(s, to->worker, to->stream),
                                     stream_of(s, from->worker, from->stream)};
    RETURN_IF_FAILED(gather_streams(s, streams, 2));
    RETURN_IF_FAILED(move(s, streams[0], "message", from->worker,
                          &role_of(s, from->worker)->views[from->view], to->worker,
                          &role_of(s, to->worker)->views[to->view]));
    return release_streams(s, streams, 2);
}

/* All streams fork from the origin and join it: a list begins and ends as one. */
static enum rh_status issue_instructions(struct session *s, int list)
{
    struct issuing issuing = {s, list};
    const struct untimed_hooks issue = {.context = &issuing,
                                        .compute = compute,
                                        .copy = copy,
                                        .mark = mark,
                                        .collect = collect,
                                        .transfer = transfer};
    struct untimed_hooks hooks = timeline_wrap(s, list, &issue);
    CUDA_DO(cudaEventRecord(s->fork, s->origin));
    for (int w = 0; w < s->worker_count; w++)
        for (int k = 0; ranks_owns(s, w) && k < role_of(s, w)->stream_count; k++)
            CUDA_DO(cudaStreamWaitEvent(stream_of(s, w, k), s->fork, 0));
    RETURN_IF_FAILED(untimed_run(s->plan, &s->plan->mesh, list, &hooks));
    for (int w = 0; w < s->worker_count; w++)
        for (int k = 0; ranks_owns(s, w) && k < role_of(s, w)->stream_count; k++) {
            CUDA_DO(cudaEventRecord(s->join, stream_of(s, w, k)));
            CUDA_DO(cudaStreamWaitEvent(s->origin, s->join, 0));
        }
    return RH_OK;
}

enum rh_status issue_capture(struct session *s, int list)
{
    cudaGraph_t graph = NULL;
    if (s->options.launch == LAUNCH_EAGER || s->graphs[list])
        return RH_OK;
    CUDA_DO(cudaStreamBeginCapture(s->origin, cudaStreamCaptureModeThreadLocal));
    enum rh_status status = issue_instructions(s, list);
    cudaError_t error = cudaStreamEndCapture(s->origin, &graph);
    RETURN_IF_FAILED(status);
    if (error != cudaSuccess)
        return cuda_failed("capturing the list", error);
    CUDA_DO(cudaGraphInstantiate(&s->graphs[list], graph, 0));
    CUDA_DO(cudaGraphDestroy(graph));
    return RH_OK;
}

enum rh_status issue_list(struct session *s, int list)
{
    if (s->options.launch == LAUNCH_EAGER)
        return issue_instructions(s, list);
    CUDA_DO(cudaGraphLaunch(s->graphs[list], s->origin));
    return RH_OK;
}
