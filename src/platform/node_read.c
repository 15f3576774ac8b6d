/* platforms/nodes/NAME.json to a node and back.
 *   name, source, comment   texts
 *   gpu                     device of the GPUs that name none of their own
 *   host                    device file of the host
 *   peer_access             false: GPUs exchange through the host's memory (default true)
 *   vertices                [{name, kind: gpu|host|nic|cpu|switch, device, bytes_per_second}]
 *                           device: of a GPU; bytes_per_second: a NIC's network rate, each way
 *   links                   [{a, b, class, bytes_per_second, latency_seconds, count}] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/private.h"

enum { MOST_VERTICES = 512 };

static enum rh_status read_vertex(struct platform *p, const cJSON *json, const char *where,
                                  const char *gpu, struct node_record *node)
{
    static const char *const kinds[] = {"gpu", "host", "nic", "cpu", "switch"};
    const char *name = NULL;
    const char *kind = NULL;
    int index = 0;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(json, where, "name", "kind", "device", "bytes_per_second"));
    RETURN_IF_FAILED(json_string_required(json, where, "name", &name));
    RETURN_IF_FAILED(json_string_required(json, where, "kind", &kind));
    if (json_choice("kind", kind, kinds, 5, &index) != RH_OK)
        return fail_within(RH_INVALID, "%s: vertex '%s'", where, name);
    char inner[1024];
    snprintf(inner, sizeof inner, "%.500s: vertex '%.400s'", where, name);
    if (index != VERTEX_GPU) {
        if (cJSON_GetObjectItemCaseSensitive(json, "device"))
            return fail(RH_INVALID, "%s: 'device' is for GPUs; this is a %s", inner, kind);
        int vertex = node_add_vertex(node, (enum vertex_kind)index, name);
        if (index != VERTEX_NIC) {
            if (cJSON_GetObjectItemCaseSensitive(json, "bytes_per_second"))
                return fail(RH_INVALID, "%s: 'bytes_per_second' is for NICs; this is a %s", inner,
                            kind);
            return RH_OK;
        }
        return json_number_required(json, inner, "bytes_per_second", 1, 1e18,
                                    &node->port_bytes_per_second[vertex]);
    }
    RETURN_IF_FAILED(json_string(json, inner, "device", &gpu));
    if (!gpu)
        return fail(RH_INVALID, "%s: no 'device', and the node has no 'gpu' for all", inner);
    const struct device_model *device = NULL;
    enum rh_status status = platform_device(p, gpu, &device);
    if (status != RH_OK)
        return fail_within(status, "%s", inner);
    if (device->host)
        return fail(RH_INVALID, "%s: device '%s' is a host, not a GPU", inner, gpu);
    node_add_gpu(node, name, device);
    return RH_OK;
}

static enum rh_status find_vertex(const struct node_model *node, const cJSON *json,
                                  const char *where, const char *key, int *vertex)
{
    const char *name = NULL;
    RETURN_IF_FAILED(json_string_required(json, where, key, &name));
    const char **names = memory_new_array((size_t)node->vertex_count + 1, sizeof *names);
    for (int i = 0; i < node->vertex_count; i++)
        names[i] = node->vertices[i].name;
    enum rh_status status = json_choice("vertex", name, names, node->vertex_count, vertex);
    free(names);
    return status == RH_OK ? status : fail_within(status, "%s", where);
}

static enum rh_status read_link(const cJSON *json, const char *where, struct node_record *node)
{
    const char *classes[LINK_CLASS_COUNT];
    int class_count = 0;
    for (; class_count < LINK_NIC; class_count++) /* the rest is the fabric's */
        classes[class_count] = link_class_name((enum link_class)class_count);
    const char *class = NULL;
    struct link link = {0};
    int index = 0;
    int64_t count = 1;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(json, where, "a", "b", "class", "bytes_per_second",
                                     "latency_seconds", "count"));
    RETURN_IF_FAILED(find_vertex(&node->model, json, where, "a", &link.a));
    RETURN_IF_FAILED(find_vertex(&node->model, json, where, "b", &link.b));
    char inner[1024];
    snprintf(inner, sizeof inner, "%.500s '%.200s'-'%.200s'", where,
             node->model.vertices[link.a].name, node->model.vertices[link.b].name);
    RETURN_IF_FAILED(json_string_required(json, inner, "class", &class));
    if (json_choice("class", class, classes, class_count, &index) != RH_OK)
        return fail_within(RH_INVALID, "%s", inner);
    RETURN_IF_FAILED(
        json_number_required(json, inner, "bytes_per_second", 1, 1e18, &link.bytes_per_second));
    RETURN_IF_FAILED(
        json_number_required(json, inner, "latency_seconds", 0, 1, &link.latency_seconds));
    RETURN_IF_FAILED(json_integer(json, inner, "count", 1, 1024, &count));
    node_add_link(node, link.a, link.b, (enum link_class)index, link.bytes_per_second,
                  link.latency_seconds, (int)count);
    return RH_OK;
}

