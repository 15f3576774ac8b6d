#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "experiment/sections.h"

/* Keys of other strategies may stand under their names ("strategy": {"type": "ddp", "pipeline":
 * {…}}), so that one file serves a comparison. Those of this type move up; `ddp` goes to all that
 * know it. */
static enum rh_status resolve_keys(const struct strategy *strategy, const cJSON *given,
                                   const char *where, cJSON *keys)
{
    bool knows_ddp = false;
    for (int i = 0; i < strategy->key_count; i++)
        knows_ddp |= strcmp(strategy->keys[i], "ddp") == 0;
    for (const cJSON *item = given ? given->child : NULL; item; item = item->next) {
        const struct strategy *named = NULL;
        for (int i = 0; !named && strategy_all(i); i++)
            if (strcmp(strategy_all(i)->name, item->string) == 0)
                named = strategy_all(i);
        bool ddp = strcmp(item->string, "ddp") == 0;
        if (ddp ? knows_ddp : !named)
            cJSON_AddItemToObject(keys, item->string, cJSON_Duplicate(item, true));
        for (const cJSON *inner = !ddp && named == strategy ? item->child : NULL; inner;
             inner = inner->next) {
            if (cJSON_GetObjectItemCaseSensitive(given, inner->string))
                return fail(RH_INVALID,
                            "%s: '%s' is given twice, as strategy.%s and as strategy.%s.%s", where,
                            inner->string, inner->string, item->string, inner->string);
            cJSON_AddItemToObject(keys, inner->string, cJSON_Duplicate(inner, true));
        }
    }
    return RH_OK;
}

static enum rh_status read_mesh(struct experiment *e, const char *where)
{
    const cJSON *mesh = cJSON_GetObjectItemCaseSensitive(e->json, "mesh");
    int64_t dp = 0;
    int64_t pp = 0;
    if (!mesh)
        return RH_OK;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(mesh, where, "dp", "pp"));
    RETURN_IF_FAILED(json_integer(mesh, where, "dp", 1, 1 << 20, &dp));
    RETURN_IF_FAILED(json_integer(mesh, where, "pp", 1, 1 << 20, &pp));
    e->dp = (int)dp;
    e->pp = (int)pp;
    return RH_OK;
}

enum rh_status section_strategy(struct experiment *e, const char *where)
{
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(e->json, "strategy");
    const char *type = "single";
    if (cJSON_IsString(given)) {
        type = given->valuestring;
        given = NULL;
    } else if (given && !cJSON_IsObject(given)) {
        return fail(RH_INVALID, "%s: 'strategy' must be a name or an object with 'type'", where);
    } else if (given) {
        RETURN_IF_FAILED(json_string_required(given, where, "type", &type));
    }
    RETURN_IF_FAILED(strategy_find(type, &e->strategy));
    e->strategy_keys = cJSON_CreateObject();
    RETURN_IF_FAILED(resolve_keys(e->strategy, given, where, e->strategy_keys));
    return read_mesh(e, where);
}

/* "node:gpu", as "0:3" or "node0:gpu3". */
static enum rh_status parse_device(const struct cluster *cluster, const cJSON *item,
                                   const char *where, int *device)
{
    int node = 0;
    int gpu = 0;
    char rest;
    if (!cJSON_IsString(item) ||
        (sscanf(item->valuestring, "%d:%d%c", &node, &gpu, &rest) != 2 &&
         sscanf(item->valuestring, "node%d:gpu%d%c", &node, &gpu, &rest) != 2))
        return fail(RH_INVALID, "%s: a device is \"node:gpu\", for example \"0:3\"", where);
    if (node < 0 || node >= cluster->node_count)
        return fail(RH_INVALID, "%s: device '%s': the cluster has %d nodes", where,
                    item->valuestring, cluster->node_count);
    int gpus = cluster->nodes[node]->gpu_count;
    if (gpu < 0 || gpu >= gpus)
        return fail(RH_INVALID, "%s: device '%s': node %d has %d GPUs", where, item->valuestring,
                    node, gpus);
    *device = cluster->gpu_first[node] + gpu;
    return RH_OK;
}

static enum rh_status list_devices(struct experiment *e, const cJSON *list, const char *where)
{
    e->device_count = cJSON_GetArraySize(list);
    e->devices = memory_new_array((size_t)e->device_count, sizeof *e->devices);
    int i = 0;
    for (const cJSON *item = list->child; item; item = item->next, i++) {
        RETURN_IF_FAILED(parse_device(e->cluster, item, where, &e->devices[i]));
        for (int k = 0; k < i; k++)
            if (e->devices[k] == e->devices[i])
                return fail(RH_INVALID, "%s: device '%s' is listed twice", where,
                            item->valuestring);
    }
    return e->device_count ? RH_OK : fail(RH_INVALID, "%s: the list of devices is empty", where);
}

/* How many GPUs a list or count asks for, before the cluster is known; 0: not said. */
static enum rh_status devices_wanted(const cJSON *devices, const char *where, int *wanted)
{
    *wanted = 0;
    if (!devices)
        return RH_OK;
    if (cJSON_IsArray(devices)) {
        int nodes = 0;
        for (const cJSON *item = devices->child; item; item = item->next) {
            int node = 0;
            if (cJSON_IsString(item) && (sscanf(item->valuestring, "%d:", &node) == 1 ||
                                         sscanf(item->valuestring, "node%d:", &node) == 1))
                nodes = node + 1 > nodes ? node + 1 : nodes;
        }
        *wanted = -nodes; /* that many nodes */
        return RH_OK;
    }
    if (!cJSON_IsNumber(devices) || devices->valuedouble != devices->valueint ||
        devices->valueint < 1)
        return fail(RH_INVALID, "%s: 'devices' is a count from 1 or a list of \"node:gpu\"", where);
    *wanted = devices->valueint;
    return RH_OK;
}

