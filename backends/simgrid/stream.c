#include <stdlib.h>
#include <string.h>

#include "backends/simgrid/sim.h"
#include "base/memory.h"

void sim_fail(struct sim *sim, enum rh_status status)
{
    if (sim->status != RH_OK)
        return;
    sim->status = status;
    strncpy(sim->error, fail_message(), sizeof sim->error - 1);
}

void sim_sleep_until(double seconds)
{
    double now = simgrid_get_clock();
    if (seconds > now)
        sg_actor_sleep_for(seconds - now);
}

/* Spans of the last simulated step feed the accounting; a trace keeps all. */
bool sim_counts(const struct sim *sim, const struct sim_worker *w)
{
    return sim->executions[w->execution].step == sim->steps - 1;
}

void sim_add_span(struct sim *sim, struct sim_stream *s, const char *name, enum work work,
                  int microbatch, double start, double end, bool communication, bool mark)
{
    const struct plan *plan = sim->session->plan;
    bool trace = sim->session->options.trace;
    const char *stream = plan->roles[s->worker->role].streams[s->stream].name;
    struct span *last = sim->span_count ? &sim->spans[sim->span_count - 1] : NULL;
    if (!(trace || sim_counts(sim, s->worker)) || (mark && !trace) || end < start)
        return;
    bool continues = !trace && last && last->device == s->device && last->stream == stream &&
                     last->work == work && last->communication == communication &&
                     last->end_seconds == start;
    if (continues) {
        last->end_seconds = end;
        return;
    }
    *ARRAY_ADD(sim->spans, sim->span_count, sim->span_capacity) =
        (struct span){.device = s->device,
                      .stream = stream,
                      .name = name,
                      .work = work,
                      .step = sim->executions[s->worker->execution].step,
                      .microbatch = microbatch,
                      .start_seconds = start,
                      .end_seconds = end,
                      .communication = communication,
                      .mark = mark};
}

/* Executes what was added up on the shared device, and gives every piece its part of the time. */
void stream_flush(struct sim_stream *s)
{
    if (s->piece_count == 0)
        return;
    sim_sleep_until(s->pending_start);
    sg_actor_execute(s->pending_seconds);
    double end = simgrid_get_clock();
    double factor = s->pending_seconds > 0 ? (end - s->pending_start) / s->pending_seconds : 1;
    double at = s->pending_start;
    for (int i = 0; i < s->piece_count; i++) {
        const struct piece *p = &s->pieces[i];
        double next = i + 1 < s->piece_count ? at + p->seconds * factor : end;
        sim_add_span(s->sim, s, p->name, p->work, p->microbatch, at, next, false, false);
        at = next;
    }
    s->piece_count = 0;
    s->pending_seconds = 0;
    s->clock = end;
}

static void wake_all(struct sim_worker *w)
{
    for (int i = 0; i < w->stream_count; i++)
        sg_sem_release(w->streams[i].wake);
}

static double wait_issued(struct sim_stream *s, int index)
{
    while (s->worker->issue[index] < 0)
        sg_sem_acquire(s->wake);
    return s->worker->issue[index];
}

/* What a node of a graph costs on the device before its work begins. */
static double node_seconds(const struct sim_stream *s, const struct compiled *c)
{
    const struct role *role = &s->sim->session->plan->roles[s->worker->role];
    return s->sim->session->options.launch == LAUNCH_GRAPH
               ? c->models[role->streams[s->stream].device]->graph_node_seconds
               : 0;
}

