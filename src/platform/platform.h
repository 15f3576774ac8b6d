/* What hardware there is: device models, nodes as graphs of links, clusters of nodes behind a
 * fabric. Read from JSON data files (platforms/…), from `nvidia-smi topo -m`, or from NCCL's
 * topology XML. Bandwidths are per direction in bytes/s, latencies in seconds, sizes in bytes. */
#ifndef REHEARSE_PLATFORM_PLATFORM_H
#define REHEARSE_PLATFORM_PLATFORM_H

#include "base/json.h"
#include "op/op.h"

/* One row of a measured table: exactly this op with these operands takes `seconds`. */
struct measured_op {
    char *key; /* cost_op_key() text, see cost/cost.h */
    double seconds;
};

/* platforms/devices/NAME.json: a GPU, or a node's host (its memory and cores). */
struct device_model {
    char *name;   /* "v100-sxm2-32gb" */
    char *source; /* where the rates come from */
    uint64_t file_hash;
    bool host; /* a CPU: computes on `cores`, is never a collective's fast path */
    double memory_bytes;
    double runtime_bytes;              /* context and libraries: not for tensors */
    double communicator_bytes;         /* device memory per NCCL communicator */
    struct workspace_limits workspace; /* what libraries may take for one op */
    double memory_bytes_per_second;
    double flops_per_second[DTYPE_COUNT]; /* F32, TF32, BF16, F16; 0: the device has no such rate */
    double efficiency[OP_CLASS_COUNT]; /* share of the roofline that ops of a class reach, (0, 1] */
    double kernel_seconds;             /* least time of a kernel on the device */
    double launch_seconds;             /* host time to issue one instruction, eager */
    double event_seconds;              /* host time to issue a record or a wait, eager */
    double graph_launch_seconds;       /* host time to launch one graph */
    double graph_node_seconds;         /* device time between nodes of a graph */
    double copy_seconds;               /* start-up of one copy */
    double
        collective_compute_share; /* share of the device that a running collective takes, [0, 1) */
    double bucket_tensor_seconds; /* DDP: device time to copy one parameter's gradient into its
                                     bucket, beyond its bytes */
    int compute_capability;       /* 70, 80, 86, 89, 90; 0 for a host */
    int multiprocessors;
    double nvlink_bytes_per_second; /* one NVLink, one direction, as NCCL counts it; 0: none */
    int nvlink_count;
    struct measured_op *measured;
    int measured_count, measured_capacity;
};

enum link_class {
    LINK_NVLINK, /* GPU to GPU, or GPU to NVSwitch */
    LINK_PCIE,
    LINK_SOCKET, /* between the CPUs of a node */
    LINK_MEMORY, /* host memory to its CPU */
    LINK_NIC,    /* a network port: NIC to leaf switch */
    LINK_FABRIC, /* leaf to spine */
    LINK_CLASS_COUNT
};
const char *
link_class_name(enum link_class c); /* "NVLink", "PCIe", "socket", "memory", "NIC", "fabric" */

enum vertex_kind { VERTEX_GPU, VERTEX_HOST, VERTEX_NIC, VERTEX_CPU, VERTEX_SWITCH };

struct vertex {
    char *name; /* "gpu0", "host", "mlx5_0", "cpu1", "nvswitch", "plx2" */
    enum vertex_kind kind;
    int device; /* GPU: index into node->devices; -1 elsewhere */
};

/* Full duplex: `bytes_per_second` in each direction (directed link 2i: a to b, 2i+1: b to a). */
struct link {
    int a, b; /* vertices */
    enum link_class class;
    double bytes_per_second;
    double latency_seconds;
    int count; /* bonded NVLinks that this link stands for; 1 elsewhere */
};

/* platforms/nodes/NAME.json: one machine. Exactly one VERTEX_HOST (all of the node's memory),
 * joined to every CPU. */
struct node_model {
    char *name, *source;
    uint64_t file_hash;
    int gpu_count;
    const struct device_model *
        *devices; /* gpu_count: the model of each GPU; owned by the platform */
    const struct device_model *host;
    int *gpu_vertex; /* gpu_count */
    int host_vertex;
    struct vertex *vertices;
    int vertex_count, vertex_capacity;
    struct link *links;
    int link_count, link_capacity;
};

enum collective_model {
    COLLECTIVES_NCCL, /* latencies of NCCL's protocols, spec: NCCL 2.28 src/graph/tuning.cc */
    COLLECTIVES_LINKS /* the links' own latencies and nothing else: a pure network */
};

/* Everything that files gave, opened once; ends with platform_close. */
struct platform;

/* Where names are looked up: $REHEARSE_PLATFORMS (colon separated), then ./platforms, then the
 * installed data folder. A name with a '/' or ending in .json is a path. */
