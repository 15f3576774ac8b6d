/* What the files of src/platform share and nobody else sees: the opened platform, a node with what
 * is derived from it, and a cluster's link numbers and kept routes. */
#ifndef REHEARSE_PLATFORM_PRIVATE_H
#define REHEARSE_PLATFORM_PRIVATE_H

#include "platform/platform.h"

struct name_list {
    char **names;
    int count, capacity;
    bool read;
};

struct platform {
    char **folders; /* searched in this order */
    int folder_count, folder_capacity;
    struct device_model **devices;
    char **device_keys; /* the name or path under which devices[i] was asked for */
    int device_count, device_capacity, device_key_count, device_key_capacity;
    struct node_record **nodes;
    char **node_keys;
    int node_count, node_capacity, node_key_count, node_key_capacity;
    struct platform_file *files;
    int file_count, file_capacity;
    struct name_list names[PLATFORM_CLUSTER + 1];
};

/* A route between two endpoints (GPU, host, NIC) of one node. */
struct node_route {
    int *links; /* directed: 2 * link (a to b), 2 * link + 1 (b to a) */
    int count;
    double latency_seconds, bytes_per_second;
    bool found, by_nvlink;
    int distance; /* 0 NVLink, 1 one switch, 2 switches, 3 through a CPU, 4 between CPUs */
};

/* A node and what is derived from it. `model` is first, so that a node_model's pointer leads here.
 */
struct node_record {
    struct node_model model;
    bool peer_access; /* false: GPUs (and NICs) reach a GPU through the host's memory only */
    double *port_bytes_per_second; /* vertex_count; a NIC's network rate, 0 for other vertices */
    int *nics;                     /* vertices of the NICs, in order */
    int nic_count;
    int *endpoint; /* vertex_count: index among GPUs, host, NICs; -1: none */
    int endpoint_count;
    struct node_route *routes; /* endpoint_count * endpoint_count */
    char **link_names;         /* 2 * link_count: "gpu0-nvswitch.up" */
};

static inline struct node_record *node_record_of(const struct node_model *node)
{
    return (struct node_record *)(void *)(uintptr_t)node;
}

/* Where a file lies. `shown` is how reports name it; both are the caller's to free. */
struct located {
    char *path, *shown;
};
bool platform_is_path(const char *name);
enum rh_status platform_locate(struct platform *p, enum platform_kind kind, const char *name,
                               struct located *file);
/* Reads and records a file (once); the text is the caller's. */
enum rh_status platform_read_text(struct platform *p, const struct located *file, char **text,
                                  uint64_t *hash);
enum rh_status platform_read_json(struct platform *p, const struct located *file, cJSON **json,
                                  uint64_t *hash);
bool platform_has(struct platform *p, enum platform_kind kind, const char *name);
/* The error for a name that is nowhere: suggests the nearest. */
enum rh_status platform_unknown(struct platform *p, enum platform_kind kind, const char *name);

enum rh_status device_read(const cJSON *json, const char *where, struct device_model **device);
void device_free(struct device_model *device);

/* node_read.c; `where` begins errors. */
enum rh_status node_read(struct platform *p, const cJSON *json, const char *where,
                         struct node_record **node);
void node_free(struct node_record *node);
struct node_record *node_new(const char *name, const char *source);
int node_add_vertex(struct node_record *node, enum vertex_kind kind, const char *name);
int node_add_gpu(struct node_record *node, const char *name, const struct device_model *device);
void node_add_link(struct node_record *node, int a, int b, enum link_class class,
                   double bytes_per_second, double latency_seconds, int count);
/* Checks the whole and derives routes and names. */
enum rh_status node_finish(struct node_record *node, const char *where);
void platform_keep_node(struct platform *p, const char *key, struct node_record *node);
void node_find_routes(struct node_record *node); /* node_route.c */
const char *vertex_kind_name(enum vertex_kind kind);

static inline const struct node_route *node_route(const struct node_record *node, int from, int to)
{
    return &node->routes[node->endpoint[from] * node->endpoint_count + node->endpoint[to]];
}

/* Latencies of links where an imported file has none (estimates, seconds), as in the node files. */
#define NVLINK_LATENCY 3e-7
#define PCIE_LATENCY 3e-7
#define SOCKET_LATENCY 2e-7
#define MEMORY_LATENCY 1e-7
#define PORT_LATENCY 5e-7 /* a network port, and a leaf's uplink */

struct route_table; /* route.c */

struct cluster_private {
    struct platform *platform;
    int port_count;  /* ports of all nodes */
    int *port_first; /* node_count + 1 */
    int *link_first; /* node_count + 1: a node's links, then two per port; then the leaves' */
    int rail_count;  /* 1 without rails */
    int leaf_count;
    double *leaf_bytes_per_second;  /* leaf_count: up to the spine, one direction */
    double fabric_bytes_per_second; /* of every port; 0: each NIC's own rate */
    int link_count;
    struct directed_link *links; /* made when asked for; a NULL name is not made yet */
    char *name_chunk;
    size_t name_used, name_capacity;
    char **name_chunks;
    int name_chunk_count, name_chunk_capacity;
    struct route_table *routes;
};

int node_port_count(const struct cluster *c, const struct node_model *node);
int node_port_vertex(const struct cluster *c, const struct node_model *node, int port);
double cluster_port_rate(const struct cluster *c, int node, int port);
int cluster_port_leaf(const struct cluster *c, int node, int port);
/* Directed links: from the node's port to the network (out) or back; of a leaf to the spine (up).
 */
int cluster_port_link(const struct cluster *c, int node, int port, bool out);
int cluster_leaf_link(const struct cluster *c, int leaf, bool up);
void route_table_free(struct route_table *table);

/* cluster_number.c: gpu_first, link numbers and the fabric's leaves, from nodes and fabric. */
enum rh_status cluster_number(struct cluster *c, const char *where);
/* cluster_native.c */
enum rh_status cluster_open_native(struct platform *p, const char *path, int devices_wanted,
                                   struct cluster **cluster);

#endif