static enum rh_status read_list(const cJSON *json, const char *where, const char *key,
                                const cJSON **list)
{
    *list = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsArray(*list) || !(*list)->child)
        return fail(RH_INVALID, "%s: '%s' must be a list that is not empty", where, key);
    if (cJSON_GetArraySize(*list) > MOST_VERTICES)
        return fail(RH_INVALID, "%s: '%s' has %d entries; at most %d are read", where, key,
                    cJSON_GetArraySize(*list), MOST_VERTICES);
    return RH_OK;
}

static enum rh_status read_host(struct platform *p, const cJSON *json, const char *where,
                                struct node_record *node)
{
    const char *host = NULL;
    RETURN_IF_FAILED(json_string_required(json, where, "host", &host));
    enum rh_status status = platform_device(p, host, &node->model.host);
    if (status != RH_OK)
        return fail_within(status, "%s", where);
    if (!node->model.host->host)
        return fail(RH_INVALID, "%s: host '%s' is a GPU's device file", where, host);
    return RH_OK;
}

static enum rh_status read_all(struct platform *p, const cJSON *json, const char *where,
                               struct node_record *node)
{
    const char *gpu = NULL;
    const cJSON *vertices = NULL;
    const cJSON *links = NULL;
    char inner[1024];
    RETURN_IF_FAILED(json_string(json, where, "gpu", &gpu));
    RETURN_IF_FAILED(json_bool(json, where, "peer_access", &node->peer_access));
    RETURN_IF_FAILED(read_host(p, json, where, node));
    RETURN_IF_FAILED(read_list(json, where, "vertices", &vertices));
    RETURN_IF_FAILED(read_list(json, where, "links", &links));
    for (const cJSON *item = vertices->child; item; item = item->next)
        RETURN_IF_FAILED(read_vertex(p, item, where, gpu, node));
    snprintf(inner, sizeof inner, "%s: link", where);
    for (const cJSON *item = links->child; item; item = item->next)
        RETURN_IF_FAILED(read_link(item, inner, node));
    return node_finish(node, where);
}

enum rh_status node_read(struct platform *p, const cJSON *json, const char *where,
                         struct node_record **node)
{
    const char *name = NULL;
    const char *source = NULL;
    *node = NULL;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(json, where, "name", "source", "comment", "gpu", "host",
                                     "peer_access", "vertices", "links"));
    RETURN_IF_FAILED(json_string_required(json, where, "name", &name));
    RETURN_IF_FAILED(json_string_required(json, where, "source", &source));
    struct node_record *made = node_new(name, source);
    enum rh_status status = read_all(p, json, where, made);
    if (status != RH_OK) {
        node_free(made);
        made = NULL;
    }
    *node = made;
    return status;
}

static const struct device_model *common_device(const struct node_model *node)
{
    for (int i = 1; i < node->gpu_count; i++)
        if (node->devices[i] != node->devices[0])
            return NULL;
    return node->devices[0];
}

cJSON *node_to_json(const struct node_model *node)
{
    const struct node_record *record = node_record_of(node);
    const struct device_model *common = common_device(node);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "name", node->name);
    cJSON_AddStringToObject(json, "source", node->source);
    if (common)
        cJSON_AddStringToObject(json, "gpu", common->name);
    cJSON_AddStringToObject(json, "host", node->host->name);
    if (!record->peer_access)
        cJSON_AddBoolToObject(json, "peer_access", false);
    cJSON *list = cJSON_AddArrayToObject(json, "vertices");
    for (int i = 0; i < node->vertex_count; i++) {
        const struct vertex *v = &node->vertices[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", v->name);
        cJSON_AddStringToObject(item, "kind", vertex_kind_name(v->kind));
        if (v->kind == VERTEX_GPU && !common)
            cJSON_AddStringToObject(item, "device", node->devices[v->device]->name);
        if (v->kind == VERTEX_NIC)
            cJSON_AddNumberToObject(item, "bytes_per_second", record->port_bytes_per_second[i]);
        cJSON_AddItemToArray(list, item);
    }
    list = cJSON_AddArrayToObject(json, "links");
    for (int i = 0; i < node->link_count; i++) {
        const struct link *link = &node->links[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "a", node->vertices[link->a].name);
        cJSON_AddStringToObject(item, "b", node->vertices[link->b].name);
        cJSON_AddStringToObject(item, "class", link_class_name(link->class));
        cJSON_AddNumberToObject(item, "bytes_per_second", link->bytes_per_second);
        cJSON_AddNumberToObject(item, "latency_seconds", link->latency_seconds);
        if (link->count > 1)
            cJSON_AddNumberToObject(item, "count", link->count);
        cJSON_AddItemToArray(list, item);
    }
    return json;
}
