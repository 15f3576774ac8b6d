#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cost/cost.h"
#include "strategy/stage.h"

/* Seconds of each layer's nodes, forward and backward, on one device model; the loss counts to the
 * last layer. */
static enum rh_status layer_seconds(const struct graph *graph, const struct device_model *device,
                                    double *seconds)
{
    enum { MOST = 16 };
    int layers = graph->model->layer_count;
    memset(seconds, 0, (size_t)layers * sizeof *seconds);
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        struct tensor_type reads[MOST];
        struct tensor_type writes[MOST];
        double node_seconds = 0;
        for (int k = 0; k < node->read_count; k++)
            reads[k] = graph->values[graph->operands[node->read_first + k]].type;
        for (int k = 0; k < node->write_count; k++)
            writes[k] = graph->values[graph->operands[node->write_first + k]].type;
        RETURN_IF_FAILED(cost_op_seconds(device, &node->op, reads, node->read_count, writes,
                                         node->write_count, &node_seconds));
        seconds[node->layer < layers ? node->layer : layers - 1] += node_seconds;
    }
    return RH_OK;
}

/* crossing[i]: how many values pass from layers <= i to layers > i. */
static void count_crossings(const struct model *model, int *crossing)
{
    int layers = model->layer_count;
    int *last_use = memory_new_array((size_t)layers, sizeof *last_use);
    memset(crossing, 0, (size_t)layers * sizeof *crossing);
    for (int i = 0; i < layers; i++)
        for (int k = 0; k < model->layers[i].input_count; k++)
            if (model->layers[i].inputs[k] >= 0)
                last_use[model->layers[i].inputs[k]] = i;
    for (int i = 0; i < layers; i++)
        for (int cut = i; cut < last_use[i]; cut++)
            crossing[cut]++;
    free(last_use);
}

struct partition {
    int layers, parts;
    double *prefix;      /* parts x (layers + 1): seconds of layers before i on the part's device */
    const bool *may_cut; /* after layer i */
    double *best;        /* parts x (layers + 1): least worst seconds of the first i layers */
    int *from;
};

static void solve(struct partition *p)
{
    int stride = p->layers + 1;
    for (int part = 0; part < p->parts; part++) {
        const double *prefix = &p->prefix[part * stride];
        for (int end = 0; end <= p->layers; end++) {
            double *best = &p->best[part * stride + end];
            *best = part == 0 && end > 0 ? prefix[end] : DBL_MAX;
            p->from[part * stride + end] = 0;
            for (int start = part; part > 0 && start < end; start++) {
                double before = p->best[(part - 1) * stride + start];
                if (before == DBL_MAX || !p->may_cut[start - 1])
                    continue;
                double mine = prefix[end] - prefix[start];
                double worst = before > mine ? before : mine;
                if (worst < *best) {
                    *best = worst;
                    p->from[part * stride + end] = start;
                }
            }
        }
    }
}

static enum rh_status fill_prefix(struct partition *p, const struct strategy_request *request,
                                  const struct graph *graph, const int *devices)
{
    const struct device_model *last = NULL;
    double *seconds = memory_new_array((size_t)p->layers, sizeof *seconds);
    enum rh_status status = RH_OK;
    for (int part = 0; part < p->parts && status == RH_OK; part++) {
        const struct device_model *model = cluster_device_model(request->cluster, devices[part]);
        if (model != last)
            status = layer_seconds(graph, model, seconds);
        last = model;
        double *prefix = &p->prefix[part * (p->layers + 1)];
        for (int i = 0; i < p->layers; i++)
            prefix[i + 1] = prefix[i] + seconds[i];
    }
    free(seconds);
    return status;
}

enum rh_status balance_layers(const struct strategy_request *request, const struct graph *graph,
                              const int *devices, int parts, int *part_of_layer)
{
    int layers = graph->model->layer_count;
    if (parts > layers)
        return fail(RH_INVALID, "%s: model '%s' has %d layers, too few for %d stages",
                    request->where, graph->model->name, layers, parts);
    size_t cells = (size_t)parts * (size_t)(layers + 1);
    struct partition p = {.layers = layers,
                          .parts = parts,
                          .prefix = memory_new_array(cells, sizeof(double)),
                          .best = memory_new_array(cells, sizeof(double)),
                          .from = memory_new_array(cells, sizeof(int))};
    int *crossing = memory_new_array((size_t)layers, sizeof *crossing);
    bool *may_cut = memory_new_array((size_t)layers, sizeof *may_cut);
    count_crossings(graph->model, crossing);
    p.may_cut = may_cut;
    enum rh_status status = fill_prefix(&p, request, graph, devices);
    int at = (parts - 1) * (layers + 1) + layers;
    for (int most = 1; status == RH_OK && most <= layers; most++) {
        for (int i = 0; i < layers; i++)
            may_cut[i] = crossing[i] <= most;
        solve(&p);
        if (p.best[at] != DBL_MAX)
            break;
    }
    int end = layers;
    for (int part = parts - 1; part >= 0 && status == RH_OK; part--) {
        int start = part ? p.from[part * (layers + 1) + end] : 0;
        for (int i = start; i < end; i++)
            part_of_layer[i] = part;
        end = start;
    }
    free(p.prefix);
    free(p.best);
    free(p.from);
    free(crossing);
    free(may_cut);
    return status;
}