enum rh_status section_cluster(struct experiment *e, const char *where)
{
    const cJSON *cluster = cJSON_GetObjectItemCaseSensitive(e->json, "cluster");
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(e->json, "devices");
    int wanted = 0;
    if (!cluster)
        return fail(RH_INVALID, "%s: key 'cluster' is missing", where);
    RETURN_IF_FAILED(devices_wanted(devices, where, &wanted));
    /* a list names nodes, of at most 8 or 16 GPUs: ask for enough GPUs to have that many nodes */
    RETURN_IF_FAILED(
        cluster_open(e->platform, cluster, where, wanted > 0 ? wanted : 1, &e->cluster));
    if (wanted < 0 && e->cluster->node_count < -wanted) {
        struct cluster *larger = NULL; /* where the number of nodes is left open */
        if (cluster_open(e->platform, cluster, where, -wanted * e->cluster->nodes[0]->gpu_count,
                         &larger) == RH_OK) {
            cluster_free(e->cluster);
            e->cluster = larger;
        }
    }
    if (cJSON_IsArray(devices))
        return list_devices(e, devices, where);
    e->device_count = wanted ? wanted : e->cluster->gpu_count;
    if (e->device_count > e->cluster->gpu_count)
        return fail(RH_INVALID, "%s: %d devices are asked for; cluster '%s' has %d", where,
                    e->device_count, e->cluster->name, e->cluster->gpu_count);
    if (strcmp(e->strategy->name, "single") == 0)
        e->device_count = 1;
    e->devices = memory_new_array((size_t)e->device_count, sizeof *e->devices);
    for (int i = 0; i < e->device_count; i++)
        e->devices[i] = i;
    return RH_OK;
}

/* How many shares batch_per_device is multiplied by: the data-parallel ranks, or DataParallel's
 * GPUs. */
static int batch_shares(const struct experiment *e)
{
    if (strcmp(e->strategy->name, "ddp") == 0)
        return e->dp ? e->dp : e->device_count;
    if (strcmp(e->strategy->name, "data_parallel") == 0)
        return e->device_count;
    return e->dp ? e->dp : 1;
}

static enum rh_status read_rest(struct experiment *e, const char *where)
{
    static const char *const launches[] = {"eager", "graph"};
    static const char *const fidelities[] = {"flows", "messages"};
    const char *backend = "simgrid";
    const char *word = "eager";
    int index = 0;
    RETURN_IF_FAILED(json_string(e->json, where, "backend", &backend));
    RETURN_IF_FAILED(backend_find(backend, &e->backend));
    RETURN_IF_FAILED(json_string(e->json, where, "launch", &word));
    RETURN_IF_FAILED(json_choice("launch", word, launches, 2, &index));
    e->launch = (enum launch)index;
    word = "flows";
    RETURN_IF_FAILED(json_string(e->json, where, "fidelity", &word));
    RETURN_IF_FAILED(json_choice("fidelity", word, fidelities, 2, &index));
    e->fidelity = (enum fidelity)index;
    const cJSON *anchor = cJSON_GetObjectItemCaseSensitive(e->json, "anchor");
    e->bucket_tensor_seconds = -1;
    if (!anchor)
        return RH_OK;
    RETURN_IF_FAILED(
        JSON_CHECK_KEYS(anchor, where, "single_step_seconds", "bucket_tensor_seconds"));
    RETURN_IF_FAILED(
        json_number(anchor, where, "single_step_seconds", 1e-9, 1e9, &e->anchor_seconds));
    return json_number(anchor, where, "bucket_tensor_seconds", 0, 1, &e->bucket_tensor_seconds);
}

static enum rh_status read_all(struct experiment *e)
{
    const char *name = "experiment";
    RETURN_IF_FAILED(JSON_CHECK_KEYS(e->json, "experiment", "name", "description", "model", "data",
                                     "train", "cluster", "devices", "strategy", "mesh", "backend",
                                     "launch", "fidelity", "anchor"));
    RETURN_IF_FAILED(json_string(e->json, "experiment", "name", &name));
    e->name = text_copy(name);
    char *where = text_format("experiment '%s'", e->name);
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(e->json, "model");
    enum rh_status status = model ? RH_OK : fail(RH_INVALID, "%s: key 'model' is missing", where);
    if (status == RH_OK)
        status = model_from_json(model, where, &e->model);
    if (status == RH_OK)
        status = section_train(e, where);
    if (status == RH_OK)
        status = section_data(e, where);
    if (status == RH_OK)
        status = section_strategy(e, where);
    if (status == RH_OK)
        status = read_rest(e, where);
    if (status == RH_OK)
        status = section_cluster(e, where);
    free(where);
    e->batch = e->batch_given * (e->batch_per_device && status == RH_OK ? batch_shares(e) : 1);
    return status;
}

enum rh_status experiment_open(struct platform *platform, cJSON *json,
                               struct experiment **experiment)
{
    struct experiment *e = memory_new(sizeof *e);
    e->json = json;
    e->platform = platform;
    enum rh_status status = read_all(e);
    *experiment = status == RH_OK ? e : NULL;
    if (status != RH_OK)
        experiment_close(e);
    return status;
}

void experiment_close(struct experiment *e)
{
    free(e->name);
    free(e->init_path);
    free(e->save_path);
    free(e->plan_path);
    free(e->resume_path);
    data_source_free(&e->source);
    free(e->devices);
    if (e->model)
        model_free(e->model);
    if (e->cluster)
        cluster_free(e->cluster);
    cJSON_Delete(e->strategy_keys);
    cJSON_Delete(e->json);
    free(e);
}
