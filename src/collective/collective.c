#include "collective/collective.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "collective/communicator.h"
#include "collective/tuning.h"

const char *collective_name(enum collective_kind kind)
{
    static const char *const names[] = {"all_reduce", "reduce",         "broadcast",
                                        "all_gather", "reduce_scatter", "all_to_all"};
    return names[kind];
}

static void read_members(struct communicator *c)
{
    c->compute_capability = 1000;
    for (int i = 0; i < c->count; i++) {
        const struct device_model *model = cluster_device_model(c->cluster, c->devices[i]);
        if (model->compute_capability < c->compute_capability)
            c->compute_capability = model->compute_capability;
    }
    int node = cluster_device_node(c->cluster, c->devices[0]);
    const struct device_model *host =
        cluster_device_model(c->cluster, cluster_host_device(c->cluster, node));
    c->amd_host = strncmp(host->name, "epyc", 4) == 0;
}

enum rh_status communicator_new(struct cluster *cluster, const int *devices, int count,
                                struct communicator **out)
{
    struct communicator *c = memory_new(sizeof *c);
    c->cluster = cluster;
    c->count = count;
    c->devices = memory_new_array((size_t)count, sizeof *c->devices);
    memcpy(c->devices, devices, (size_t)count * sizeof *devices);
    read_members(c);
    enum rh_status status = rings_find(c);
    if (status != RH_OK) {
        communicator_free(c);
        c = NULL;
    }
    *out = c;
    return status;
}

void communicator_free(struct communicator *c)
{
    for (int i = 0; i < c->priced_count; i++)
        free(c->priced[i].flows);
    free(c->priced);
    free(c->devices);
    free(c->next);
    free(c);
}

int communicator_channels(const struct communicator *c)
{
    return c->channels;
}

int communicator_device(const struct communicator *c, int member)
{
    return c->devices[member];
}

int communicator_next(const struct communicator *c, int channel, int member)
{
    return c->next[channel * c->count + member];
}

/* Share of the call's bytes that crosses one edge of a ring, over all channels. */
static double edge_share(enum collective_kind kind, int members)
{
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE: return 2.0 * (members - 1) / members;
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE: return 1;
    default: return (double)(members - 1) / members;
    }
}

/* Nothing crosses the edge into a broadcast's root, nor the one out of a reduce's. */
static bool edge_used(enum collective_kind kind, int from, int to, int root)
{
    return !(kind == COLLECTIVE_BROADCAST && to == root) &&
           !(kind == COLLECTIVE_REDUCE && from == root);
}

static int ring_flows(const struct communicator *c, enum collective_kind kind, double bytes,
                      int root, struct collective_flow *flows)
{
    double each = bytes * edge_share(kind, c->count) / c->channels;
    int count = 0;
    for (int channel = 0; channel < c->channels; channel++)
        for (int from = 0; from < c->count; from++) {
            int to = communicator_next(c, channel, from);
            if (edge_used(kind, from, to, root))
                flows[count++] = (struct collective_flow){from, to, channel, each};
        }
    return count;
}

static int pair_flows(const struct communicator *c, double bytes, struct collective_flow *flows)
{
    int count = 0;
    for (int step = 1; step < c->count; step++)
        for (int from = 0; from < c->count; from++)
            flows[count++] =
                (struct collective_flow){from, (from + step) % c->count, 0, bytes / c->count};
    return count;
}

/* What the flows do to the links: the slowest link's seconds, the bytes by class, the longest
 * route. */
struct load {
    double seconds, longest_latency;
    double mean_latency; /* of the flows */
    double class_bytes[LINK_CLASS_COUNT];
};

static enum rh_status load_links(const struct communicator *c, const struct collective_flow *flows,
                                 int count, struct load *load)
{
    double *bytes = memory_new_array((size_t)cluster_link_count(c->cluster), sizeof *bytes);
    enum rh_status status = RH_OK;
    memset(load, 0, sizeof *load);
    for (int i = 0; i < count && status == RH_OK; i++) {
        struct route route;
        status = cluster_route(c->cluster, c->devices[flows[i].from], c->devices[flows[i].to],
                               flows[i].channel, &route);
        for (int k = 0; status == RH_OK && k < route.count; k++) {
            const struct directed_link *link = cluster_link(c->cluster, route.links[k]);
            double *here = &bytes[route.links[k]];
            *here += flows[i].bytes;
            load->class_bytes[link->class] += flows[i].bytes;
            double seconds = *here / link->bytes_per_second;
            load->seconds = seconds > load->seconds ? seconds : load->seconds;
        }
        if (status == RH_OK && route.latency_seconds > load->longest_latency)
            load->longest_latency = route.latency_seconds;
        if (status == RH_OK)
            load->mean_latency += route.latency_seconds / count;
    }
    free(bytes);
    return status;
}

