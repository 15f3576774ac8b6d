/* The node of an NCCL topology XML, once its GPUs and NICs are known. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/import_xml.h"

enum { MOST_NVLINKS = 64 };

static struct xml_gpu *gpu_of(struct xml_topology *t, const xmlNode *pci)
{
    for (int i = 0; i < t->gpu_count; i++)
        if (t->gpus[i].pci == pci)
            return &t->gpus[i];
    return NULL;
}

static struct xml_gpu *gpu_by_busid(struct xml_topology *t, const char *busid)
{
    for (int i = 0; i < t->gpu_count; i++)
        if (strcmp(t->gpus[i].busid, busid) == 0)
            return &t->gpus[i];
    return NULL;
}

static bool has_devices(struct xml_topology *t, const xmlNode *pci)
{
    if (gpu_of(t, pci))
        return true;
    for (int i = 0; i < t->nic_count; i++)
        if (t->nics[i].pci == pci)
            return true;
    for (const xmlNode *child = pci->children; child; child = child->next)
        if (xml_is(child, "pci") && has_devices(t, child))
            return true;
    return false;
}

/* NIC rate: 96 % of the line rate, which is what NCCL's search uses of 100, 200 and 400 Gb/s. */
static enum rh_status add_nics(struct xml_topology *t)
{
    for (int i = 0; i < t->nic_count; i++) {
        struct xml_nic *nic = &t->nics[i];
        char *name = nic->net ? xml_text(nic->net, "name") : NULL;
        char made[32];
        snprintf(made, sizeof made, "nic%d", i);
        nic->vertex = node_add_vertex(t->node, VERTEX_NIC, name ? name : made);
        free(name);
        double rate = import_nic_rate(t->device);
        long megabits = 0;
        if (nic->net) {
            RETURN_IF_FAILED(xml_number(nic->net, "speed", 10, &megabits));
            rate = (double)(megabits > 0 ? megabits : 10000) / 8000 * 1e9 * 0.96;
        }
        t->node->port_bytes_per_second[nic->vertex] = rate;
    }
    return RH_OK;
}

/* Broadcom's gen4 and gen5 switches show as two levels, the upper one with a wrong speed; NCCL
 * takes them as one. */
static bool is_two_level_switch(const xmlNode *pci)
{
    char *vendor = xml_text(pci, "vendor");
    char *device = xml_text(pci, "device");
    bool found = vendor && device && strcmp(vendor, "0x1000") == 0 &&
                 (strcmp(device, "0xc030") == 0 || strcmp(device, "0xc010") == 0);
    free(vendor);
    free(device);
    return found;
}

static enum rh_status switch_rate(const xmlNode *pci, double *rate)
{
    RETURN_IF_FAILED(xml_pcie_rate(pci, rate));
    for (const xmlNode *child = pci->children; is_two_level_switch(pci) && child;
         child = child->next) {
        double own = 0;
        if (xml_is(child, "pci"))
            RETURN_IF_FAILED(xml_pcie_rate(child, &own));
        *rate = fmax(*rate, own);
    }
    return RH_OK;
}

static enum rh_status add_pci(struct xml_topology *t, const xmlNode *pci, const xmlNode *parent_pci,
                              int parent)
{
    double rate = 0;
    struct xml_gpu *gpu = gpu_of(t, pci);
    bool leaf = gpu != NULL;
    RETURN_IF_FAILED(xml_pcie_rate(pci, &rate));
    if (gpu)
        node_add_link(t->node, gpu->vertex, parent, LINK_PCIE, rate, PCIE_LATENCY, 1);
    for (int i = 0; i < t->nic_count; i++) {
        struct xml_nic *nic = &t->nics[i];
        if (nic->pci != pci)
            continue;
        double *port = &t->node->port_bytes_per_second[nic->vertex];
        *port = fmin(*port, rate);
        node_add_link(t->node, nic->vertex, parent, LINK_PCIE, rate, PCIE_LATENCY, 1);
        leaf = true;
    }
    if (leaf || !has_devices(t, pci))
        return RH_OK;
    if (!is_two_level_switch(pci) || !parent_pci || !is_two_level_switch(parent_pci)) {
        char name[32];
        snprintf(name, sizeof name, "plx%d", t->switch_count++);
        RETURN_IF_FAILED(switch_rate(pci, &rate));
        int vertex = node_add_vertex(t->node, VERTEX_SWITCH, name);
        node_add_link(t->node, vertex, parent, LINK_PCIE, rate, PCIE_LATENCY, 1);
        parent = vertex;
    }
    for (const xmlNode *child = pci->children; child; child = child->next)
        if (xml_is(child, "pci"))
            RETURN_IF_FAILED(add_pci(t, child, pci, parent));
    return RH_OK;
}

/* All below one CPU; NICs that stand directly below it have no PCIe function of their own. */
static enum rh_status add_cpu(struct xml_topology *t, const xmlNode *cpu, int vertex)
{
    for (int i = 0; i < t->nic_count; i++)
        if (t->nics[i].pci == cpu)
            node_add_link(t->node, t->nics[i].vertex, vertex, LINK_PCIE,
                          import_pcie_rate(t->device), PCIE_LATENCY, 1);
    for (const xmlNode *child = cpu->children; child; child = child->next)
        if (xml_is(child, "pci"))
            RETURN_IF_FAILED(add_pci(t, child, NULL, vertex));
    return RH_OK;
}

