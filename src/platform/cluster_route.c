/* Routes through a cluster, put together from the nodes' own and the fabric, and kept. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "platform/private.h"

enum { CHUNK_INTS = 1 << 14 };

struct kept_route {
    uint64_t key; /* 0: free */
    struct route route;
};

/* Open addressing; the links lie in chunks, so that a growing table does not move them. */
struct route_table {
    struct kept_route *slots;
    size_t slot_count, used;
    int **chunks;
    int chunk_count, chunk_capacity;
    int chunk_used, chunk_size;
};

void route_table_free(struct route_table *table)
{
    for (int i = 0; i < table->chunk_count; i++)
        free(table->chunks[i]);
    free(table->chunks);
    free(table->slots);
    free(table);
}

static struct kept_route *find_slot(struct kept_route *slots, size_t count, uint64_t key)
{
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    size_t i = (size_t)(hash >> 20) & (count - 1);
    while (slots[i].key && slots[i].key != key)
        i = (i + 1) & (count - 1);
    return &slots[i];
}

static void grow(struct route_table *table)
{
    size_t count = table->slot_count ? 2 * table->slot_count : 1024;
    struct kept_route *slots = memory_new_array(count, sizeof *slots);
    for (size_t i = 0; i < table->slot_count; i++)
        if (table->slots[i].key)
            *find_slot(slots, count, table->slots[i].key) = table->slots[i];
    free(table->slots);
    table->slots = slots;
    table->slot_count = count;
}

static int *take_links(struct route_table *table, int count)
{
    if (!table->chunk_count || table->chunk_used + count > table->chunk_size) {
        table->chunk_size = count > CHUNK_INTS ? count : CHUNK_INTS;
        table->chunk_used = 0;
        *ARRAY_ADD(table->chunks, table->chunk_count, table->chunk_capacity) =
            memory_new_array((size_t)table->chunk_size, sizeof(int));
    }
    int *links = table->chunks[table->chunk_count - 1] + table->chunk_used;
    table->chunk_used += count;
    return links;
}

static int device_vertex(const struct cluster *c, int device, int node)
{
    const struct node_model *model = c->nodes[node];
    return device >= c->gpu_count ? model->host_vertex
                                  : model->gpu_vertex[device - c->gpu_first[node]];
}

static bool is_nearer(const struct node_route *a, const struct node_route *b)
{
    return a->distance < b->distance ||
           (a->distance == b->distance && a->bytes_per_second > b->bytes_per_second);
}

/* The NIC nearest to a vertex (NCCL's path type, then bandwidth), the first of equals; *equal
 * counts them. */
static int nearest_port(const struct node_record *node, int vertex, int *equal)
{
    int best = 0;
    for (int port = 1; port < node->nic_count; port++)
        if (is_nearer(node_route(node, vertex, node->nics[port]),
                      node_route(node, vertex, node->nics[best])))
            best = port;
    *equal = 0;
    for (int port = 0; port < node->nic_count; port++)
        *equal += !is_nearer(node_route(node, vertex, node->nics[best]),
                             node_route(node, vertex, node->nics[port]));
    return best;
}

/* The port by which a device leaves its node. GPUs that share several equally near ones start at
 * different ones and take ceil(ports / GPUs) each, one per channel (NCCL's ncclTopoGetLocalNet). */
static int choose_port(const struct cluster *c, int device, int node, int channel)
{
    const struct node_model *model = c->nodes[node];
    const struct node_record *record = node_record_of(model);
    bool is_host = device >= c->gpu_count;
    int local = is_host ? 0 : device - c->gpu_first[node];
    if (!record->nic_count) /* a pure network's endpoint */
        return local;
    int vertex = device_vertex(c, device, node);
    int equal = 0;
    int first = nearest_port(record, vertex, &equal);
    if (equal == 1)
        return first;
    int sharers = 0;
    for (int gpu = 0; !is_host && gpu < model->gpu_count; gpu++) {
        int others = 0;
        sharers += nearest_port(record, model->gpu_vertex[gpu], &others) == first;
    }
    int each = is_host ? equal : (equal + sharers - 1) / sharers;
    int wanted = (local + channel % each) % equal;
    const struct node_route *best = node_route(record, vertex, record->nics[first]);
    for (int port = first;; port++) {
        assert(port < record->nic_count);
        if (!is_nearer(best, node_route(record, vertex, record->nics[port])) && wanted-- == 0)
            return port;
    }
}

static void add_segment(const struct cluster *c, int node, int from, int to, struct route *route,
                        int *links)
{
    const struct node_route *part = node_route(node_record_of(c->nodes[node]), from, to);
    for (int i = 0; i < part->count; i++)
        links[route->count + i] = c->private->link_first[node] + part->links[i];
    route->count += part->count;
    route->latency_seconds += part->latency_seconds;
    route->bytes_per_second = fmin(route->bytes_per_second, part->bytes_per_second);
}

