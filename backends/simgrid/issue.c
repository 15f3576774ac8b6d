/* The worker's host thread: it issues the list in order and hardly ever waits, so it is arithmetic.
 * It stops at a sync, and in eager mode at a computation of its own, and goes on when that has
 * ended. */
#include "backends/simgrid/sim.h"

static const struct list *list_of(const struct sim_worker *w)
{
    return &w->sim->session->plan->roles[w->role].lists[w->issue_list];
}

static const struct device_model *first_model(const struct sim_worker *w)
{
    return session_compiled(w->sim->session, w->worker, w->issue_list)->models[0];
}

static bool is_graph(const struct sim_worker *w)
{
    return w->sim->session->options.launch == LAUNCH_GRAPH;
}

static bool occupies_host(const struct sim_worker *w, const struct instruction *in)
{
    const struct role *role = &w->sim->session->plan->roles[w->role];
    return !is_graph(w) && in->kind == INSTRUCTION_COMPUTE &&
           role->streams[in->stream].device == role->gpus;
}

void issue_begin(struct sim_worker *w, double not_before)
{
    w->issue_list = w->sim->executions[w->execution].list;
    w->issue_next = 0;
    if (w->host_clock < not_before)
        w->host_clock = not_before;
    if (is_graph(w))
        w->host_clock += first_model(w)->graph_launch_seconds;
    for (int i = 0; i < list_of(w)->count; i++)
        w->issue[i] = -1;
    issue_advance(w);
}

void issue_advance(struct sim_worker *w)
{
    const struct list *list = list_of(w);
    const double *cost = session_compiled(w->sim->session, w->worker, w->issue_list)->issue;
    while (w->issue_next < list->count) {
        int i = w->issue_next;
        const struct instruction *in = &list->instructions[i];
        if (in->kind == INSTRUCTION_SYNC) {
            const struct sim_event *event = &w->events[in->event];
            if (event->execution != w->execution)
                return;
            if (event->seconds > w->host_clock)
                w->host_clock = event->seconds;
            if (is_graph(w))
                w->host_clock += first_model(w)->graph_launch_seconds;
        } else if (!is_graph(w)) {
            w->host_clock += cost[i];
        }
        if (w->issue[i] < 0)
            w->issue[i] = w->host_clock;
        if (occupies_host(w, in))
            return; /* the host's stream moves host_clock and issue_next when it has ended */
        w->issue_next++;
    }
}