/* A key of a placement names a layer, a family of layers ("layer1" means "layer1.…"), one index
 * ("12") or a range ("0-12"). The longest match wins; 0: no match. */
static int match_length(const char *key, const char *layer, int index)
{
    int first = 0;
    int last = 0;
    char rest;
    size_t length = strlen(key);
    if (sscanf(key, "%d-%d%c", &first, &last, &rest) == 2)
        return index >= first && index <= last ? 1 : 0;
    if (sscanf(key, "%d%c", &first, &rest) == 1)
        return index == first ? 1000 : 0;
    if (strcmp(key, layer) == 0)
        return 1000;
    if (strncmp(key, layer, length) == 0 && layer[length] == '.')
        return 1 + (int)length;
    return 0;
}

static enum rh_status read_map(const struct strategy_request *request, const cJSON *map, int parts,
                               bool host_allowed, int *part_of_layer)
{
    const struct model *model = request->model;
    int *length = memory_new_array((size_t)model->layer_count, sizeof *length);
    enum rh_status status = RH_OK;
    for (const cJSON *item = map->child; item && status == RH_OK; item = item->next) {
        bool host = cJSON_IsString(item) && strcmp(item->valuestring, "host") == 0;
        int matched = 0;
        if (host && !host_allowed)
            status = fail(RH_INVALID,
                          "%s: placement of '%s' on the host: a pipeline stage runs on a GPU",
                          request->where, item->string);
        else if (!host && (!cJSON_IsNumber(item) || item->valuedouble != item->valueint ||
                           item->valueint < 0 || item->valueint >= parts))
            status = fail(RH_INVALID, "%s: placement of '%s' must be 0 to %d%s", request->where,
                          item->string, parts - 1, host_allowed ? " or \"host\"" : "");
        for (int i = 0; i < model->layer_count && status == RH_OK; i++) {
            int fits = match_length(item->string, model->layers[i].name, i);
            matched += fits > 0;
            if (fits <= length[i])
                continue;
            length[i] = fits;
            part_of_layer[i] = host ? parts : item->valueint;
        }
        if (status == RH_OK && matched == 0)
            status = fail(RH_INVALID, "%s: placement names '%s', which is no layer of model '%s'",
                          request->where, item->string, model->name);
    }
    for (int i = 0; i < model->layer_count && status == RH_OK; i++)
        if (length[i] == 0)
            status = fail(RH_INVALID, "%s: placement leaves out layer '%s' (%d of %d)",
                          request->where, model->layers[i].name, i, model->layer_count);
    free(length);
    return status;
}

static enum rh_status read_splits(const struct strategy_request *request, const cJSON *splits,
                                  int parts, int *part_of_layer)
{
    const struct model *model = request->model;
    if (cJSON_GetArraySize(splits) != parts - 1)
        return fail(RH_INVALID, "%s: split_at has %d places; %d parts need %d", request->where,
                    cJSON_GetArraySize(splits), parts, parts - 1);
    int layer = 0;
    int part = 0;
    for (const cJSON *item = splits->child; item; item = item->next) {
        if (!cJSON_IsString(item))
            return fail(RH_INVALID, "%s: split_at must be a list of layer names", request->where);
        int start = layer;
        while (layer < model->layer_count &&
               !match_length(item->valuestring, model->layers[layer].name, layer))
            part_of_layer[layer++] = part;
        if (layer == model->layer_count || layer == start)
            return fail(RH_INVALID,
                        "%s: split_at '%s' is no layer of model '%s' after the place before it",
                        request->where, item->valuestring, model->name);
        part++;
    }
    while (layer < model->layer_count)
        part_of_layer[layer++] = part;
    return RH_OK;
}

enum rh_status placement_read(const struct strategy_request *request, const cJSON *placement,
                              int parts, bool host_allowed, int *part_of_layer)
{
    if (cJSON_IsArray(placement))
        return read_splits(request, placement, parts, part_of_layer);
    if (!cJSON_IsObject(placement))
        return fail(RH_INVALID, "%s: placement must be an object {layer: device}", request->where);
    return read_map(request, placement, parts, host_allowed, part_of_layer);
}
