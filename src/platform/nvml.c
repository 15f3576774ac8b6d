/* The few calls of NVML that tell what GPUs there are. Its ABI is stable, so that no header of CUDA
 * is needed and every build can ask. */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/detect.h"

enum { NVML_LINKS = 18, REMOTE_GPU = 0, REMOTE_UNKNOWN = 255 };

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_pci {
    char legacy_busid[16];
    unsigned domain, bus, device, pci_id, subsystem_id;
    char busid[32];
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int);
    int (*driver)(char *, unsigned);
    int (*count)(unsigned *);
    int (*handle)(unsigned, void **);
    int (*name)(void *, char *, unsigned);
    int (*memory)(void *, struct nvml_memory *);
    int (*pci)(void *, struct nvml_pci *);
    int (*capability)(void *, int *, int *);
    int (*generation)(void *, unsigned *);
    int (*lanes)(void *, unsigned *);
    int (*link_state)(void *, unsigned, unsigned *);
    int (*link_remote)(void *, unsigned, struct nvml_pci *);
    int (*link_type)(void *, unsigned, int *); /* NULL in old drivers */
};

static enum rh_status find(struct nvml *nvml, const char *symbol, void *pointer)
{
    void *found = dlsym(nvml->library, symbol);
    memcpy(pointer, &found, sizeof found);
    return found ? RH_OK : fail(RH_FAILED, "no NVIDIA driver: NVML has no %s", symbol);
}

static enum rh_status find_all(struct nvml *n)
{
    const struct {
        const char *symbol;
        void *pointer;
    } symbols[] = {
        {"nvmlInit_v2", &n->init},
        {"nvmlShutdown", &n->shutdown},
        {"nvmlErrorString", &n->error},
        {"nvmlSystemGetDriverVersion", &n->driver},
        {"nvmlDeviceGetCount_v2", &n->count},
        {"nvmlDeviceGetHandleByIndex_v2", &n->handle},
        {"nvmlDeviceGetName", &n->name},
        {"nvmlDeviceGetMemoryInfo", &n->memory},
        {"nvmlDeviceGetPciInfo_v3", &n->pci},
        {"nvmlDeviceGetCudaComputeCapability", &n->capability},
        {"nvmlDeviceGetMaxPcieLinkGeneration", &n->generation},
        {"nvmlDeviceGetMaxPcieLinkWidth", &n->lanes},
        {"nvmlDeviceGetNvLinkState", &n->link_state},
        {"nvmlDeviceGetNvLinkRemotePciInfo_v2", &n->link_remote},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        RETURN_IF_FAILED(find(n, symbols[i].symbol, symbols[i].pointer));
    void *type = dlsym(n->library, "nvmlDeviceGetNvLinkRemoteDeviceType");
    memcpy(&n->link_type, &type, sizeof type);
    return RH_OK;
}

static enum rh_status nvml_open(struct nvml *n)
{
    const char *given = getenv("REHEARSE_NVML");
    memset(n, 0, sizeof *n);
    n->library = dlopen(given ? given : "libnvidia-ml.so.1", RTLD_NOW);
    if (!n->library)
        return fail(RH_FAILED, "no NVIDIA driver: %s", dlerror());
    enum rh_status status = find_all(n);
    int error = status == RH_OK ? n->init() : 0;
    if (error)
        status = fail(RH_FAILED, "no NVIDIA driver: nvmlInit: %s", n->error(error));
    if (status != RH_OK)
        dlclose(n->library);
    return status;
}

static void nvml_close(struct nvml *n)
{
    n->shutdown();
    dlclose(n->library);
}

static enum rh_status check(const struct nvml *n, unsigned gpu, const char *what, int error)
{
    return error ? fail(RH_FAILED, "gpu %u: NVML does not tell its %s: %s", gpu, what,
                        n->error(error))
                 : RH_OK;
}

/* NVML writes a domain of eight digits, the kernel and NCCL one of four where that is enough. */
static void short_busid(const char *busid, char out[32])
{
    size_t skip = strlen(busid) > 12 && strncmp(busid, "0000", 4) == 0 ? 4 : 0;
    snprintf(out, 32, "%s", busid + skip);
    for (char *at = out; *at; at++)
        *at = (char)tolower((unsigned char)*at);
}

/* A virtual machine may not know. */
static int numa_node_of(const char *busid)
{
    char path[96];
    int node = -1;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.31s/numa_node", busid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%d", &node) != 1)
        node = -1;
    if (file)
        fclose(file);
    return node;
}

