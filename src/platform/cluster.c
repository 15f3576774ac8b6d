/* An experiment's `cluster`, or platforms/clusters/NAME.json, to a cluster in use.
 *   name, source, comment   texts
 *   node                    name or path of the one node type, with
 *   count (or nodes: N)     how many; left out: as many as the devices that are wanted need
 *   nodes                   or a list [{node, count}] of several; one `count` may be left out
 *   fabric                  {type: none|fat_tree|ring, link_bytes_per_second, latency_seconds,
 *                           leaf_nodes, rails}, or the type alone as a text; left out: a fat
 *                           tree at the NICs' own rates
 *   oversubscription        of a fat tree: a leaf's bandwidth down over its bandwidth up (1)
 *   collectives             "nccl" (default) or "links": a pure network
 *   step_seconds            of "links": endpoint time of a step */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/private.h"

enum { MOST_NODES = 1 << 20, DEFAULT_LEAF_PORTS = 32 };

/* What the `node`, `nodes` and `count` keys say. */
struct part {
    const struct node_model *node;
    int64_t count; /* 0: as many as needed */
};

struct part_list {
    struct part *parts;
    int count, capacity;
};

static enum rh_status add_part(struct platform *p, const cJSON *json, const char *where,
                               int64_t count, struct part_list *list)
{
    const char *name = NULL;
    RETURN_IF_FAILED(json_string_required(json, where, "node", &name));
    struct part *part = ARRAY_ADD(list->parts, list->count, list->capacity);
    part->count = count;
    enum rh_status status = platform_node(p, name, &part->node);
    return status == RH_OK ? status : fail_within(status, "%s", where);
}

static enum rh_status read_parts(struct platform *p, const cJSON *json, const char *where,
                                 struct part_list *list)
{
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(json, "nodes");
    int64_t count = 0;
    RETURN_IF_FAILED(json_integer(json, where, "count", 1, MOST_NODES, &count));
    if (!cJSON_IsArray(nodes)) {
        if (nodes && count)
            return fail(RH_INVALID, "%s: 'nodes' and 'count' both say how many", where);
        RETURN_IF_FAILED(json_integer(json, where, "nodes", 1, MOST_NODES, &count));
        return add_part(p, json, where, count, list);
    }
    if (cJSON_GetObjectItemCaseSensitive(json, "node") || count)
        return fail(RH_INVALID, "%s: a list of 'nodes' takes no 'node' or 'count' beside it",
                    where);
    if (!nodes->child)
        return fail(RH_INVALID, "%s: 'nodes' is an empty list", where);
    char inner[512];
    snprintf(inner, sizeof inner, "%s: nodes", where);
    int open = 0;
    for (const cJSON *item = nodes->child; item; item = item->next) {
        int64_t part = 0;
        RETURN_IF_FAILED(JSON_CHECK_KEYS(item, inner, "node", "count"));
        RETURN_IF_FAILED(json_integer(item, inner, "count", 1, MOST_NODES, &part));
        RETURN_IF_FAILED(add_part(p, item, inner, part, list));
        open += part == 0;
    }
    if (open > 1)
        return fail(RH_INVALID, "%s: %d entries have no 'count'; at most 1 may leave it out", inner,
                    open);
    return RH_OK;
}

/* Makes the node table; the part without a count gets what the wanted devices still need. */
static enum rh_status place_nodes(struct cluster *c, const char *where, struct part_list *list,
                                  int devices_wanted)
{
    int64_t gpus = 0;
    int64_t nodes = 0;
    for (int i = 0; i < list->count; i++)
        gpus += list->parts[i].count * list->parts[i].node->gpu_count;
    for (int i = 0; i < list->count; i++) {
        struct part *part = &list->parts[i];
        if (!part->count) {
            int64_t each = part->node->gpu_count;
            part->count = devices_wanted > gpus ? (devices_wanted - gpus + each - 1) / each : 0;
            if (!part->count && list->count == 1)
                part->count = 1;
            gpus += part->count * each;
        }
        nodes += part->count;
    }
    if (nodes > MOST_NODES || gpus > (1 << 22))
        return fail(RH_INVALID, "%s: %lld nodes with %lld GPUs; at most %d nodes and %d GPUs",
                    where, (long long)nodes, (long long)gpus, MOST_NODES, 1 << 22);
    if (gpus < devices_wanted)
        return fail(RH_INVALID, "%s: %d devices are asked for; cluster '%s' has %lld", where,
                    devices_wanted, c->name, (long long)gpus);
    c->nodes = memory_new_array((size_t)nodes, sizeof *c->nodes);
    for (int i = 0; i < list->count; i++)
        for (int64_t j = 0; j < list->parts[i].count; j++)
            c->nodes[c->node_count++] = list->parts[i].node;
    return RH_OK;
}

