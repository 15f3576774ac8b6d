/* What the two imports share: an `nvidia-smi topo` matrix and an NCCL topology XML become nodes
 * with the bandwidths that NCCL 2.28 counts on (src/graph/topo.h, topo.cc), in bytes/s each way. */
#ifndef REHEARSE_PLATFORM_IMPORT_H
#define REHEARSE_PLATFORM_IMPORT_H

#include "platform/private.h"

struct import {
    struct platform *platform;
    const char *path;
    const char *device; /* asked for by the caller, or NULL */
    const char *name;   /* of the node */
};

/* Both make a node that node_finish has accepted, or fail. `text` is the file. */
enum rh_status import_smi(const struct import *import, const char *text, struct node_record **node);
enum rh_status import_nccl(const struct import *import, const char *text,
                           struct node_record **node);

/* The GPU model by name. */
enum rh_status import_device(const struct import *import, const char *name,
                             const struct device_model **device);
/* The model that a number of NVLinks per GPU, or a compute capability, points to; NULL: several or
 * none. Memory sizes cannot be told apart: the most common one is named. */
const char *import_guess_by_nvlinks(int nvlinks);
const char *import_guess_by_capability(int capability);

/* Rates where the file has none: PCIe x16 and one NIC beside GPUs of that generation. */
double import_pcie_rate(const struct device_model *device);
double import_nic_rate(const struct device_model *device);

/* Host, its memory, and `count` CPUs linked to it and to each other; cpus[i] is a vertex. */
enum rh_status import_add_cpus(const struct import *import, struct node_record *node, int count,
                               double socket_bytes_per_second, int *cpus);
/* One NVSwitch vertex that joins all GPUs with all their NVLinks. */
void import_add_nvswitch(struct node_record *node, int nvlinks);

#endif
