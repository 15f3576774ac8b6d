/* Rings as NCCL finds them: Hamiltonian cycles over NVLinks inside a node; between nodes, chains
 * that enter and leave each node near one NIC (NCCL 2.28, src/graph/search.cc and rings.cc). */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "collective/communicator.h"

enum { MOST_GPUS = 32, MOST_CYCLES = 16, MOST_VISITS = 200000 };

/* NVLink lanes between the members of one node, used up cycle by cycle. */
struct lanes {
    int count;
    int free[MOST_GPUS][MOST_GPUS];
    int visits; /* bounds the search */
};

struct cycle {
    int order[MOST_GPUS];
};

static int local_gpu(const struct cluster *cluster, int device)
{
    return device - cluster->gpu_first[cluster_device_node(cluster, device)];
}

static void read_lanes(const struct communicator *c, const int *members, int count,
                       struct lanes *lanes, bool *switched)
{
    const struct cluster *cluster = c->cluster;
    const struct node_model *node =
        cluster->nodes[cluster_device_node(cluster, c->devices[members[0]])];
    memset(lanes, 0, sizeof *lanes);
    lanes->count = count;
    *switched = count > 1;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) {
            int links = i == k ? -1
                               : node_nvlinks(node, local_gpu(cluster, c->devices[members[i]]),
                                              local_gpu(cluster, c->devices[members[k]]));
            if (i != k && links >= 0)
                *switched = false;
            lanes->free[i][k] = links > 0 ? links : 0;
        }
}

/* Extends a path through all members; `last` >= 0 must be its end, a cycle must close. */
static bool extend(struct lanes *lanes, struct cycle *cycle, int length, unsigned used, int last,
                   bool close)
{
    int here = cycle->order[length - 1];
    if (++lanes->visits > MOST_VISITS)
        return false;
    if (length == lanes->count)
        return close ? lanes->free[here][cycle->order[0]] > 0 : last < 0 || here == last;
    for (int next = 0; next < lanes->count; next++) {
        bool is_end = next == last && length + 1 < lanes->count;
        if ((used >> next & 1) || lanes->free[here][next] <= 0 || is_end)
            continue;
        cycle->order[length] = next;
        if (extend(lanes, cycle, length + 1, used | 1u << next, last, close))
            return true;
    }
    return false;
}

static void take(struct lanes *lanes, const struct cycle *cycle, int how_many)
{
    for (int i = 0; i < lanes->count; i++) {
        int a = cycle->order[i];
        int b = cycle->order[(i + 1) % lanes->count];
        lanes->free[a][b] -= how_many;
        lanes->free[b][a] -= how_many;
    }
}

/* All cycles from member 0, each in one direction only, tried in order: as many as fit together. */
static int pack(struct lanes *lanes, const struct cycle *all, int all_count, int from, int most,
                struct cycle *chosen, struct cycle *best, int depth, int best_count)
{
    if (depth > best_count) {
        memcpy(best, chosen, (size_t)depth * sizeof *best);
        best_count = depth;
    }
    for (int i = from; i < all_count && best_count < most && depth < MOST_CYCLES; i++) {
        bool fits = ++lanes->visits <= MOST_VISITS;
        for (int k = 0; k < lanes->count && fits; k++)
            fits = lanes->free[all[i].order[k]][all[i].order[(k + 1) % lanes->count]] > 0;
        if (!fits)
            continue;
        take(lanes, &all[i], 1);
        chosen[depth] = all[i];
        best_count = pack(lanes, all, all_count, i, most, chosen, best, depth + 1, best_count);
        take(lanes, &all[i], -1);
    }
    return best_count;
}

struct all_cycles {
    struct cycle *cycles;
    int count, capacity;
};