static const char *const fabric_types[] = {"none", "fat_tree", "ring"};

/* The `fabric` key itself: {type, …}, or the type alone. */
static enum rh_status read_fabric_key(struct cluster *c, const cJSON *fabric, const char *where,
                                      int *type, int64_t *leaf_nodes)
{
    char inner[512];
    const char *word = fabric->valuestring;
    snprintf(inner, sizeof inner, "%s: fabric", where);
    if (!cJSON_IsString(fabric)) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(fabric, inner, "type", "link_bytes_per_second",
                                         "latency_seconds", "leaf_nodes", "rails"));
        RETURN_IF_FAILED(json_string_required(fabric, inner, "type", &word));
    }
    if (json_choice("type", word, fabric_types, 3, type) != RH_OK)
        return fail_within(RH_INVALID, "%s", inner);
    if (cJSON_IsString(fabric))
        return RH_OK;
    RETURN_IF_FAILED(json_number(fabric, inner, "link_bytes_per_second", 1, 1e18,
                                 &c->private->fabric_bytes_per_second));
    RETURN_IF_FAILED(json_number(fabric, inner, "latency_seconds", 0, 1, &c->port_latency_seconds));
    RETURN_IF_FAILED(json_integer(fabric, inner, "leaf_nodes", 1, MOST_NODES, leaf_nodes));
    return json_bool(fabric, inner, "rails", &c->rails);
}

static enum rh_status read_fabric(struct cluster *c, const cJSON *json, const char *where)
{
    const cJSON *fabric = cJSON_GetObjectItemCaseSensitive(json, "fabric");
    const int ports = c->node_count ? node_port_count(c, c->nodes[0]) : 0;
    int type = c->node_count > 1 || fabric ? FABRIC_FAT_TREE : FABRIC_NONE;
    int64_t leaf_nodes = 0;
    c->rails = ports > 1;
    c->port_latency_seconds = PORT_LATENCY;
    if (fabric)
        RETURN_IF_FAILED(read_fabric_key(c, fabric, where, &type, &leaf_nodes));
    c->oversubscription = 1;
    RETURN_IF_FAILED(json_number(json, where, "oversubscription", 1, 1e6, &c->oversubscription));
    if (c->oversubscription > 1 && type != FABRIC_FAT_TREE && (fabric || c->node_count > 1))
        return fail(RH_INVALID,
                    "%s: 'oversubscription' is %g, but the fabric is '%s', not a fat tree", where,
                    c->oversubscription, fabric_types[type]);
    if (!leaf_nodes)
        leaf_nodes =
            c->rails || ports < 2 ? DEFAULT_LEAF_PORTS : (DEFAULT_LEAF_PORTS + ports - 1) / ports;
    c->leaf_nodes = (int)leaf_nodes;
    c->fabric = c->node_count > 1 ? (enum fabric_kind)type : FABRIC_NONE;
    if (c->node_count > 1 && c->fabric == FABRIC_NONE)
        return fail(RH_INVALID, "%s: %d nodes are asked for; without a fabric there is 1", where,
                    c->node_count);
    return RH_OK;
}

static enum rh_status read_cluster(struct platform *p, const cJSON *json, const char *where,
                                   int devices_wanted, struct cluster *c)
{
    static const char *const models[] = {"nccl", "links"};
    const char *name = NULL;
    const char *source = NULL;
    const char *model = models[COLLECTIVES_NCCL];
    int index = 0;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(json, where, "name", "source", "comment", "node", "nodes",
                                     "count", "fabric", "oversubscription", "collectives",
                                     "step_seconds"));
    RETURN_IF_FAILED(json_string(json, where, "name", &name));
    RETURN_IF_FAILED(json_string(json, where, "source", &source));
    RETURN_IF_FAILED(json_string(json, where, "collectives", &model));
    if (json_choice("collectives", model, models, 2, &index) != RH_OK)
        return fail_within(RH_INVALID, "%s", where);
    c->collectives = (enum collective_model)index;
    RETURN_IF_FAILED(json_number(json, where, "step_seconds", 0, 1, &c->step_seconds));
    if (c->step_seconds > 0 && c->collectives != COLLECTIVES_LINKS)
        return fail(RH_INVALID, "%s: 'step_seconds' is for 'collectives' \"links\" only", where);
    struct part_list list = {0};
    enum rh_status status = read_parts(p, json, where, &list);
    if (status == RH_OK) {
        c->name = text_copy(name ? name : list.parts[0].node->name);
        status = place_nodes(c, where, &list, devices_wanted);
    }
    free(list.parts);
    RETURN_IF_FAILED(status);
    RETURN_IF_FAILED(read_fabric(c, json, where));
    return cluster_number(c, where);
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    struct cluster_private *own = c->private;
    for (int i = 0; c->native_hosts && i < c->gpu_count; i++)
        free(c->native_hosts[i]);
    for (int i = 0; i < own->name_chunk_count; i++)
        free(own->name_chunks[i]);
    if (own->routes)
        route_table_free(own->routes);
    free(own->name_chunks);
    free(own->links);
    free(own->port_first);
    free(own->link_first);
    free(own->leaf_bytes_per_second);
    free(own);
    free(c->native_hosts);
    free(c->native_path);
    free(c->gpu_first);
    free(c->nodes);
    free(c->name);
    free(c);
}

