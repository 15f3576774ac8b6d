/* Flows: bytes that SimGrid moves over links that others may use too. The C API wants an actor at
 * each end, so a flow is two short-lived actors and a mailbox. */
#include <stdio.h>
#include <stdlib.h>

#include "backends/simgrid/sim.h"
#include "base/memory.h"

/* Several flows that somebody waits for. */
struct batch {
    struct sim_stream *stream;
    int left;
    bool done;
};

struct one_flow {
    struct batch *batch;
    sg_mailbox_t mailbox;
    double bytes, arrived;
};

static sg_host_t host_of(const struct sim *sim, int device, int channel)
{
    char name[64];
    sim_host_name(sim, device, channel, name);
    return sg_host_by_name(name);
}

static void spawn(const char *name, sg_host_t host, xbt_main_func_t code, void *data)
{
    sg_actor_t actor = sg_actor_init(name, host);
    sg_actor_set_data(actor, data);
    sg_actor_start_(actor, code, 0, NULL);
}

static void one_left(struct batch *batch)
{
    if (--batch->left > 0)
        return;
    batch->done = true;
    sg_sem_release(batch->stream->wake);
}

static void send_main(int argc, char **argv)
{
    struct one_flow *flow = sg_actor_self_get_data();
    (void)argc;
    (void)argv;
    sg_mailbox_put(flow->mailbox, flow, (long)flow->bytes);
}

static void receive_main(int argc, char **argv)
{
    struct one_flow *flow = sg_actor_self_get_data();
    (void)argc;
    (void)argv;
    sg_mailbox_get(flow->mailbox);
    flow->arrived = simgrid_get_clock();
    one_left(flow->batch);
}

static void wait_for(struct batch *batch)
{
    while (!batch->done)
        sg_sem_acquire(batch->stream->wake);
}

/* CM02 shares a link in inverse proportion to latency: so links have none, and it is paid after. */
static double route_latency(const struct sim *sim, const struct flow *flow)
{
    struct route route;
    bool known = !sim->session->options.cluster->native_path && flow->from != flow->to &&
                 cluster_route(sim->session->options.cluster, flow->from, flow->to, flow->channel,
                               &route) == RH_OK;
    return known ? route.latency_seconds : 0;
}

void stream_flows(struct sim_stream *s, struct flow *flows, int count)
{
    struct batch batch = {s, count, count == 0};
    struct one_flow *each = memory_new_array((size_t)count, sizeof *each);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "flow %p", (void *)&each[i]);
        each[i] = (struct one_flow){&batch, sg_mailbox_by_name(name), flows[i].bytes, 0};
        spawn("send", host_of(s->sim, flows[i].from, flows[i].channel), send_main, &each[i]);
        spawn("receive", host_of(s->sim, flows[i].to, flows[i].channel), receive_main, &each[i]);
    }
    wait_for(&batch);
    double end = simgrid_get_clock();
    for (int i = 0; i < count; i++) {
        flows[i].end_seconds = each[i].arrived + route_latency(s->sim, &flows[i]);
        end = flows[i].end_seconds > end ? flows[i].end_seconds : end;
    }
    sim_sleep_until(end);
    free(each);
}

/* One member of a ring that sends step after step and receives as many. */
struct ring_member {
    struct batch *batch;
    sg_mailbox_t mine, next;
    double bytes, extra_seconds;
    int steps;
};

static void ring_main(int argc, char **argv)
{
    struct ring_member *m = sg_actor_self_get_data();
    (void)argc;
    (void)argv;
    for (int step = 0; step < m->steps; step++) {
        sg_comm_t sent = sg_mailbox_put_async(m->next, m, (long)m->bytes);
        sg_mailbox_get(m->mine);
        sg_comm_wait(sent);
        if (m->extra_seconds > 0)
            sg_actor_sleep_for(m->extra_seconds);
    }
    one_left(m->batch);
}

void stream_ring_messages(struct sim_stream *s, struct communicator *c,
                          const struct collective_cost *cost)
{
    struct batch batch = {s, cost->flow_count, cost->flow_count == 0};
    struct ring_member *members = memory_new_array((size_t)cost->flow_count, sizeof *members);
    double extra = s->sim->session->options.cluster->native_path ? 0 : cost->step_latency_seconds;
    for (int i = 0; i < cost->flow_count; i++) {
        const struct collective_flow *flow = &cost->flows[i];
        char mine[64];
        char next[64];
        snprintf(mine, sizeof mine, "ring %p %d %d", (void *)members, flow->channel, flow->from);
        snprintf(next, sizeof next, "ring %p %d %d", (void *)members, flow->channel, flow->to);
        members[i] = (struct ring_member){&batch,
                                          sg_mailbox_by_name(mine),
                                          sg_mailbox_by_name(next),
                                          flow->bytes / cost->steps,
                                          extra,
                                          cost->steps};
        spawn("ring", host_of(s->sim, communicator_device(c, flow->from), flow->channel), ring_main,
              &members[i]);
    }
    wait_for(&batch);
    free(members);
}