enum rh_status platform_open(struct platform **platform);
void platform_close(struct platform *platform);
enum rh_status platform_device(struct platform *p, const char *name,
                               const struct device_model **out);
enum rh_status platform_node(struct platform *p, const char *name, const struct node_model **out);
/* Names found in the folders, sorted; owned by the platform. */
enum platform_kind { PLATFORM_DEVICE, PLATFORM_NODE, PLATFORM_CLUSTER };
const char *const *platform_names(struct platform *p, enum platform_kind kind, int *count);

/* The files read so far: for the report ("platforms/nodes/dgx1v.json", hash). */
struct platform_file {
    const char *path;
    uint64_t hash;
};
const struct platform_file *platform_files(const struct platform *p, int *count);

enum fabric_kind { FABRIC_NONE, FABRIC_FAT_TREE, FABRIC_RING };

/* A cluster in use: node instances and their fabric. Directed links are numbered through the whole
 * cluster. Freed by cluster_free before its platform. */
struct cluster {
    char *name;
    const struct node_model **nodes; /* node_count */
    int node_count;
    enum fabric_kind fabric;
    enum collective_model collectives;
    double step_seconds; /* COLLECTIVES_LINKS: endpoint cost of one step, beside link latencies */
    double port_bytes_per_second, port_latency_seconds; /* NIC to leaf, one port */
    double oversubscription; /* >= 1: leaf down-bandwidth over up-bandwidth */
    int leaf_nodes;          /* nodes under one leaf (per rail when rails) */
    bool rails;     /* NIC i of every node meets on leaf i; spine only between rails or leaves */
    int *gpu_first; /* node_count + 1: global number of a node's first GPU */
    int gpu_count;
    char *native_path;   /* SimGrid XML: hosts and routes are SimGrid's own; NULL otherwise */
    char **native_hosts; /* gpu_count: SimGrid host of each GPU */
    struct cluster_private *private;
};

/* From an experiment's `cluster`: a name (platforms/clusters/NAME.json, or a node's name = one such
 * node… as many as `devices_wanted` needs), a path, a SimGrid .xml file, or an object with `node`
 * (name) or `nodes` list, `nodes` (count), `fabric`, `oversubscription`. Where the node count is
 * left out there are as many nodes as `devices_wanted` GPUs need. */
enum rh_status cluster_open(struct platform *p, const cJSON *json, const char *where,
                            int devices_wanted, struct cluster **cluster);
void cluster_free(struct cluster *cluster);

/* Devices of a cluster have one number: GPUs first (node by node, 0 … gpu_count-1), then the nodes'
 * hosts (gpu_count + node). */
static inline int cluster_host_device(const struct cluster *c, int node)
{
    return c->gpu_count + node;
}
int cluster_device_node(const struct cluster *c, int device);
const struct device_model *cluster_device_model(const struct cluster *c, int device);
char *cluster_device_name(const struct cluster *c, int device, char out[48]); /* "node0:gpu3" */

/* The way from one device to another: directed link numbers, in order. Within a node: fewest hops,
 * then widest, NVLink preferred, as NCCL; between nodes: GPU, its nearest NIC (channel `channel` of
 * those equally near), leaf, spine, leaf, NIC, GPU. Routes are kept by the cluster and valid until
 * it is freed. Not for native clusters (fails). */
struct route {
    const int *links;
    int count;
    double latency_seconds;
    double bytes_per_second; /* of the narrowest link */
    bool by_nvlink;          /* only NVLink inside a node */
    bool by_network;         /* leaves the node */
};
enum rh_status cluster_route(struct cluster *c, int from, int to, int channel, struct route *route);

/* Directed links of the cluster. */
struct directed_link {
    const char *name; /* unique, without blanks: "n0.gpu0-nvswitch.up" */
    enum link_class class;
    double bytes_per_second, latency_seconds;
};
int cluster_link_count(const struct cluster *c);
const struct directed_link *cluster_link(const struct cluster *c, int link);

/* NVLinks (count) between two GPUs of one node, -1 when they meet at an NVSwitch. */
int node_nvlinks(const struct node_model *node, int gpu_a, int gpu_b);

/* Writes a node as JSON that platform_node reads back equal. The caller frees with cJSON_Delete. */
cJSON *node_to_json(const struct node_model *node);

/* Imports (import_smi.c, import_nccl.c): a `nvidia-smi topo -m` or `-p2p` matrix, or an NCCL
 * topology XML, as a node. `device` names the device model of its GPUs where the file does not tell
 * (NULL: from sm and NVLinks, else an error that asks for --gpu). The node is owned by the
 * platform. */
enum rh_status platform_import(struct platform *p, const char *path, const char *device,
                               const char *name, const struct node_model **node);

#endif
