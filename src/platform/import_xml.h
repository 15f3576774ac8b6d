/* The steps of import_nccl.c: what an NCCL topology XML holds, which GPUs these are, and the node.
 */
#ifndef REHEARSE_PLATFORM_IMPORT_XML_H
#define REHEARSE_PLATFORM_IMPORT_XML_H

#include <libxml/tree.h>

#include "platform/import.h"

struct xml_gpu {
    const xmlNode *pci;
    char *busid;
    long number;    /* its `dev`, else its place in the file */
    int capability; /* 0: not in the file */
    int vertex;
};

struct xml_nic {
    const xmlNode *pci, *net; /* `net` NULL: the file has only the PCI function */
    int vertex;
};

struct xml_topology {
    struct node_record *node;
    bool is_static; /* no <gpu>: a cloud's file for NCCL_TOPO_FILE, GPUs by PCI class */
    bool by_place;  /* static, without PCI classes: GPUs and NICs told apart by their order */
    bool guessed;
    const struct device_model *device;
    struct xml_gpu *gpus;
    int gpu_count, gpu_capacity;
    struct xml_nic *nics;
    int nic_count, nic_capacity;
    int switch_count;
};

/* Attributes and children. Texts are copies (free), NULL where absent. */
char *xml_text(const xmlNode *element, const char *name);
enum rh_status xml_number(const xmlNode *element, const char *name, long base, long *value);
bool xml_is(const xmlNode *node, const char *name);
const xmlNode *xml_child(const xmlNode *element, const char *name);
enum rh_status xml_pcie_rate(const xmlNode *pci, double *rate);

/* Lists GPUs (by number) and NICs. */
enum rh_status xml_collect(const xmlNode *root, struct xml_topology *topology);
enum rh_status xml_find_device(const struct import *import, struct xml_topology *topology);
enum rh_status xml_build(const struct import *import, const xmlNode *root, int cpu_count,
                         double socket_bytes_per_second, struct xml_topology *topology);
void xml_topology_free(struct xml_topology *topology);

#endif