static void compute(struct sim_stream *s, const struct compiled *c, int index,
                    const struct instruction *in)
{
    const struct role *role = &s->sim->session->plan->roles[s->worker->role];
    const struct session *session = s->sim->session;
    double issued = wait_issued(s, index);
    double seconds = c->seconds[index] + node_seconds(s, c);
    bool on_host = role->streams[s->stream].device == role->gpus;
    if (c->exec[index]) {
        if (issued > s->pending_start + s->pending_seconds)
            stream_flush(s); /* the stream idles for want of a launch */
        if (s->piece_count == 0)
            s->pending_start = s->clock = s->clock > issued ? s->clock : issued;
        *ARRAY_ADD(s->pieces, s->piece_count, s->piece_capacity) =
            (struct piece){in->name, in->work, in->microbatch, seconds};
        s->pending_seconds += seconds;
        if (session->options.trace)
            stream_flush(s);
    } else {
        stream_flush(s);
        double start = s->clock > issued ? s->clock : issued;
        s->clock = start + seconds;
        sim_add_span(s->sim, s, in->name, in->work, in->microbatch, start, s->clock, false, false);
    }
    if (!on_host || session->options.launch == LAUNCH_GRAPH)
        return;
    stream_flush(s);
    s->worker->host_clock = s->clock;
    s->worker->issue_next = index + 1;
    issue_advance(s->worker);
    wake_all(s->worker);
}

void sim_count_route(struct sim *sim, struct sim_stream *s, int from, int to, double bytes)
{
    struct route route;
    if (!sim_counts(sim, s->worker) || sim->session->options.cluster->native_path ||
        cluster_route(sim->session->options.cluster, from, to, 0, &route) != RH_OK)
        return;
    int copies = sim->session->workers / sim->session->simulated; /* folded nodes do the same */
    for (int k = 0; k < route.count; k++)
        sim->link_class_bytes[cluster_link(sim->session->options.cluster, route.links[k])->class] +=
            bytes * copies;
}

static void copy(struct sim_stream *s, const struct compiled *c, int index,
                 const struct instruction *in)
{
    struct sim *sim = s->sim;
    const struct session *session = sim->session;
    const struct role *role = &session->plan->roles[s->worker->role];
    const struct view *view = &role->views[in->copy.from];
    int lists = session->plan->roles[0].list_count;
    int from = session_device(session, s->worker->worker, role->buffers[view->buffer].device);
    int to = session_device(session, s->worker->worker,
                            role->buffers[role->views[in->copy.to].buffer].device);
    double bytes = (double)type_bytes(&view->type);
    double issued = wait_issued(s, index);
    stream_flush(s);
    double start = (s->clock > issued ? s->clock : issued) + node_seconds(s, c);
    if (from == to) {
        s->clock = start + c->seconds[index];
        sim_add_span(sim, s, in->name, in->work, in->microbatch, start, s->clock, false, false);
        return;
    }
    double seconds = 0;
    double latency = 0;
    bool native = session->options.cluster->native_path != NULL;
    if (!native &&
        transfer_price(session->options.cluster, from, to, bytes, &seconds, &latency) != RH_OK)
        sim_fail(sim, RH_FAILED);
    if (session->exclusive[s->worker->worker * lists + s->worker->issue_list][index]) {
        s->clock = start + seconds;
    } else {
        struct flow flow = {from, to, 0, bytes, 0};
        double start_up = cluster_device_model(session->options.cluster, from)->copy_seconds;
        sim_sleep_until(start + start_up);
        stream_flows(s, &flow, 1);
        s->clock = simgrid_get_clock();
    }
    sim_count_route(sim, s, from, to, bytes);
    sim_add_span(sim, s, in->name, in->work, in->microbatch, start, s->clock, true, false);
}

static void record(struct sim_stream *s, int index, const struct instruction *in)
{
    double issued = wait_issued(s, index);
    stream_flush(s);
    if (s->clock < issued)
        s->clock = issued;
    s->worker->events[in->event] = (struct sim_event){s->worker->execution, s->clock};
    issue_advance(s->worker);
    wake_all(s->worker);
}

static void wait_event(struct sim_stream *s, int index, const struct instruction *in)
{
    const struct sim_event *event = &s->worker->events[in->event];
    double issued = wait_issued(s, index);
    if (event->execution != s->worker->execution)
        stream_flush(s);
    while (event->execution != s->worker->execution)
        sg_sem_acquire(s->wake);
    if (s->piece_count > 0 && event->seconds <= s->pending_start &&
        issued <= s->pending_start + s->pending_seconds)
        return; /* the event is past: what is added up goes on */
    stream_flush(s);
    s->clock = issued > s->clock ? issued : s->clock;
    s->clock = event->seconds > s->clock ? event->seconds : s->clock;
}

