/* Who is a GPU and who a NIC in an NCCL topology XML. With <gpu> elements those are the GPUs and
 * <net> elements the NICs. Static files of clouds have only PCI functions: classes 0x0300.. and
 * 0x0302.. are GPUs, 0x02.... NICs. One known file (AWS g5) has bus numbers only: there every CPU's
 * first functions are GPUs, as many as the CPU with the fewest has; what is left over is a NIC. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/import_xml.h"

enum { DEEPEST = 64, MOST_DEVICES = 256 };

void xml_topology_free(struct xml_topology *topology)
{
    for (int i = 0; i < topology->gpu_count; i++)
        free(topology->gpus[i].busid);
    free(topology->gpus);
    free(topology->nics);
}

static enum rh_status pci_class(const xmlNode *pci, long *class)
{
    *class = -1;
    return xml_number(pci, "class", 16, class);
}

static bool has_gpu_element(const xmlNode *element, int depth)
{
    for (const xmlNode *child = element->children; child; child = child->next)
        if (child->type == XML_ELEMENT_NODE && depth < DEEPEST &&
            (xml_is(child, "gpu") || has_gpu_element(child, depth + 1)))
            return true;
    return false;
}

static enum rh_status add_gpu(struct xml_topology *t, const xmlNode *pci, const xmlNode *gpu)
{
    if (t->gpu_count >= MOST_DEVICES)
        return fail(RH_INVALID, "more than %d GPUs", MOST_DEVICES);
    long number = t->gpu_count;
    long capability = 0;
    if (gpu) {
        RETURN_IF_FAILED(xml_number(gpu, "dev", 10, &number));
        RETURN_IF_FAILED(xml_number(gpu, "sm", 10, &capability));
    }
    struct xml_gpu *added = ARRAY_ADD(t->gpus, t->gpu_count, t->gpu_capacity);
    *added = (struct xml_gpu){pci, xml_text(pci, "busid"), number, (int)capability, -1};
    if (!added->busid)
        return fail(RH_INVALID, "line %ld: <pci> has no busid", xmlGetLineNo(pci));
    for (int i = 0; i + 1 < t->gpu_count; i++) {
        if (strcmp(t->gpus[i].busid, added->busid) == 0)
            return fail(RH_INVALID, "line %ld: busid '%s' is given twice", xmlGetLineNo(pci),
                        added->busid);
        if (t->gpus[i].number == number)
            return fail(RH_INVALID, "line %ld: gpu dev=\"%ld\" is given twice", xmlGetLineNo(pci),
                        number);
    }
    return RH_OK;
}

static enum rh_status add_nic(struct xml_topology *t, const xmlNode *pci, const xmlNode *net)
{
    if (t->nic_count >= MOST_DEVICES)
        return fail(RH_INVALID, "more than %d NICs", MOST_DEVICES);
    *ARRAY_ADD(t->nics, t->nic_count, t->nic_capacity) = (struct xml_nic){pci, net, -1};
    return RH_OK;
}

static enum rh_status add_nets(struct xml_topology *t, const xmlNode *pci, const xmlNode *nic)
{
    for (const xmlNode *net = nic->children; net; net = net->next)
        if (xml_is(net, "net"))
            RETURN_IF_FAILED(add_nic(t, pci, net));
    return RH_OK;
}

static enum rh_status collect(struct xml_topology *t, const xmlNode *parent, int depth)
{
    if (depth > DEEPEST)
        return fail(RH_INVALID, "elements are nested more than %d deep", DEEPEST);
    for (const xmlNode *child = parent->children; child; child = child->next) {
        if (xml_is(child, "nic") && xml_is(parent, "cpu"))
            RETURN_IF_FAILED(add_nets(t, parent, child));
        if (xml_is(child, "cpu"))
            RETURN_IF_FAILED(collect(t, child, depth + 1));
        if (!xml_is(child, "pci"))
            continue;
        long class = 0;
        RETURN_IF_FAILED(pci_class(child, &class));
        const xmlNode *gpu = xml_child(child, "gpu");
        const xmlNode *nic = xml_child(child, "nic");
        bool is_gpu_class = class >> 8 == 0x0300 || class >> 8 == 0x0302;
        if (gpu || (t->is_static && is_gpu_class))
            RETURN_IF_FAILED(add_gpu(t, child, gpu));
        else if (nic)
            RETURN_IF_FAILED(add_nets(t, child, nic));
        else if (t->is_static && class >> 16 == 0x02)
            RETURN_IF_FAILED(add_nic(t, child, NULL));
        RETURN_IF_FAILED(collect(t, child, depth + 1));
    }
    return RH_OK;
}

/* Functions directly below a CPU, without class and children; -1: the file is not of that shape. */
static int count_bare(const xmlNode *cpu)
{
    int count = 0;
    for (const xmlNode *child = cpu->children; child; child = child->next) {
        if (child->type != XML_ELEMENT_NODE)
            continue;
        char *class = xml_text(child, "class");
        bool bare = xml_is(child, "pci") && !class && !xml_child(child, "pci");
        free(class);
        if (!bare)
            return -1;
        count++;
    }
    return count;
}

