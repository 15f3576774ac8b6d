#include <stdlib.h>

#include "api/tensor.h"
#include "backends/backend.h"
#include "base/memory.h"

static enum rh_status open_cluster(struct rh_cluster *c, const char *text, int devices)
{
    cJSON *json = NULL;
    if (text[0] == '{')
        RETURN_IF_FAILED(json_read_text("cluster", text, &json));
    else
        json = cJSON_CreateString(text);
    enum rh_status status = cluster_open(c->platform, json, "cluster", devices, &c->cluster);
    cJSON_Delete(json);
    RETURN_IF_FAILED(status);
    if (devices < 1 || devices > c->cluster->gpu_count)
        return fail(RH_INVALID, "cluster '%s' has %d devices; %d are asked for", c->cluster->name,
                    c->cluster->gpu_count, devices);
    /* one process moves tensors among the GPUs of its own node */
    for (int i = 1; i < devices; i++)
        if (cluster_device_node(c->cluster, i) != cluster_device_node(c->cluster, 0))
            return fail(RH_INVALID,
                        "cluster '%s': device %d is on another node; a process has the %d GPUs of "
                        "one node",
                        c->cluster->name, i, i);
    c->device_count = devices;
    c->devices = memory_new_array((size_t)devices, sizeof *c->devices);
    for (int i = 0; i < devices; i++)
        c->devices[i] = i;
    return RH_OK;
}

enum rh_status rh_cluster_open(const char *cluster, int devices, const char *backend,
                               struct rh_cluster **out)
{
    struct rh_cluster *c = memory_new(sizeof *c);
    *out = NULL;
    enum rh_status status = backend_find(backend ? backend : "simgrid", &c->backend);
    if (status == RH_OK)
        status = platform_open(&c->platform);
    if (status == RH_OK)
        status = open_cluster(c, cluster, devices);
    if (status == RH_OK) {
        struct backend_options options = {.cluster = c->cluster,
                                          .devices = c->devices,
                                          .device_count = c->device_count,
                                          .numbers = true,
                                          .compute_scale = 1,
                                          .bucket_tensor_seconds = -1};
        status = c->backend->open(&options, &c->session);
    }
    if (status != RH_OK) {
        rh_cluster_close(c);
        return status;
    }
    *out = c;
    return RH_OK;
}

void rh_cluster_close(struct rh_cluster *c)
{
    if (!c)
        return;
    if (c->session)
        c->backend->close(c->session);
    if (c->cluster)
        cluster_free(c->cluster);
    if (c->platform)
        platform_close(c->platform);
    free(c->devices);
    free(c);
}

int rh_cluster_devices(const struct rh_cluster *cluster)
{
    return cluster->device_count;
}