static void add_link(struct detected_gpu *gpu, const char *to)
{
    for (int i = 0; i < gpu->link_count; i++)
        if (strcmp(gpu->links[i].to, to) == 0) {
            gpu->links[i].count++;
            return;
        }
    if (gpu->link_count == DETECT_MOST_LINKS)
        return;
    struct detected_link *link = &gpu->links[gpu->link_count++];
    snprintf(link->to, sizeof link->to, "%s", to);
    link->count = 1;
}

/* Links that are off or not there are errors of NVML, and no links to us. */
static void read_links(const struct nvml *n, void *handle, struct detected_gpu *gpu)
{
    for (unsigned link = 0; link < NVML_LINKS; link++) {
        unsigned active = 0;
        int type = REMOTE_UNKNOWN;
        struct nvml_pci remote;
        char busid[32] = "";
        memset(&remote, 0, sizeof remote);
        if (n->link_state(handle, link, &active) || !active)
            continue;
        if (!n->link_remote(handle, link, &remote))
            short_busid(remote.busid, busid);
        bool known = n->link_type && !n->link_type(handle, link, &type);
        add_link(gpu, known && type != REMOTE_GPU ? "" : busid);
    }
}

static enum rh_status read_gpu(const struct nvml *n, unsigned index, struct detected_gpu *gpu)
{
    void *handle = NULL;
    struct nvml_memory memory = {0};
    struct nvml_pci pci;
    int major = 0;
    int minor = 0;
    unsigned generation = 0;
    unsigned lanes = 0;
    memset(&pci, 0, sizeof pci);
    RETURN_IF_FAILED(check(n, index, "handle", n->handle(index, &handle)));
    RETURN_IF_FAILED(check(n, index, "name", n->name(handle, gpu->name, sizeof gpu->name)));
    RETURN_IF_FAILED(check(n, index, "memory", n->memory(handle, &memory)));
    RETURN_IF_FAILED(check(n, index, "bus", n->pci(handle, &pci)));
    RETURN_IF_FAILED(check(n, index, "compute capability", n->capability(handle, &major, &minor)));
    if (!n->generation(handle, &generation))
        gpu->pcie_generation = (int)generation;
    if (!n->lanes(handle, &lanes))
        gpu->pcie_lanes = (int)lanes;
    gpu->memory_bytes = (double)memory.total;
    gpu->capability = 10 * major + minor;
    short_busid(pci.busid, gpu->busid);
    gpu->numa_node = numa_node_of(gpu->busid);
    read_links(n, handle, gpu);
    return RH_OK;
}

/* What a link's other end is called counts only if it is a GPU of this machine; a switch otherwise.
 */
static void find_switches(struct detected *d)
{
    for (int i = 0; i < d->gpu_count; i++) {
        struct detected_gpu old = d->gpus[i];
        d->gpus[i].link_count = 0;
        for (int l = 0; l < old.link_count; l++) {
            bool is_gpu = false;
            for (int k = 0; k < d->gpu_count; k++)
                is_gpu |= strcmp(d->gpus[k].busid, old.links[l].to) == 0;
            for (int k = 0; k < old.links[l].count; k++)
                add_link(&d->gpus[i], is_gpu ? old.links[l].to : "");
        }
    }
}

static enum rh_status read_all(const struct nvml *n, struct detected *d)
{
    unsigned count = 0;
    int error = n->count(&count);
    if (error)
        return fail(RH_FAILED, "no GPU: %s", n->error(error));
    if (count == 0)
        return fail(RH_FAILED, "no GPU: the driver shows none");
    if (count > DETECT_MOST_GPUS)
        return fail(RH_FAILED, "%u GPUs; at most %d are read", count, DETECT_MOST_GPUS);
    n->driver(d->driver, sizeof d->driver);
    for (unsigned i = 0; i < count; i++)
        RETURN_IF_FAILED(read_gpu(n, i, &d->gpus[d->gpu_count++]));
    find_switches(d);
    return RH_OK;
}

enum rh_status nvml_detect(struct detected *detected)
{
    struct nvml nvml;
    memset(detected, 0, sizeof *detected);
    RETURN_IF_FAILED(nvml_open(&nvml));
    enum rh_status status = read_all(&nvml, detected);
    nvml_close(&nvml);
    return status;
}

bool nvml_driver_version(char version[96])
{
    struct nvml nvml;
    if (nvml_open(&nvml) != RH_OK)
        return false;
    bool known = nvml.driver(version, 96) == 0;
    nvml_close(&nvml);
    return known;
}
