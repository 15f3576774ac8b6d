/* The numbers of a cluster's devices and directed links, by arithmetic on the nodes' tables: links
 * of node 0 (two directions each), its ports (out, in), node 1 …, then each leaf's way up and down.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "platform/private.h"

enum { NAME_CHUNK = 1 << 16, LONGEST_LINK_NAME = 1024, MOST_PORTS = 255 };

int node_port_count(const struct cluster *c, const struct node_model *node)
{
    const struct node_record *record = node_record_of(node);
    /* on a pure network a node without NICs is an endpoint itself */
    if (!record->nic_count && c->collectives == COLLECTIVES_LINKS)
        return node->gpu_count;
    return record->nic_count;
}

int node_port_vertex(const struct cluster *c, const struct node_model *node, int port)
{
    const struct node_record *record = node_record_of(node);
    assert(port >= 0 && port < node_port_count(c, node));
    return record->nic_count ? record->nics[port] : node->gpu_vertex[port];
}

double cluster_port_rate(const struct cluster *c, int node, int port)
{
    const struct node_record *record = node_record_of(c->nodes[node]);
    double fabric = c->private->fabric_bytes_per_second;
    double own = record->port_bytes_per_second[node_port_vertex(c, c->nodes[node], port)];
    return own <= 0 ? fabric : fabric <= 0 ? own : fmin(own, fabric);
}

int cluster_port_leaf(const struct cluster *c, int node, int port)
{
    const struct cluster_private *own = c->private;
    int group = node / c->leaf_nodes;
    return group * own->rail_count + (c->rails ? port : 0);
}

int cluster_port_link(const struct cluster *c, int node, int port, bool out)
{
    return c->private->link_first[node] + 2 * c->nodes[node]->link_count + 2 * port + !out;
}

int cluster_leaf_link(const struct cluster *c, int leaf, bool up)
{
    return c->private->link_first[c->node_count] + 2 * leaf + !up;
}

int cluster_link_count(const struct cluster *c)
{
    return c->private->link_count;
}

static enum rh_status check_ports(struct cluster *c, const char *where)
{
    int first = node_port_count(c, c->nodes[0]);
    for (int i = 0; i < c->node_count; i++) {
        if (i && c->nodes[i] == c->nodes[i - 1])
            continue;
        const struct node_model *node = c->nodes[i];
        int ports = node_port_count(c, node);
        if (!ports)
            return fail(RH_INVALID, "%s: %d nodes need a network, but node '%s' has no NIC", where,
                        c->node_count, node->name);
        if (c->fabric == FABRIC_RING && ports != first)
            return fail(RH_INVALID,
                        "%s: a ring joins NIC to NIC, but node '%s' has %d and '%s' has %d", where,
                        node->name, ports, c->nodes[0]->name, first);
        if (ports > MOST_PORTS)
            return fail(RH_INVALID, "%s: node '%s' has %d ports; at most %d are handled", where,
                        node->name, ports, MOST_PORTS);
        for (int port = 0; port < ports; port++)
            if (cluster_port_rate(c, i, port) <= 0)
                return fail(RH_INVALID,
                            "%s: node '%s' has no NIC; 'fabric' needs 'link_bytes_per_second'",
                            where, node->name);
    }
    return RH_OK;
}

static void number_leaves(struct cluster *c)
{
    struct cluster_private *own = c->private;
    own->rail_count = 1;
    for (int i = 0; c->rails && i < c->node_count; i++) {
        int ports = node_port_count(c, c->nodes[i]);
        own->rail_count = ports > own->rail_count ? ports : own->rail_count;
    }
    int groups = (c->node_count + c->leaf_nodes - 1) / c->leaf_nodes;
    own->leaf_count = groups * own->rail_count;
    own->leaf_bytes_per_second =
        memory_new_array((size_t)own->leaf_count, sizeof *own->leaf_bytes_per_second);
    for (int i = 0; i < c->node_count; i++)
        for (int port = 0; port < node_port_count(c, c->nodes[i]); port++)
            own->leaf_bytes_per_second[cluster_port_leaf(c, i, port)] +=
                cluster_port_rate(c, i, port) / c->oversubscription;
    for (int leaf = 0; leaf < own->leaf_count; leaf++)
        if (own->leaf_bytes_per_second[leaf] <= 0) /* a rail without ports in this group */
            own->leaf_bytes_per_second[leaf] = c->port_bytes_per_second;
}