/* NVLinks that one GPU's element states towards `peer` (NULL: towards NVSwitches). */
static enum rh_status stated_nvlinks(struct xml_topology *t, const struct xml_gpu *gpu,
                                     const struct xml_gpu *peer, int *count)
{
    const xmlNode *element = xml_child(gpu->pci, "gpu");
    *count = 0;
    for (const xmlNode *link = element ? element->children : NULL; link; link = link->next) {
        if (!xml_is(link, "nvlink"))
            continue;
        long links = 1;
        long class = 0;
        RETURN_IF_FAILED(xml_number(link, "count", 10, &links));
        RETURN_IF_FAILED(xml_number(link, "tclass", 16, &class));
        if (links < 1 || links > MOST_NVLINKS)
            return fail(RH_INVALID, "line %ld: nvlink count=\"%ld\"; 1 to %d are read",
                        xmlGetLineNo(link), links, MOST_NVLINKS);
        char *target = xml_text(link, "target");
        bool meant = peer ? target && gpu_by_busid(t, target) == peer : class == 0x068000;
        free(target);
        *count += meant ? (int)links : 0;
    }
    return RH_OK;
}

static enum rh_status add_pair(struct xml_topology *t, struct xml_gpu *a, struct xml_gpu *b)
{
    int there = 0;
    int back = 0;
    RETURN_IF_FAILED(stated_nvlinks(t, a, b, &there));
    RETURN_IF_FAILED(stated_nvlinks(t, b, a, &back));
    if (there != back)
        return fail(RH_INVALID, "gpu %ld states %d NVLinks to gpu %ld, which states %d back",
                    a->number, there, b->number, back);
    if (there && !t->device->nvlink_count)
        return fail(RH_INVALID, "gpu %ld has %d NVLinks to gpu %ld; device '%s' has 0", a->number,
                    there, b->number, t->device->name);
    if (there)
        node_add_link(t->node, a->vertex, b->vertex, LINK_NVLINK,
                      there * t->device->nvlink_bytes_per_second, NVLINK_LATENCY, there);
    return RH_OK;
}

static enum rh_status add_nvlinks(struct xml_topology *t)
{
    int switched = 0;
    for (int i = 0; i < t->gpu_count; i++) {
        int count = 0;
        RETURN_IF_FAILED(stated_nvlinks(t, &t->gpus[i], NULL, &count));
        if (i && count != switched)
            return fail(RH_INVALID, "gpu %ld has %d NVLinks to NVSwitches, gpu %ld has %d",
                        t->gpus[0].number, switched, t->gpus[i].number, count);
        switched = count;
        for (int j = 0; j < i; j++)
            RETURN_IF_FAILED(add_pair(t, &t->gpus[j], &t->gpus[i]));
    }
    /* a static file leaves NVLinks to be found at run time; boards with 12 or more are switched */
    if (t->is_static && t->device->nvlink_count >= 12 && t->gpu_count >= 3)
        switched = t->device->nvlink_count;
    if (switched > t->device->nvlink_count)
        return fail(RH_INVALID, "gpu %ld has %d NVLinks; device '%s' has %d", t->gpus[0].number,
                    switched, t->device->name, t->device->nvlink_count);
    if (switched)
        import_add_nvswitch(t->node, switched);
    return RH_OK;
}

static char *describe_source(const struct import *import, const struct xml_topology *t)
{
    const char *slash = strrchr(import->path, '/');
    bool rates_missing = false;
    struct text text = {0};
    text_add(&text, "NCCL topology file %s, with NCCL 2.28's bandwidths.",
             slash ? slash + 1 : import->path);
    if (t->guessed)
        text_add(&text, " The GPU model was guessed from the compute capability.");
    if (t->is_static)
        text_add(&text, t->device->nvlink_count >= 12 && t->gpu_count >= 3
                            ? " NVLinks are not in the file; NVSwitch is assumed."
                            : " NVLinks are not in the file, and none are assumed.");
    if (t->by_place)
        text_add(&text,
                 " PCI classes are not in the file: of each CPU, as many functions as the CPU "
                 "with the fewest has are taken for GPUs, and what is left for NICs.");
    for (int i = 0; i < t->nic_count; i++)
        rates_missing |= !t->nics[i].net;
    if (rates_missing)
        text_add(&text,
                 " The NICs' speed is not in the file; that of systems with such GPUs is assumed.");
    return text.data;
}

enum rh_status xml_build(const struct import *import, const xmlNode *root, int cpu_count,
                         double socket_bytes_per_second, struct xml_topology *t)
{
    char *source = describe_source(import, t);
    t->node = node_new(import->name, source);
    free(source);
    for (int i = 0; i < t->gpu_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "gpu%ld", t->gpus[i].number);
        t->gpus[i].vertex = node_add_gpu(t->node, name, t->device);
    }
    int *cpus = memory_new_array((size_t)cpu_count, sizeof *cpus);
    enum rh_status status =
        import_add_cpus(import, t->node, cpu_count, socket_bytes_per_second, cpus);
    if (status == RH_OK)
        status = add_nics(t);
    int cpu = 0;
    for (const xmlNode *child = root->children; status == RH_OK && child; child = child->next)
        if (xml_is(child, "cpu"))
            status = add_cpu(t, child, cpus[cpu++]);
    free(cpus);
    if (status == RH_OK)
        status = add_nvlinks(t);
    return status == RH_OK ? node_finish(t->node, "the imported node") : status;
}