static enum rh_status open_object(struct platform *p, const cJSON *json, const char *where,
                                  int devices_wanted, struct cluster **cluster)
{
    struct cluster *c = memory_new(sizeof *c);
    c->private = memory_new(sizeof *c->private);
    c->private->platform = p;
    enum rh_status status = read_cluster(p, json, where, devices_wanted, c);
    if (status != RH_OK) {
        cluster_free(c);
        c = NULL;
    }
    *cluster = c;
    return status;
}

static enum rh_status open_file(struct platform *p, const char *name, int devices_wanted,
                                struct cluster **cluster)
{
    struct located file;
    RETURN_IF_FAILED(platform_locate(p, PLATFORM_CLUSTER, name, &file));
    cJSON *json = NULL;
    uint64_t hash = 0;
    char *where = text_format("cluster '%s'", name);
    enum rh_status status = platform_read_json(p, &file, &json, &hash);
    if (status == RH_OK && cJSON_GetObjectItemCaseSensitive(json, "vertices")) {
        /* a node's file, by its path */
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "node", name);
        status = open_object(p, object, where, devices_wanted, cluster);
        cJSON_Delete(object);
    } else if (status == RH_OK) {
        const char *own = NULL;
        status = json_string_required(json, where, "name", &own);
        if (status == RH_OK && !platform_is_path(name) && strcmp(own, name) != 0)
            status = fail(RH_INVALID, "%s: the file's own 'name' is '%s'", where, own);
        if (status == RH_OK)
            status = open_object(p, json, where, devices_wanted, cluster);
    }
    cJSON_Delete(json);
    free(where);
    free(file.path);
    free(file.shown);
    return status;
}

/* A name that is neither a cluster nor a node: both lists are searched for the nearest. */
static enum rh_status unknown_cluster(struct platform *p, const char *name)
{
    int clusters = 0;
    int nodes = 0;
    const char *const *cluster_names = platform_names(p, PLATFORM_CLUSTER, &clusters);
    const char *const *node_names = platform_names(p, PLATFORM_NODE, &nodes);
    if (!clusters && !nodes)
        return platform_unknown(p, PLATFORM_CLUSTER, name);
    const char **all = memory_new_array((size_t)(clusters + nodes), sizeof *all);
    for (int i = 0; i < clusters; i++)
        all[i] = cluster_names[i];
    for (int i = 0; i < nodes; i++)
        all[clusters + i] = node_names[i];
    int index = 0;
    enum rh_status status = json_choice("cluster", name, all, clusters + nodes, &index);
    free(all);
    return status == RH_OK ? fail(RH_INVALID, "cluster '%s' cannot be read", name) : status;
}

static enum rh_status open_name(struct platform *p, const char *name, int devices_wanted,
                                struct cluster **cluster)
{
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, ".xml") == 0)
        return cluster_open_native(p, name, devices_wanted, cluster);
    if (platform_is_path(name) || platform_has(p, PLATFORM_CLUSTER, name))
        return open_file(p, name, devices_wanted, cluster);
    if (!platform_has(p, PLATFORM_NODE, name))
        return unknown_cluster(p, name);
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "node", name);
    char *where = text_format("cluster '%s'", name);
    enum rh_status status = open_object(p, object, where, devices_wanted, cluster);
    free(where);
    cJSON_Delete(object);
    return status;
}

enum rh_status cluster_open(struct platform *p, const cJSON *json, const char *where,
                            int devices_wanted, struct cluster **cluster)
{
    *cluster = NULL;
    if (cJSON_IsString(json)) {
        enum rh_status status = open_name(p, json->valuestring, devices_wanted, cluster);
        return status == RH_OK ? status : fail_within(status, "%s", where);
    }
    if (!cJSON_IsObject(json))
        return fail(RH_INVALID, "%s: 'cluster' must be a name or an object", where);
    char *inner = text_format("%s: cluster", where);
    enum rh_status status = open_object(p, json, inner, devices_wanted, cluster);
    free(inner);
    return status;
}
