/* Reading a topology file of another tool: which kind it is, and what both kinds need. */
#include "platform/import.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { MOST_CPUS = 64 };

enum rh_status import_device(const struct import *import, const char *name,
                             const struct device_model **device)
{
    RETURN_IF_FAILED(platform_device(import->platform, name, device));
    if ((*device)->host)
        return fail(RH_INVALID, "device '%s' is a host, not a GPU", name);
    return RH_OK;
}

const char *import_guess_by_nvlinks(int nvlinks)
{
    return nvlinks == 6    ? "v100-sxm2-32gb"
           : nvlinks == 12 ? "a100-sxm4-40gb"
           : nvlinks == 18 ? "h100-sxm5-80gb"
                           : NULL;
}

const char *import_guess_by_capability(int capability)
{
    return capability == 61   ? "gtx-1080"
           : capability == 70 ? "v100-sxm2-32gb"
           : capability == 80 ? "a100-sxm4-40gb"
           : capability == 90 ? "h100-sxm5-80gb"
                              : NULL;
}

double import_pcie_rate(const struct device_model *device)
{
    return device->compute_capability >= 90 ? 48e9 : device->compute_capability >= 80 ? 24e9 : 12e9;
}

double import_nic_rate(const struct device_model *device)
{
    /* the reference systems' NICs, at 96 % of 100, 200, 400 Gb/s; cards on PCIe have 100 Gb/s */
    return device->nvlink_count >= 18 ? 48e9 : device->nvlink_count >= 12 ? 24e9 : 12e9;
}

enum rh_status import_add_cpus(const struct import *import, struct node_record *node, int count,
                               double socket_bytes_per_second, int *cpus)
{
    if (count > MOST_CPUS)
        return fail(RH_INVALID, "%d CPUs; at most %d are read", count, MOST_CPUS);
    RETURN_IF_FAILED(platform_device(import->platform, "generic-host", &node->model.host));
    int host = node_add_vertex(node, VERTEX_HOST, "host");
    double memory = node->model.host->memory_bytes_per_second / (count ? count : 1);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "cpu%d", i);
        cpus[i] = node_add_vertex(node, VERTEX_CPU, name);
        node_add_link(node, cpus[i], host, LINK_MEMORY, memory, MEMORY_LATENCY, 1);
        for (int j = 0; j < i; j++)
            node_add_link(node, cpus[j], cpus[i], LINK_SOCKET, socket_bytes_per_second,
                          SOCKET_LATENCY, 1);
    }
    return RH_OK;
}

void import_add_nvswitch(struct node_record *node, int nvlinks)
{
    int nvswitch = node_add_vertex(node, VERTEX_SWITCH, "nvswitch");
    for (int gpu = 0; gpu < node->model.gpu_count; gpu++)
        node_add_link(node, node->model.gpu_vertex[gpu], nvswitch, LINK_NVLINK,
                      nvlinks * node->model.devices[gpu]->nvlink_bytes_per_second, NVLINK_LATENCY,
                      nvlinks);
}

static char *name_from_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = text_copy(slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = '\0';
    return name;
}

enum rh_status platform_import(struct platform *p, const char *path, const char *device,
                               const char *name, const struct node_model **node)
{
    const struct located file = {(char *)(uintptr_t)path, (char *)(uintptr_t)path};
    char *text = NULL;
    uint64_t hash = 0;
    RETURN_IF_FAILED(platform_read_text(p, &file, &text, &hash));
    char *own_name = name ? text_copy(name) : name_from_path(path);
    const struct import import = {p, path, device, own_name};
    const char *start = text;
    while (isspace((unsigned char)*start))
        start++;
    struct node_record *made = NULL;
    enum rh_status status =
        *start == '<' ? import_nccl(&import, text, &made) : import_smi(&import, text, &made);
    if (status == RH_OK) {
        char *key = text_format("import of %s as %s", path, own_name);
        made->model.file_hash = hash;
        platform_keep_node(p, key, made);
        *node = &made->model;
        free(key);
    } else {
        fail_within(status, "'%s'", path);
    }
    free(own_name);
    free(text);
    return status;
}