/* Named ranges take no time; a trace wants their edges. */
static void mark(struct sim_stream *s, const struct instruction *in)
{
    if (!s->sim->session->options.trace)
        return;
    stream_flush(s);
    if (in->kind == INSTRUCTION_BEGIN) {
        *ARRAY_ADD(s->marks, s->mark_count, s->mark_capacity) = s->clock;
        return;
    }
    if (s->mark_count > 0)
        sim_add_span(s->sim, s, in->name, in->work, in->microbatch, s->marks[--s->mark_count],
                     s->clock, false, true);
}

static void process(struct sim_stream *s, const struct compiled *c, int index)
{
    const struct plan *plan = s->sim->session->plan;
    const struct instruction *in =
        &plan->roles[s->worker->role].lists[s->worker->issue_list].instructions[index];
    s->at = in->name;
    switch (in->kind) {
    case INSTRUCTION_COMPUTE: compute(s, c, index, in); break;
    case INSTRUCTION_COPY: copy(s, c, index, in); break;
    case INSTRUCTION_COLLECT:
    case INSTRUCTION_EXCHANGE: {
        double issued = wait_issued(s, index);
        stream_flush(s);
        s->clock = (issued > s->clock ? issued : s->clock) + node_seconds(s, c);
        if (in->kind == INSTRUCTION_COLLECT)
            stream_collect(s, index, in);
        else
            stream_exchange(s, index, in);
        break;
    }
    case INSTRUCTION_RECORD: record(s, index, in); break;
    case INSTRUCTION_WAIT: wait_event(s, index, in); break;
    case INSTRUCTION_BEGIN:
    case INSTRUCTION_END: mark(s, in); break;
    case INSTRUCTION_SYNC: break; /* the host's */
    }
}

static void finish_execution(struct sim_worker *w)
{
    struct sim *sim = w->sim;
    const struct execution *e = &sim->executions[w->execution];
    double end = w->join_seconds;
    if (e->ends_step) {
        w->step_end[1] = w->step_end[0];
        w->step_end[0] = end;
        if (end > sim->step_end[e->step])
            sim->step_end[e->step] = end;
    }
    w->execution++;
    w->joined = 0;
    if (w->execution < sim->execution_count)
        issue_begin(w, w->step_end[1]);
    wake_all(w);
}

/* A list ends with all the worker's streams joined. */
static void join(struct sim_stream *s)
{
    struct sim_worker *w = s->worker;
    int execution = w->execution;
    stream_flush(s);
    s->at = "the end of the list";
    if (w->joined++ == 0 || s->clock > w->join_seconds)
        w->join_seconds = s->clock;
    if (w->joined == w->stream_count)
        finish_execution(w);
    while (w->execution == execution)
        sg_sem_acquire(s->wake);
    s->clock = w->join_seconds > s->clock ? w->join_seconds : s->clock;
}

static void stream_main(int argc, char **argv)
{
    struct sim_stream *s = sg_actor_self_get_data();
    (void)argc;
    (void)argv;
    for (int e = 0; e < s->sim->execution_count; e++) {
        const struct compiled *c =
            session_compiled(s->sim->session, s->worker->worker, s->sim->executions[e].list);
        for (int k = 0; k < c->queues.count[s->stream]; k++)
            process(s, c, c->queues.items[s->stream][k]);
        join(s);
    }
    s->finished = true;
    s->sim->unfinished--;
}

void sim_start_actors(struct sim *sim)
{
    for (int w = 0; w < sim->session->simulated; w++)
        issue_begin(&sim->workers[w], 0);
    for (int w = 0; w < sim->session->simulated; w++)
        for (int i = 0; i < sim->workers[w].stream_count; i++) {
            struct sim_stream *s = &sim->workers[w].streams[i];
            sg_actor_t actor = sg_actor_init("stream", sim->hosts[s->device]);
            sg_actor_set_data(actor, s);
            sg_actor_start_(actor, stream_main, 0, NULL);
            sim->unfinished++;
        }
}
