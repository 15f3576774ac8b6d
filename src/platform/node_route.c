/* Routes inside a node, found once for all pairs of GPUs, host and NICs: fewest hops, then fewest
 * that are not NVLink, then widest (NCCL's breadth-first search, NVIDIA/nccl src/graph/paths.cc,
 * without its detour through another GPU). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "platform/private.h"

/* The best way known from the source to a vertex. */
struct reach {
    int hops;   /* -1: none */
    int others; /* links that are not NVLink */
    double bytes_per_second;
    int link, previous; /* the last directed link, and the vertex before it */
};

static bool better(const struct reach *a, const struct reach *b)
{
    if (b->hops < 0 || a->hops != b->hops)
        return b->hops < 0 || a->hops < b->hops;
    if (a->others != b->others)
        return a->others < b->others;
    return a->bytes_per_second > b->bytes_per_second;
}

static bool forwards(enum vertex_kind kind)
{
    return kind == VERTEX_CPU || kind == VERTEX_SWITCH;
}

/* Layer by layer; a GPU, a NIC or the host is only ever an end. */
static void search(const struct node_model *node, int from, struct reach *reach)
{
    for (int i = 0; i < node->vertex_count; i++)
        reach[i] = (struct reach){-1, 0, 0, -1, -1};
    reach[from] = (struct reach){0, 0, HUGE_VAL, -1, -1};
    bool grown = true;
    for (int hops = 1; grown; hops++) {
        grown = false;
        for (int i = 0; i < 2 * node->link_count; i++) {
            const struct link *link = &node->links[i / 2];
            int a = i % 2 ? link->b : link->a;
            int b = i % 2 ? link->a : link->b;
            if (reach[a].hops != hops - 1 || (a != from && !forwards(node->vertices[a].kind)))
                continue;
            struct reach next = {hops, reach[a].others + (link->class != LINK_NVLINK),
                                 fmin(reach[a].bytes_per_second, link->bytes_per_second), i, a};
            if (better(&next, &reach[b])) {
                reach[b] = next;
                grown = true;
            }
        }
    }
}

/* How far apart, as NCCL's path types: NVL, PIX, PXB, PHB, SYS. */
static int measure_distance(const struct node_model *node, const struct node_route *route)
{
    int switches = 0;
    int cpus = 0;
    int sockets = 0;
    for (int i = 0; i < route->count; i++) {
        const struct link *link = &node->links[route->links[i] / 2];
        enum vertex_kind end = node->vertices[route->links[i] % 2 ? link->a : link->b].kind;
        switches += end == VERTEX_SWITCH;
        cpus += end == VERTEX_CPU;
        sockets += link->class == LINK_SOCKET;
    }
    if (route->by_nvlink)
        return 0;
    return sockets ? 4 : cpus ? 3 : switches > 1 ? 2 : 1;
}

static void add_link(const struct node_model *node, struct node_route *route, int directed)
{
    const struct link *link = &node->links[directed / 2];
    route->links = memory_resize(route->links, (size_t)route->count + 1, sizeof *route->links);
    route->links[route->count++] = directed;
    route->latency_seconds += link->latency_seconds;
    route->bytes_per_second = fmin(route->bytes_per_second, link->bytes_per_second);
    route->by_nvlink = route->by_nvlink && link->class == LINK_NVLINK;
}

static void add_way(const struct node_model *node, const struct reach *reach, int to,
                    struct node_route *route)
{
    if (reach[to].previous < 0)
        return;
    add_way(node, reach, reach[to].previous, route);
    add_link(node, route, reach[to].link);
}

/* Through the memory of the CPU that is nearest to `from`: in by one link, out by its other
 * direction, so that a way to the other socket crosses between the sockets. */
static void add_staged_way(const struct node_model *node, struct reach *reach, int from, int to,
                           struct node_route *route)
{
    search(node, from, reach);
    if (reach[node->host_vertex].hops < 0)
        return;
    int into = reach[node->host_vertex].link;
    int cpu = reach[node->host_vertex].previous;
    add_way(node, reach, node->host_vertex, route);
    add_link(node, route, into ^ 1);
    search(node, cpu, reach);
    route->found = reach[to].hops >= 0;
    add_way(node, reach, to, route);
}

static bool is_staged(const struct node_record *node, int from, int to)
{
    enum vertex_kind a = node->model.vertices[from].kind;
    enum vertex_kind b = node->model.vertices[to].kind;
    return !node->peer_access && ((a == VERTEX_GPU && (b == VERTEX_GPU || b == VERTEX_NIC)) ||
                                  (a == VERTEX_NIC && b == VERTEX_GPU));
}

void node_find_routes(struct node_record *record)
{
    const struct node_model *node = &record->model;
    struct reach *reach = memory_new_array((size_t)node->vertex_count, sizeof *reach);
    struct reach *staged = memory_new_array((size_t)node->vertex_count, sizeof *staged);
    size_t pairs = (size_t)record->endpoint_count * (size_t)record->endpoint_count;
    record->routes = memory_new_array(pairs, sizeof *record->routes);
    for (int from = 0; from < node->vertex_count; from++) {
        if (record->endpoint[from] < 0)
            continue;
        search(node, from, reach);
        for (int to = 0; to < node->vertex_count; to++) {
            if (record->endpoint[to] < 0)
                continue;
            struct node_route *route =
                &record->routes[record->endpoint[from] * record->endpoint_count +
                                record->endpoint[to]];
            route->bytes_per_second = HUGE_VAL;
            route->by_nvlink = true;
            route->found = reach[to].hops >= 0;
            if (from != to && is_staged(record, from, to) && reach[to].others)
                add_staged_way(node, staged, from, to, route);
            else
                add_way(node, reach, to, route);
            route->by_nvlink = route->by_nvlink && route->count;
            route->distance = measure_distance(node, route);
        }
    }
    free(reach);
    free(staged);
}
