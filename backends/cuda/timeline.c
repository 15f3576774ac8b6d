#include "backends/cuda/timeline.h"

#include <stdlib.h>
#include <string.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else /* without the header there are no ranges; configure says so */
typedef unsigned long nvtxRangeId_t;
static nvtxRangeId_t nvtxRangeStartA(const char *name)
{
    (void)name;
    return 0;
}
static void nvtxRangeEnd(nvtxRangeId_t range)
{
    (void)range;
}
#endif

#include "backends/cuda/ranks.h"
#include "backends/spans.h"
#include "base/memory.h"

/* Around one span. */
struct edge {
    cudaEvent_t begin, end; /* traced, and the worker is this process's; else NULL */
    nvtxRangeId_t range;    /* with launch eager, while it is open */
};

struct timeline {
    struct planned_spans *spans; /* per list */
    struct edge **edges;         /* per list and span */
    int lists;
    bool eager;
    /* the list that is being issued: */
    struct session *session;
    const struct untimed_hooks *inner;
    struct span_walk walk;
    int list;
};

static bool capturing(const struct session *s)
{
    return s->options.launch == LAUNCH_GRAPH;
}

static enum rh_status record(struct timeline *t, cudaEvent_t event, const struct planned_span *item)
{
    struct session *s = t->session;
    if (event)
        CUDA_DO(cudaEventRecordWithFlags(event, s->workers[item->worker].streams[item->stream],
                                         capturing(s) ? cudaEventRecordExternal
                                                      : cudaEventRecordDefault));
    return RH_OK;
}

static enum rh_status begin(struct timeline *t, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        const struct planned_span *item = &t->spans[t->list].items[i];
        struct edge *edge = &t->edges[t->list][i];
        if (!ranks_owns(t->session, item->worker))
            continue;
        if (t->eager)
            edge->range = nvtxRangeStartA(item->span.name);
        RETURN_IF_FAILED(record(t, edge->begin, item));
    }
    return RH_OK;
}

static enum rh_status end(struct timeline *t, int first, int count)
{
    for (int i = first; i < first + count; i++) {
        const struct planned_span *item = &t->spans[t->list].items[i];
        struct edge *edge = &t->edges[t->list][i];
        if (!ranks_owns(t->session, item->worker))
            continue;
        if (t->eager)
            nvtxRangeEnd(edge->range);
        RETURN_IF_FAILED(record(t, edge->end, item));
    }
    return RH_OK;
}

static enum rh_status compute(void *context, int worker, const struct instruction *in)
{
    struct timeline *t = context;
    int span = span_walk_take(&t->walk, 1);
    RETURN_IF_FAILED(begin(t, span, 1));
    RETURN_IF_FAILED(t->inner->compute(t->inner->context, worker, in));
    return end(t, span, 1);
}

static enum rh_status copy(void *context, int worker, const struct instruction *in)
{
    struct timeline *t = context;
    int span = span_walk_take(&t->walk, 1);
    RETURN_IF_FAILED(begin(t, span, 1));
    RETURN_IF_FAILED(t->inner->copy(t->inner->context, worker, in));
    return end(t, span, 1);
}

static enum rh_status mark(void *context, int worker, const struct instruction *in)
{
    struct timeline *t = context;
    if (in->kind == INSTRUCTION_BEGIN)
        return begin(t, span_walk_begin(&t->walk), 1);
    if (in->kind == INSTRUCTION_END) {
        int span = span_walk_end(&t->walk, worker, in->stream);
        return span < 0 ? RH_OK : end(t, span, 1);
    }
    return t->inner->mark(t->inner->context, worker, in);
}

static enum rh_status collect(void *context, const struct untimed_member *members, int count,
                              int root)
{
    struct timeline *t = context;
    int first = span_walk_take(&t->walk, count);
    RETURN_IF_FAILED(begin(t, first, count));
    RETURN_IF_FAILED(t->inner->collect(t->inner->context, members, count, root));
    return end(t, first, count);
}

static enum rh_status transfer(void *context, const struct untimed_end *from,
                               const struct untimed_end *to)
{
    struct timeline *t = context;
    int first = span_walk_take(&t->walk, 2);
    RETURN_IF_FAILED(begin(t, first, 2));
    RETURN_IF_FAILED(t->inner->transfer(t->inner->context, from, to));
    return end(t, first, 2);
}