static enum rh_status collect_bare(struct xml_topology *t, const xmlNode *root)
{
    int fewest = -1;
    for (const xmlNode *cpu = root->children; cpu; cpu = cpu->next) {
        int count = xml_is(cpu, "cpu") ? count_bare(cpu) : 0;
        if (count < 0)
            return RH_OK;
        if (xml_is(cpu, "cpu") && (fewest < 0 || count < fewest))
            fewest = count;
    }
    t->by_place = true;
    for (const xmlNode *cpu = root->children; cpu; cpu = cpu->next) {
        int seen = 0;
        if (!xml_is(cpu, "cpu"))
            continue;
        for (const xmlNode *pci = cpu->children; pci; pci = pci->next)
            if (xml_is(pci, "pci"))
                RETURN_IF_FAILED(seen++ < fewest ? add_gpu(t, pci, NULL) : add_nic(t, pci, NULL));
    }
    return RH_OK;
}

static int compare_gpus(const void *a, const void *b)
{
    long one = ((const struct xml_gpu *)a)->number;
    long other = ((const struct xml_gpu *)b)->number;
    return (one > other) - (one < other);
}

enum rh_status xml_collect(const xmlNode *root, struct xml_topology *t)
{
    t->is_static = !has_gpu_element(root, 0);
    RETURN_IF_FAILED(collect(t, root, 0));
    if (t->is_static && !t->gpu_count && !t->nic_count)
        RETURN_IF_FAILED(collect_bare(t, root));
    if (!t->gpu_count)
        return fail(RH_INVALID,
                    "no GPU: neither <gpu> elements nor PCI functions of class 0x0300 or "
                    "0x0302");
    qsort(t->gpus, (size_t)t->gpu_count, sizeof *t->gpus, compare_gpus);
    return RH_OK;
}

/* PCI device numbers of the models in platforms/devices (The PCI ID Repository, pci.ids). */
static const char *name_of_pci(const xmlNode *pci)
{
    static const struct {
        const char *id, *name;
    } models[] = {{"0x1b80", "gtx-1080"},
                  {"0x1db1", "v100-sxm2-16gb"},
                  {"0x1db5", "v100-sxm2-32gb"},
                  {"0x20b0", "a100-sxm4-40gb"},
                  {"0x20b2", "a100-sxm4-80gb"},
                  {"0x2204", "rtx-3090"},
                  {"0x2235", "a40"},
                  {"0x2330", "h100-sxm5-80gb"},
                  {"0x2335", "h200-sxm-141gb"},
                  {"0x2684", "rtx-4090"}};
    char *id = xml_text(pci, "device");
    const char *name = NULL;
    for (size_t i = 0; id && i < sizeof models / sizeof *models; i++)
        if (strcmp(id, models[i].id) == 0)
            name = models[i].name;
    free(id);
    return name;
}

enum rh_status xml_find_device(const struct import *import, struct xml_topology *t)
{
    const struct xml_gpu *first = &t->gpus[0];
    if (import->device)
        return import_device(import, import->device, &t->device);
    if (t->is_static)
        return fail(RH_INVALID,
                    "the file has no <gpu> elements, only %d PCI functions that are GPUs; "
                    "name their device with --gpu",
                    t->gpu_count);
    for (int i = 1; i < t->gpu_count; i++)
        if (t->gpus[i].capability != first->capability)
            return fail(RH_INVALID,
                        "gpu %ld has sm=\"%d\", gpu %ld has sm=\"%d\"; GPUs of one kind "
                        "are read, name it with --gpu",
                        first->number, first->capability, t->gpus[i].number, t->gpus[i].capability);
    const char *name = name_of_pci(first->pci);
    t->guessed = !name;
    if (!name)
        name = import_guess_by_capability(first->capability);
    if (!name)
        return fail(RH_INVALID,
                    "the file does not tell which GPUs these are (sm=\"%d\"); name their "
                    "device with --gpu",
                    first->capability);
    RETURN_IF_FAILED(import_device(import, name, &t->device));
    return RH_OK;
}
