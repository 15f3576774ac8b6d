#include "backends/spans.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

struct planning {
    const struct plan *plan;
    const struct backend_options *options;
    int list;
    struct planned_spans *spans;
    struct span_walk walk; /* for the ranges that are open */
};

int spans_device(const struct plan *plan, const struct backend_options *options, int worker,
                 int local)
{
    int gpus = plan->roles[plan_role_of(plan, worker)].gpus;
    const int *devices = &options->devices[worker * gpus];
    if (local < gpus)
        return devices[local];
    return cluster_host_device(options->cluster, cluster_device_node(options->cluster, devices[0]));
}

static const struct role *role_of(const struct planning *p, int worker)
{
    return &p->plan->roles[plan_role_of(p->plan, worker)];
}

static struct planned_span *add(struct planning *p, int worker, int stream, const char *name,
                                enum work work, int microbatch)
{
    const struct stream *s = &role_of(p, worker)->streams[stream];
    struct planned_span *item = ARRAY_ADD(p->spans->items, p->spans->count, p->spans->capacity);
    *item = (struct planned_span){
        .span = {.device = spans_device(p->plan, p->options, worker, s->device),
                 .stream = s->name,
                 .name = name,
                 .work = work,
                 .microbatch = microbatch},
        .worker = worker,
        .stream = stream,
        .view = -1,
        .first = p->spans->count - 1,
        .count = 1};
    return item;
}

static struct planned_span *add_instruction(struct planning *p, int worker,
                                            const struct instruction *in, int stream)
{
    return add(p, worker, stream, in->name, in->work, in->microbatch);
}

static enum rh_status compute(void *context, int worker, const struct instruction *in)
{
    add_instruction(context, worker, in, in->stream);
    return RH_OK;
}

/* Within a device it is work like any other; between two it is communication. */
static enum rh_status copy(void *context, int worker, const struct instruction *in)
{
    struct planning *p = context;
    const struct role *role = role_of(p, worker);
    int from = role->buffers[role->views[in->copy.from].buffer].device;
    int to = role->buffers[role->views[in->copy.to].buffer].device;
    add_instruction(p, worker, in, in->stream)->span.communication = from != to;
    return RH_OK;
}

/* A range is known by its end: there the writer's work and microbatch are those of what it held. */
static enum rh_status mark(void *context, int worker, const struct instruction *in)
{
    struct planning *p = context;
    if (in->kind == INSTRUCTION_BEGIN) {
        p->walk.next = p->spans->count;
        add_instruction(p, worker, in, in->stream)->span.mark = true;
        span_walk_begin(&p->walk);
    }
    int range = in->kind == INSTRUCTION_END ? span_walk_end(&p->walk, worker, in->stream) : -1;
    if (range >= 0) {
        struct span *span = &p->spans->items[range].span;
        span->name = in->name;
        span->work = in->work;
        span->microbatch = in->microbatch;
    }
    return RH_OK;
}

static enum rh_status collect(void *context, const struct untimed_member *members, int count,
                              int root)
{
    struct planning *p = context;
    int first = p->spans->count;
    (void)root;
    for (int k = 0; k < count; k++) {
        struct planned_span *item =
            add_instruction(p, members[k].worker, members[k].instruction, members[k].part->stream);
        item->span.communication = true;
        item->first = first;
        item->count = count;
    }
    return RH_OK;
}

/* The engine names a message by its view alone. Messages of one view and stream happen in the
 * list's order, so that the one after `before` such is meant. */
static const char *message_name(const struct planning *p, const struct untimed_end *end, int before)
{
    const struct role *role = role_of(p, end->worker);
    const struct list *list = &role->lists[p->list];
    for (int i = 0; i < list->count; i++) {
        const struct instruction *in = &list->instructions[i];
        for (int k = 0; in->kind == INSTRUCTION_EXCHANGE && k < in->exchange.message_count; k++) {
            const struct message *m = &role->messages[in->exchange.message_first + k];
            if (m->view == end->view && m->stream == end->stream && before-- == 0)
                return m->name;
        }
    }
    assert(!"a message that no exchange of the list holds");
    return "message";
}

static void add_end(struct planning *p, const struct untimed_end *end, int first)
{
    int before = 0;
    for (int i = 0; i < p->spans->count; i++) {
        const struct planned_span *other = &p->spans->items[i];
        before += other->worker == end->worker && other->stream == end->stream &&
                  other->view == end->view;
    }
    struct planned_span *item =
        add(p, end->worker, end->stream, message_name(p, end, before), WORK_COMMUNICATION, -1);
    item->span.communication = true;
    item->view = end->view;
    item->first = first;
    item->count = 2;
}

static enum rh_status transfer(void *context, const struct untimed_end *from,
                               const struct untimed_end *to)
{
    struct planning *p = context;
    int first = p->spans->count;
    add_end(p, from, first);
    add_end(p, to, first);
    return RH_OK;
}

enum rh_status spans_plan(const struct plan *plan, const struct backend_options *options, int list,
                          struct planned_spans *spans)
{
    struct planning planning = {.plan = plan, .options = options, .list = list, .spans = spans};
    const struct untimed_hooks hooks = {.context = &planning,
                                        .compute = compute,
                                        .copy = copy,
                                        .mark = mark,
                                        .collect = collect,
                                        .transfer = transfer};
    *spans = (struct planned_spans){0};
    span_walk_start(&planning.walk, spans);
    enum rh_status status = untimed_run(plan, &plan->mesh, list, &hooks);
    span_walk_free(&planning.walk);
    if (status != RH_OK)
        spans_free(spans);
    return status;
}

void spans_free(struct planned_spans *spans)
{
    free(spans->items);
    *spans = (struct planned_spans){0};
}

void span_walk_start(struct span_walk *walk, const struct planned_spans *spans)
{
    walk->spans = spans;
    walk->next = 0;
    walk->open_count = 0;
}

int span_walk_take(struct span_walk *walk, int count)
{
    int first = walk->next;
    walk->next += count;
    assert(walk->next <= walk->spans->count);
    return first;
}

int span_walk_begin(struct span_walk *walk)
{
    int range = span_walk_take(walk, 1);
    *ARRAY_ADD(walk->open, walk->open_count, walk->open_capacity) = range;
    return range;
}

int span_walk_end(struct span_walk *walk, int worker, int stream)
{
    for (int i = walk->open_count - 1; i >= 0; i--) {
        int range = walk->open[i];
        const struct planned_span *item = &walk->spans->items[range];
        if (item->worker != worker || item->stream != stream)
            continue;
        for (int k = i + 1; k < walk->open_count; k++)
            walk->open[k - 1] = walk->open[k];
        walk->open_count--;
        return range;
    }
    return -1;
}

void span_walk_free(struct span_walk *walk)
{
    free(walk->open);
    *walk = (struct span_walk){0};
}