static void enumerate(struct lanes *lanes, struct cycle *path, int length, unsigned used,
                      struct all_cycles *all)
{
    if (++lanes->visits > MOST_VISITS || all->count >= 4096)
        return;
    int here = path->order[length - 1];
    if (length == lanes->count) {
        if (lanes->free[here][0] > 0 && path->order[1] < here)
            *ARRAY_ADD(all->cycles, all->count, all->capacity) = *path;
        return;
    }
    for (int next = 1; next < lanes->count; next++) {
        if ((used >> next & 1) || lanes->free[here][next] <= 0)
            continue;
        path->order[length] = next;
        enumerate(lanes, path, length + 1, used | 1u << next, all);
    }
}

static int find_cycles(struct lanes *lanes, struct cycle *best)
{
    struct all_cycles all = {0};
    struct cycle path = {{0}};
    struct cycle chosen[MOST_CYCLES];
    int most = MOST_CYCLES;
    for (int i = 0; i < lanes->count; i++) {
        int degree = 0;
        for (int k = 0; k < lanes->count; k++)
            degree += lanes->free[i][k];
        most = degree / 2 < most ? degree / 2 : most;
    }
    enumerate(lanes, &path, 1, 1u, &all);
    lanes->visits = 0;
    int count = pack(lanes, all.cycles, all.count, 0, most, chosen, best, 0, 0);
    free(all.cycles);
    return count;
}

static void set_channels(struct communicator *c, int channels)
{
    c->channels = channels;
    c->next = memory_new_array((size_t)channels * (size_t)c->count, sizeof *c->next);
}

static void close_ring(struct communicator *c, int channel, const int *order, bool backwards)
{
    int *next = &c->next[channel * c->count];
    for (int i = 0; i < c->count; i++) {
        int a = order[i];
        int b = order[(i + 1) % c->count];
        next[backwards ? b : a] = backwards ? a : b;
    }
}

/* One machine: cycles over NVLink in both directions, one ring through the switch, or one over
 * PCIe. */
static void find_local(struct communicator *c)
{
    struct lanes lanes;
    struct cycle best[MOST_CYCLES];
    bool switched = false;
    int *order = memory_new_array((size_t)c->count, sizeof *order);
    int cycles = 0;
    for (int i = 0; i < c->count; i++)
        order[i] = i;
    if (c->count <= MOST_GPUS) {
        read_lanes(c, order, c->count, &lanes, &switched);
        if (c->count > 2 && !switched)
            cycles = find_cycles(&lanes, best);
    }
    c->same_channels = switched || (c->count == 2 && lanes.free[0][1] > 0);
    c->by_nvlink = c->same_channels || cycles > 0;
    set_channels(c, cycles ? 2 * cycles : 1);
    for (int i = 0; i < cycles; i++) {
        close_ring(c, 2 * i, best[i].order, false);
        close_ring(c, 2 * i + 1, best[i].order, true);
    }
    if (!cycles)
        close_ring(c, 0, order, false);
    free(order);
}

/* The members of one machine, in rank order. */
struct group {
    int node;
    int first, count; /* into the list of members by machine */
};

static int nic_count(const struct node_model *node)
{
    int count = 0;
    for (int i = 0; i < node->vertex_count; i++)
        count += node->vertices[i].kind == VERTEX_NIC;
    return count;
}

/* The way through one machine on one channel, as positions in its group: it starts and ends near
 * NIC `channel` of `channels`, over NVLink if a path exists. Odd machines go backwards, so that
 * both ends of a network hop are on the same rail. */
static void chain(const struct communicator *c, const int *members, int count, int channel,
                  int channels, int *order, bool *by_nvlink)
{
    struct lanes lanes;
    struct cycle path = {{0}};
    bool switched = false;
    int start = channel * count / channels;
    int end = count > 1 ? (start % 2 == 0 ? start + 1 : start - 1) : start;
    if (end >= count)
        end = (start + count - 1) % count;
    *by_nvlink = count == 1;
    for (int i = 0; i < count; i++)
        order[i] = (start + count - i) % count;
    if (count < 2 || count > MOST_GPUS)
        return;
    read_lanes(c, members, count, &lanes, &switched);
    *by_nvlink = switched;
    if (switched)
        return;
    for (int attempt = 0; attempt < 2 && !*by_nvlink; attempt++) {
        path.order[0] = start;
        lanes.visits = 0;
        *by_nvlink = extend(&lanes, &path, 1, 1u << start, attempt ? -1 : end, false);
    }
    if (*by_nvlink)
        memcpy(order, path.order, (size_t)count * sizeof *order);
}

