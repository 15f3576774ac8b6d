/* The platform of one run as SimGrid XML: only the hosts, links and routes that this plan's flows
 * use. One Full zone; a device has a host per channel, since two routes between the same hosts
 * cannot be told apart; every direction of a link is a link of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/simgrid/sim.h"
#include "base/memory.h"

struct pair {
    int from, to, channel;
};

struct pairs {
    struct pair *items;
    int count, capacity;
};

void sim_host_name(const struct sim *sim, int device, int channel, char out[64])
{
    const struct cluster *cluster = sim->session->options.cluster;
    /* A host of SimGrid's is a node of one GPU; its memory is there too, over a loopback. */
    if (cluster->native_path)
        snprintf(out, 64, "%.63s", cluster->native_hosts[device % cluster->gpu_count]);
    else
        snprintf(out, 64, "d%d.%d", device, channel);
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->channel < y->channel ? -1 : x->channel > y->channel;
}

static void add_pair(struct pairs *pairs, int from, int to, int channel)
{
    if (from != to)
        *ARRAY_ADD(pairs->items, pairs->count, pairs->capacity) = (struct pair){from, to, channel};
}

static void unique_pairs(struct pairs *pairs)
{
    int kept = 0;
    if (pairs->count)
        qsort(pairs->items, (size_t)pairs->count, sizeof *pairs->items, compare_pairs);
    for (int i = 0; i < pairs->count; i++)
        if (kept == 0 || compare_pairs(&pairs->items[kept - 1], &pairs->items[i]) != 0)
            pairs->items[kept++] = pairs->items[i];
    pairs->count = kept;
}

static enum rh_status add_collective(const struct sim *sim, int worker, const struct role *role,
                                     const struct instruction *in, struct pairs *pairs)
{
    struct session *s = sim->session;
    struct meeting_place *place = NULL;
    struct collective_cost cost;
    const char *stream = role->streams[role->parts[in->collect.part_first].stream].name;
    RETURN_IF_FAILED(
        session_place(s, worker, in->collect.group, stream, in->collect.part_count, in, &place));
    int members = place->worker_count * place->parts;
    RETURN_IF_FAILED(collective_price(place->communicator, in->collect.kind,
                                      session_collective_bytes(role, in, members),
                                      session_root(s, place, in), &cost));
    for (int i = 0; i < cost.flow_count; i++)
        add_pair(pairs, communicator_device(place->communicator, cost.flows[i].from),
                 communicator_device(place->communicator, cost.flows[i].to), cost.flows[i].channel);
    return RH_OK;
}

static enum rh_status add_transfer(const struct sim *sim, int worker, const struct role *role,
                                   const struct instruction *in, struct pairs *pairs)
{
    const struct session *s = sim->session;
    if (in->kind == INSTRUCTION_COLLECT)
        return add_collective(sim, worker, role, in, pairs);
    if (in->kind == INSTRUCTION_COPY) {
        int from = role->buffers[role->views[in->copy.from].buffer].device;
        int to = role->buffers[role->views[in->copy.to].buffer].device;
        add_pair(pairs, session_device(s, worker, from), session_device(s, worker, to), 0);
        return RH_OK;
    }
    for (int i = 0; i < in->exchange.message_count; i++) {
        const struct message *m = &role->messages[in->exchange.message_first + i];
        int peer = session_peer(s, worker, in->exchange.group, m->peer);
        int mine = session_device(s, worker, role->streams[m->stream].device);
        const struct role *other = &s->plan->roles[plan_role_of(s->plan, peer)];
        for (int gpu = 0; gpu < other->gpus; gpu++) /* the peer's stream is known by name only */
            add_pair(pairs, m->send ? mine : session_device(s, peer, gpu),
                     m->send ? session_device(s, peer, gpu) : mine, 0);
    }
    return RH_OK;
}

static enum rh_status find_pairs(const struct sim *sim, struct pairs *pairs)
{
    const struct session *s = sim->session;
    int lists = s->plan->roles[0].list_count;
    for (int worker = 0; worker < s->simulated && s->any_flow; worker++) {
        const struct role *role = &s->plan->roles[plan_role_of(s->plan, worker)];
        for (int list = 0; list < lists; list++)
            for (int i = 0; i < role->lists[list].count; i++) {
                const struct instruction *in = &role->lists[list].instructions[i];
                if (is_transfer(role, in) && !s->exclusive[worker * lists + list][i])
                    RETURN_IF_FAILED(add_transfer(sim, worker, role, in, pairs));
            }
        if (pairs->count > 1 << 16)
            unique_pairs(pairs);
    }
    unique_pairs(pairs);
    return RH_OK;
}