struct untimed_hooks timeline_wrap(struct session *s, int list, const struct untimed_hooks *inner)
{
    struct timeline *t = s->timeline;
    if (!t)
        return *inner;
    t->inner = inner;
    t->list = list;
    span_walk_start(&t->walk, &t->spans[list]);
    return (struct untimed_hooks){.context = t,
                                  .compute = compute,
                                  .copy = copy,
                                  .mark = mark,
                                  .collect = collect,
                                  .transfer = transfer};
}

static enum rh_status make_events(struct timeline *t, int list)
{
    for (int i = 0; i < t->spans[list].count; i++) {
        if (!ranks_owns(t->session, t->spans[list].items[i].worker))
            continue;
        CUDA_DO(cudaEventCreate(&t->edges[list][i].begin));
        CUDA_DO(cudaEventCreate(&t->edges[list][i].end));
    }
    return RH_OK;
}

enum rh_status timeline_make(struct session *s)
{
    bool eager = s->options.launch == LAUNCH_EAGER;
    if (!eager && !s->options.trace)
        return RH_OK;
    struct timeline *t = s->timeline = memory_new(sizeof *t);
    t->session = s;
    t->eager = eager;
    t->lists = s->plan->roles[0].list_count;
    t->spans = memory_new_array((size_t)t->lists + 1, sizeof *t->spans);
    t->edges = memory_new_array((size_t)t->lists + 1, sizeof *t->edges);
    for (int l = 0; l < t->lists; l++) {
        RETURN_IF_FAILED(spans_plan(s->plan, &s->options, l, &t->spans[l]));
        t->edges[l] = memory_new_array((size_t)t->spans[l].count + 1, sizeof **t->edges);
        if (s->options.trace)
            RETURN_IF_FAILED(make_events(t, l));
    }
    return RH_OK;
}

void timeline_drop(struct session *s)
{
    struct timeline *t = s->timeline;
    if (!t)
        return;
    for (int l = 0; l < t->lists; l++) {
        for (int i = 0; t->edges[l] && i < t->spans[l].count; i++) {
            if (t->edges[l][i].begin)
                cudaEventDestroy(t->edges[l][i].begin);
            if (t->edges[l][i].end)
                cudaEventDestroy(t->edges[l][i].end);
        }
        free(t->edges[l]);
        spans_free(&t->spans[l]);
    }
    span_walk_free(&t->walk);
    free(t->spans);
    free(t->edges);
    free(t);
    s->timeline = NULL;
}

/* Pairs of seconds since `since`; zeros for spans of other ranks, which the sum fills in. */
static enum rh_status measure(const struct timeline *t, int list, cudaEvent_t since,
                              double *seconds)
{
    for (int i = 0; i < t->spans[list].count; i++) {
        const struct edge *edge = &t->edges[list][i];
        float milliseconds[2] = {0, 0};
        if (!edge->begin)
            continue;
        CUDA_DO(cudaEventElapsedTime(&milliseconds[0], since, edge->begin));
        CUDA_DO(cudaEventElapsedTime(&milliseconds[1], since, edge->end));
        seconds[2 * i] = (double)milliseconds[0] * 1e-3;
        seconds[2 * i + 1] = (double)milliseconds[1] * 1e-3;
    }
    return RH_OK;
}

/* Those that meet start with the last, as in the simulator. Ranks have clocks of their own, each
 * from its own beginning of the list, so that theirs are not compared. */
static double start_of(const struct timeline *t, const struct planned_span *item, int index,
                       const double *seconds)
{
    double start = seconds[2 * index];
    for (int i = item->first; !t->session->ranks && i < item->first + item->count; i++)
        start = seconds[2 * i] > start ? seconds[2 * i] : start;
    return start < seconds[2 * index + 1] ? start : seconds[2 * index + 1];
}

enum rh_status timeline_read(struct session *s, int list, int step, double offset_seconds,
                             cudaEvent_t since, struct result *result)
{
    const struct timeline *t = s->timeline;
    if (!t || !s->options.trace)
        return RH_OK;
    int count = t->spans[list].count;
    double *seconds = memory_new_array((size_t)count * 2 + 1, sizeof *seconds);
    enum rh_status status = measure(t, list, since, seconds);
    if (status == RH_OK)
        status = ranks_sum(s, seconds, 2 * count, false);
    for (int i = 0; i < count && status == RH_OK; i++) {
        const struct planned_span *item = &t->spans[list].items[i];
        struct span *span = ARRAY_ADD(result->spans, result->span_count, result->span_capacity);
        *span = item->span;
        span->step = step;
        span->start_seconds = offset_seconds + start_of(t, item, i, seconds);
        span->end_seconds = offset_seconds + seconds[2 * i + 1];
    }
    free(seconds);
    return status;
}