static bool same_group(const struct communicator *c, const int *list, const struct group *a,
                       const struct group *b)
{
    const struct cluster *cluster = c->cluster;
    if (a->count != b->count || cluster->nodes[a->node] != cluster->nodes[b->node])
        return false;
    for (int i = 0; i < a->count; i++)
        if (local_gpu(cluster, c->devices[list[a->first + i]]) !=
            local_gpu(cluster, c->devices[list[b->first + i]]))
            return false;
    return true;
}

static void ring_over_groups(struct communicator *c, const int *list, const struct group *groups,
                             int group_count, int channel, int *order, int *way)
{
    int at = 0;
    for (int g = 0; g < group_count; g++) {
        const struct group *group = &groups[g];
        bool by_nvlink = true;
        if (g == 0 || !same_group(c, list, group, &groups[g - 1])) {
            chain(c, &list[group->first], group->count, channel, c->channels, way, &by_nvlink);
            c->by_nvlink &= by_nvlink;
        }
        for (int i = 0; i < group->count; i++) {
            int place = g % 2 ? group->count - 1 - i : i;
            order[at++] = list[group->first + way[place]];
        }
    }
    close_ring(c, channel, order, false);
}

static void find_across(struct communicator *c, const int *list, const struct group *groups,
                        int group_count)
{
    const struct node_model *node = c->cluster->nodes[groups[0].node];
    int nics = nic_count(node);
    int channels = groups[0].count < nics ? groups[0].count : nics;
    int *order = memory_new_array((size_t)c->count, sizeof *order);
    int *way = memory_new_array((size_t)c->count, sizeof *way);
    c->by_nvlink = true;
    set_channels(c, channels > 0 ? channels : 1);
    for (int channel = 0; channel < c->channels; channel++)
        ring_over_groups(c, list, groups, group_count, channel, order, way);
    free(order);
    free(way);
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Members by machine: `list` holds them machine after machine. */
static int group_members(const struct communicator *c, int *list, struct group *groups)
{
    int *index = memory_new_array((size_t)c->cluster->node_count, sizeof *index);
    int count = 0;
    for (int i = 0; i < c->count; i++) {
        int node = cluster_device_node(c->cluster, c->devices[i]);
        if (index[node] == 0) {
            groups[count] = (struct group){.node = node};
            index[node] = ++count;
        }
        groups[index[node] - 1].count++;
    }
    qsort(groups, (size_t)count, sizeof *groups, compare_groups);
    for (int g = 0, at = 0; g < count; g++) {
        groups[g].first = at;
        index[groups[g].node] = at;
        at += groups[g].count;
    }
    for (int i = 0; i < c->count; i++)
        list[index[cluster_device_node(c->cluster, c->devices[i])]++] = i;
    free(index);
    return count;
}

enum rh_status rings_find(struct communicator *c)
{
    int *list = memory_new_array((size_t)c->count, sizeof *list);
    struct group *groups = memory_new_array((size_t)c->count, sizeof *groups);
    c->nodes = group_members(c, list, groups);
    c->per_node = groups[0].count;
    if (c->cluster->native_path) {
        set_channels(c, 1);
        for (int i = 0; i < c->count; i++)
            list[i] = i;
        close_ring(c, 0, list, false);
    } else if (c->nodes == 1) {
        find_local(c);
    } else {
        find_across(c, list, groups, c->nodes);
    }
    free(list);
    free(groups);
    return RH_OK;
}