/* NCCL's search gives an NVSwitch node of Hopper GPUs 12 channels of 30 GB/s where the links have
 * 18 x 20.6 (spec of NCCL 2.28, search speeds): the rings do not fill the links. */
static double search_factor(const struct communicator *c)
{
    return c->nodes == 1 && c->same_channels && c->compute_capability / 10 == 9 ? 370.8 / 360 : 1;
}

/* The protocol with the least total time; all bytes grow by its cost on the wire. */
static void choose_protocol(const struct communicator *c, struct priced *p, struct load *load)
{
    double bus_bytes = p->bytes * edge_share(p->kind, c->count);
    double best = 0;
    double best_slowdown = 1;
    /* NCCL's table is of usual hardware: where the platform's links are slower than it, they count.
     * A chunk goes over all hops in turn, so a step takes their mean. */
    double wires = p->cost.steps * load->mean_latency;
    for (int protocol = 0; protocol < PROTOCOL_COUNT; protocol++) {
        if (!protocol_available(c, (enum protocol)protocol))
            continue;
        double slowdown = ring_slowdown(c, (enum protocol)protocol, bus_bytes, load->seconds);
        double latency = ring_latency_seconds(c, p->kind, (enum protocol)protocol, p->bytes);
        latency = latency > wires ? latency : wires;
        double seconds = latency + load->seconds * slowdown;
        if (best > 0 && seconds >= best)
            continue;
        best = seconds;
        best_slowdown = slowdown;
        p->cost.protocol = protocol_name((enum protocol)protocol);
        p->cost.latency_seconds = latency;
        p->cost.seconds = seconds;
    }
    for (int i = 0; i < p->cost.flow_count; i++)
        p->flows[i].bytes *= best_slowdown;
    for (int k = 0; k < LINK_CLASS_COUNT; k++)
        p->cost.link_class_bytes[k] = load->class_bytes[k] * best_slowdown;
    p->cost.step_latency_seconds = p->cost.latency_seconds / p->cost.steps;
}

static enum rh_status price(struct communicator *c, struct priced *p)
{
    bool pairs = p->kind == COLLECTIVE_ALL_TO_ALL;
    struct load load = {0};
    size_t most =
        pairs ? (size_t)c->count * (size_t)(c->count - 1) : (size_t)c->channels * (size_t)c->count;
    p->cost.algorithm = pairs ? "pairwise" : "ring";
    p->cost.protocol = "Simple";
    p->cost.steps = ring_steps(c, p->kind);
    if (c->count < 2)
        return RH_OK;
    p->flows = memory_new_array(most, sizeof *p->flows);
    p->cost.flow_count = pairs ? pair_flows(c, p->bytes, p->flows)
                               : ring_flows(c, p->kind, p->bytes, p->root, p->flows);
    for (int i = 0; i < p->cost.flow_count; i++)
        p->flows[i].bytes *= search_factor(c);
    p->cost.flows = p->flows;
    if (!c->cluster->native_path)
        RETURN_IF_FAILED(load_links(c, p->flows, p->cost.flow_count, &load));
    if (c->cluster->collectives == COLLECTIVES_LINKS) {
        int steps = pairs ? 1 : p->cost.steps;
        p->cost.step_latency_seconds = load.longest_latency + c->cluster->step_seconds;
        p->cost.latency_seconds = steps * p->cost.step_latency_seconds;
        p->cost.seconds = p->cost.latency_seconds + load.seconds;
        memcpy(p->cost.link_class_bytes, load.class_bytes, sizeof load.class_bytes);
    } else {
        choose_protocol(c, p, &load);
    }
    return RH_OK;
}

enum rh_status collective_price(struct communicator *c, enum collective_kind kind, double bytes,
                                int root, struct collective_cost *cost)
{
    for (int i = 0; i < c->priced_count; i++)
        if (c->priced[i].kind == kind && c->priced[i].bytes == bytes && c->priced[i].root == root) {
            *cost = c->priced[i].cost;
            return RH_OK;
        }
    struct priced *p = ARRAY_ADD(c->priced, c->priced_count, c->priced_capacity);
    *p = (struct priced){.kind = kind, .root = root, .bytes = bytes};
    enum rh_status status = price(c, p);
    *cost = p->cost;
    if (status != RH_OK) {
        free(p->flows);
        c->priced_count--;
    }
    return status;
}

enum rh_status transfer_price(struct cluster *cluster, int from, int to, double bytes,
                              double *seconds, double *latency_seconds)
{
    struct route route;
    RETURN_IF_FAILED(cluster_route(cluster, from, to, 0, &route));
    *latency_seconds = route.latency_seconds;
    if (cluster->collectives == COLLECTIVES_NCCL)
        *latency_seconds += cluster_device_model(cluster, from)->copy_seconds;
    *seconds = *latency_seconds + bytes / route.bytes_per_second;
    return RH_OK;
}