/* Hosts: channel 0 of every simulated device, and every end of a flow. */
static void write_hosts(const struct sim *sim, const struct pairs *pairs, FILE *file)
{
    const struct session *s = sim->session;
    struct pairs hosts = {0};
    for (int worker = 0; worker < s->simulated; worker++)
        for (int i = 0; i <= s->plan->roles[plan_role_of(s->plan, worker)].gpus; i++)
            *ARRAY_ADD(hosts.items, hosts.count, hosts.capacity) =
                (struct pair){session_device(s, worker, i), 0, 0};
    for (int i = 0; i < pairs->count; i++) {
        const struct pair *p = &pairs->items[i];
        *ARRAY_ADD(hosts.items, hosts.count, hosts.capacity) =
            (struct pair){p->from, 0, p->channel};
        *ARRAY_ADD(hosts.items, hosts.count, hosts.capacity) = (struct pair){p->to, 0, p->channel};
    }
    unique_pairs(&hosts);
    for (int i = 0; i < hosts.count; i++) {
        char name[64];
        const struct device_model *model =
            cluster_device_model(s->options.cluster, hosts.items[i].from);
        sim_host_name(sim, hosts.items[i].from, hosts.items[i].channel, name);
        if (model->collective_compute_share > 0)
            fprintf(file, "<host id=\"%s\" speed=\"1f,%.17gf\"/>\n", name,
                    1 - model->collective_compute_share);
        else
            fprintf(file, "<host id=\"%s\" speed=\"1f\"/>\n", name);
    }
    free(hosts.items);
}

static enum rh_status write_links(const struct sim *sim, const struct pairs *pairs, FILE *file)
{
    struct cluster *cluster = sim->session->options.cluster;
    bool *written = memory_new_array((size_t)cluster_link_count(cluster) + 1, sizeof *written);
    enum rh_status status = RH_OK;
    for (int i = 0; i < pairs->count && status == RH_OK; i++) {
        const struct pair *p = &pairs->items[i];
        struct route route;
        status = cluster_route(cluster, p->from, p->to, p->channel, &route);
        for (int k = 0; status == RH_OK && k < route.count; k++) {
            const struct directed_link *link = cluster_link(cluster, route.links[k]);
            if (written[route.links[k]])
                continue;
            written[route.links[k]] = true;
            fprintf(file, "<link id=\"l%d\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n",
                    route.links[k], link->bytes_per_second);
        }
    }
    free(written);
    return status;
}

static enum rh_status write_routes(const struct sim *sim, const struct pairs *pairs, FILE *file)
{
    struct cluster *cluster = sim->session->options.cluster;
    for (int i = 0; i < pairs->count; i++) {
        const struct pair *p = &pairs->items[i];
        char from[64];
        char to[64];
        struct route route;
        RETURN_IF_FAILED(cluster_route(cluster, p->from, p->to, p->channel, &route));
        sim_host_name(sim, p->from, p->channel, from);
        sim_host_name(sim, p->to, p->channel, to);
        fprintf(file, "<route src=\"%s\" dst=\"%s\" symmetrical=\"NO\">", from, to);
        for (int k = 0; k < route.count; k++)
            fprintf(file, "<link_ctn id=\"l%d\"/>", route.links[k]);
        fprintf(file, "</route>\n");
    }
    return RH_OK;
}

enum rh_status sim_write_platform(const struct sim *sim, FILE *file)
{
    struct pairs pairs = {0};
    enum rh_status status = find_pairs(sim, &pairs);
    fprintf(file, "<?xml version='1.0'?>\n"
                  "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n");
    write_hosts(sim, &pairs, file);
    if (status == RH_OK)
        status = write_links(sim, &pairs, file);
    if (status == RH_OK)
        status = write_routes(sim, &pairs, file);
    fprintf(file, "</zone>\n</platform>\n");
    free(pairs.items);
    return status;
}