static void add_hop(const struct cluster *c, int link, double bytes_per_second, struct route *route,
                    int *links)
{
    links[route->count++] = link;
    route->latency_seconds += c->port_latency_seconds;
    route->bytes_per_second = fmin(route->bytes_per_second, bytes_per_second);
}

static void add_tree(const struct cluster *c, const int node[2], const int port[2],
                     struct route *route, int *links)
{
    int up = cluster_port_leaf(c, node[0], port[0]);
    int down = cluster_port_leaf(c, node[1], port[1]);
    add_hop(c, cluster_port_link(c, node[0], port[0], true), cluster_port_rate(c, node[0], port[0]),
            route, links);
    if (up != down) {
        add_hop(c, cluster_leaf_link(c, up, true), c->private->leaf_bytes_per_second[up], route,
                links);
        add_hop(c, cluster_leaf_link(c, down, false), c->private->leaf_bytes_per_second[down],
                route, links);
    }
    add_hop(c, cluster_port_link(c, node[1], port[1], false),
            cluster_port_rate(c, node[1], port[1]), route, links);
}

/* The shorter way round; both ends use the port of the sender, whose ring it is. */
static void add_ring(const struct cluster *c, const int node[2], int port, struct route *route,
                     int *links)
{
    int forward = (node[1] - node[0] + c->node_count) % c->node_count;
    bool next = 2 * forward <= c->node_count;
    int hops = next ? forward : c->node_count - forward;
    for (int i = 0, at = node[0]; i < hops; i++) {
        add_hop(c, cluster_port_link(c, at, port, next), cluster_port_rate(c, at, port), route,
                links);
        at = (at + (next ? 1 : c->node_count - 1)) % c->node_count;
    }
}

static struct route make_route(struct cluster *c, const int device[2], const int node[2],
                               const int port[2])
{
    struct route_table *table = c->private->routes;
    struct route route = {.bytes_per_second = HUGE_VAL};
    int from = device_vertex(c, device[0], node[0]);
    int to = device_vertex(c, device[1], node[1]);
    if (node[0] == node[1]) {
        const struct node_route *own = node_route(node_record_of(c->nodes[node[0]]), from, to);
        int *links = take_links(table, own->count);
        add_segment(c, node[0], from, to, &route, links);
        route.by_nvlink = own->by_nvlink;
        route.links = links;
        return route;
    }
    int exit = node_port_vertex(c, c->nodes[node[0]], port[0]);
    int enter = node_port_vertex(c, c->nodes[node[1]], port[1]);
    int most = c->fabric == FABRIC_RING ? c->node_count : 4;
    most += node_route(node_record_of(c->nodes[node[0]]), from, exit)->count;
    most += node_route(node_record_of(c->nodes[node[1]]), enter, to)->count;
    int *links = take_links(table, most);
    add_segment(c, node[0], from, exit, &route, links);
    if (c->fabric == FABRIC_RING)
        add_ring(c, node, port[0], &route, links);
    else
        add_tree(c, node, port, &route, links);
    add_segment(c, node[1], enter, to, &route, links);
    table->chunk_used -= most - route.count;
    route.by_network = true;
    route.links = links;
    return route;
}

enum rh_status cluster_route(struct cluster *c, int from, int to, int channel, struct route *route)
{
    if (c->native_path)
        return fail(RH_INVALID, "cluster '%s' is SimGrid's own file: its routes are not known here",
                    c->name);
    const int device[2] = {from, to};
    const int node[2] = {cluster_device_node(c, from), cluster_device_node(c, to)};
    int port[2] = {0, 0};
    if (node[0] != node[1]) {
        port[0] = choose_port(c, from, node[0], channel);
        port[1] = c->fabric == FABRIC_RING ? port[0] : choose_port(c, to, node[1], channel);
    }
    assert(from < 1 << 23 && to < 1 << 23 && port[0] < 1 << 8 && port[1] < 1 << 8);
    uint64_t key = (uint64_t)1 << 63 | (uint64_t)from << 40 | (uint64_t)to << 16 |
                   (uint64_t)port[0] << 8 | (uint64_t)port[1];
    if (!c->private->routes)
        c->private->routes = memory_new(sizeof *c->private->routes);
    struct route_table *table = c->private->routes;
    if (2 * (table->used + 1) > table->slot_count)
        grow(table);
    struct kept_route *slot = find_slot(table->slots, table->slot_count, key);
    if (!slot->key) {
        slot->route = make_route(c, device, node, port);
        slot->key = key;
        table->used++;
    }
    *route = slot->route;
    return RH_OK;
}