enum rh_status cluster_number(struct cluster *c, const char *where)
{
    struct cluster_private *own = c->private;
    size_t marks = (size_t)c->node_count + 1;
    own->rail_count = 1;
    if (c->fabric != FABRIC_NONE) {
        RETURN_IF_FAILED(check_ports(c, where));
        c->port_bytes_per_second = cluster_port_rate(c, 0, 0);
    }
    if (c->fabric == FABRIC_FAT_TREE)
        number_leaves(c);
    c->gpu_first = memory_new_array(marks, sizeof *c->gpu_first);
    own->port_first = memory_new_array(marks, sizeof *own->port_first);
    own->link_first = memory_new_array(marks, sizeof *own->link_first);
    int64_t links = 0;
    for (int i = 0; i < c->node_count; i++) {
        int ports = c->fabric == FABRIC_NONE ? 0 : node_port_count(c, c->nodes[i]);
        c->gpu_first[i + 1] = c->gpu_first[i] + c->nodes[i]->gpu_count;
        own->port_first[i + 1] = own->port_first[i] + ports;
        links += 2 * ((int64_t)c->nodes[i]->link_count + ports);
        if (links + 2 * own->leaf_count > INT32_MAX / 2)
            return fail(RH_INVALID, "%s: more than %d links", where, INT32_MAX / 2);
        own->link_first[i + 1] = (int)links;
    }
    c->gpu_count = c->gpu_first[c->node_count];
    own->port_count = own->port_first[c->node_count];
    own->link_count = (int)links + 2 * own->leaf_count;
    return RH_OK;
}

/* The node to which entry `number` of a table of first numbers belongs. */
static int node_of(const struct cluster *c, const int *first, int number)
{
    int low = 0;
    int high = c->node_count;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (first[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int cluster_device_node(const struct cluster *c, int device)
{
    assert(device >= 0 && device < c->gpu_count + c->node_count);
    return device >= c->gpu_count ? device - c->gpu_count : node_of(c, c->gpu_first, device);
}

const struct device_model *cluster_device_model(const struct cluster *c, int device)
{
    int node = cluster_device_node(c, device);
    if (device >= c->gpu_count)
        return c->nodes[node]->host;
    return c->nodes[node]->devices[device - c->gpu_first[node]];
}

char *cluster_device_name(const struct cluster *c, int device, char out[48])
{
    int node = cluster_device_node(c, device);
    if (device >= c->gpu_count)
        snprintf(out, 48, "node%d:host", node);
    else
        snprintf(out, 48, "node%d:gpu%d", node, device - c->gpu_first[node]);
    return out;
}

static const char *keep_name(struct cluster_private *own, const char *name, int length)
{
    size_t bytes = (size_t)length + 1;
    if (own->name_used + bytes > own->name_capacity) {
        own->name_capacity = NAME_CHUNK;
        own->name_used = 0;
        own->name_chunk = memory_new(NAME_CHUNK);
        *ARRAY_ADD(own->name_chunks, own->name_chunk_count, own->name_chunk_capacity) =
            own->name_chunk;
    }
    char *kept = own->name_chunk + own->name_used;
    memcpy(kept, name, bytes);
    own->name_used += bytes;
    return kept;
}

static void make_leaf_link(const struct cluster *c, int number, struct directed_link *link,
                           char *name)
{
    int leaf = number / 2;
    snprintf(name, LONGEST_LINK_NAME, "leaf%d.%s", leaf, number % 2 ? "down" : "up");
    link->class = LINK_FABRIC;
    link->bytes_per_second = c->private->leaf_bytes_per_second[leaf];
    link->latency_seconds = c->port_latency_seconds;
}

static void make_node_link(const struct cluster *c, int node, int number,
                           struct directed_link *link, char *name)
{
    const struct node_model *model = c->nodes[node];
    if (number < 2 * model->link_count) {
        const struct link *own = &model->links[number / 2];
        snprintf(name, LONGEST_LINK_NAME, "n%d.%s", node,
                 node_record_of(model)->link_names[number]);
        link->class = own->class;
        link->bytes_per_second = own->bytes_per_second;
        link->latency_seconds = own->latency_seconds;
        return;
    }
    static const char *const ways[][2] = {
        [FABRIC_FAT_TREE] = {"out", "in"}, [FABRIC_RING] = {"next", "previous"}};
    int port = (number - 2 * model->link_count) / 2;
    int vertex = node_port_vertex(c, model, port);
    snprintf(name, LONGEST_LINK_NAME, "n%d.%s.%s", node, model->vertices[vertex].name,
             ways[c->fabric][number % 2]);
    link->class = LINK_NIC;
    link->bytes_per_second = cluster_port_rate(c, node, port);
    link->latency_seconds = c->port_latency_seconds;
}

const struct directed_link *cluster_link(const struct cluster *c, int link)
{
    struct cluster_private *own = c->private;
    assert(link >= 0 && link < own->link_count);
    if (!own->links)
        own->links = memory_new_array((size_t)own->link_count, sizeof *own->links);
    struct directed_link *made = &own->links[link];
    if (made->name)
        return made;
    char name[LONGEST_LINK_NAME];
    int leaves = own->link_first[c->node_count];
    if (link >= leaves) {
        make_leaf_link(c, link - leaves, made, name);
    } else {
        int node = node_of(c, own->link_first, link);
        make_node_link(c, node, link - own->link_first[node], made, name);
    }
    made->name = keep_name(own, name, (int)strlen(name));
    return made;
}
