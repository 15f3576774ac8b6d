/* Pipelines: one worker a rank with one or more stages, microbatches in the order of a schedule;
 * or, with split_size, the hand-made pipeline of one worker (by_hand.c). With dp > 1 each rank is a
 * DDP group. */
#include "strategy/pipeline.h"

#include <stdlib.h>

#include "base/memory.h"
#include "strategy/by_hand.h"
#include "strategy/table.h"

/* Ranks of one stage are called by it. */
static const char *role_name(const struct pipeline *p, int role)
{
    bool one = p->table.stages == p->table.ranks;
    return plan_text(p->out->plan, one ? "stage %d" : "rank %d", role);
}

static void write_rank(const struct pipeline *p, int role)
{
    int layers = p->graph->model->layer_count;
    bool many = p->request->training->accumulate > 1;
    bool ddp = p->ranks > 1;
    struct stage stage;
    int *device_of_layer = memory_new_array((size_t)layers + 1, sizeof(int));
    for (int i = 0; i <= layers; i++)
        device_of_layer[i] = p->table.rank_of_stage[p->stage_of_layer[i]] == role ? 0 : NOT_HERE;
    role_init(p->out->plan, role, role_name(p, role), 1);
    stage_init(&stage, p->out->plan, role, p->request, p->graph, device_of_layer,
               ddp ? &p->ddp : NULL, p->request->batch / p->ranks, ddp ? 0 : -1);
    struct pipeline_list steady = {"steady", false, !many, many, true, false};
    pipeline_write_list(p, &stage, &steady);
    if (ddp) {
        struct pipeline_list first = {"first", !many, true, many, true, true};
        pipeline_write_list(p, &stage, &first);
    }
    if (many) {
        struct pipeline_list begin = {"accumulate_first", false, true, false, false, false};
        struct pipeline_list more = {"accumulate", false, false, true, false, false};
        pipeline_write_list(p, &stage, &begin);
        pipeline_write_list(p, &stage, &more);
        if (ddp) {
            struct pipeline_list start = {"accumulate_start", true, true, false, false, false};
            pipeline_write_list(p, &stage, &start);
        }
    }
    stage_homes(&stage, p->out);
    stage_free(&stage);
    free(device_of_layer);
}

static enum rh_status check_stages(const struct pipeline *p)
{
    const struct model *model = p->request->model;
    int *layers = memory_new_array((size_t)p->table.stages, sizeof *layers);
    enum rh_status status = RH_OK;
    for (int i = 0; i < model->layer_count && status == RH_OK; i++) {
        layers[p->stage_of_layer[i]]++;
        for (int k = 0; k < model->layers[i].input_count && status == RH_OK; k++) {
            int input = model->layers[i].inputs[k];
            if (input >= 0 && p->stage_of_layer[input] > p->stage_of_layer[i])
                status =
                    fail(RH_INVALID, "%s: layer '%s' on stage %d reads '%s' of the later stage %d",
                         p->request->where, model->layers[i].name, p->stage_of_layer[i],
                         model->layers[input].name, p->stage_of_layer[input]);
        }
    }
    for (int s = 0; s < p->table.stages && status == RH_OK; s++)
        if (layers[s] == 0)
            status = fail(RH_INVALID, "%s: stage %d of %d has no layers", p->request->where, s,
                          p->table.stages);
    free(layers);
    return status;
}

static enum rh_status balance(struct pipeline *p)
{
    const struct strategy_request *request = p->request;
    int *devices = memory_new_array((size_t)p->table.stages, sizeof *devices);
    for (int s = 0; s < p->table.stages; s++)
        devices[s] = request->devices[p->table.rank_of_stage[s]];
    enum rh_status status =
        balance_layers(request, p->graph, devices, p->table.stages, p->stage_of_layer);
    free(devices);
    return status;
}

static enum rh_status place(struct pipeline *p)
{
    const struct strategy_request *request = p->request;
    int layers = request->model->layer_count;
    const cJSON *placement = cJSON_GetObjectItemCaseSensitive(request->keys, "placement");
    const cJSON *splits = cJSON_GetObjectItemCaseSensitive(request->keys, "split_at");
    p->stage_of_layer = memory_new_array((size_t)layers + 1, sizeof(int));
    if (placement && splits)
        return fail(RH_INVALID, "%s: placement and split_at exclude each other", request->where);
    if (placement || splits)
        RETURN_IF_FAILED(placement_read(request, placement ? placement : splits, p->table.stages,
                                        false, p->stage_of_layer));
    else
        RETURN_IF_FAILED(balance(p));
    p->stage_of_layer[layers] = p->stage_of_layer[layers - 1];
    return check_stages(p);
}

/* A table of one's own says how many stages and microbatches there are; other keys must agree. */
static enum rh_status read_table(struct pipeline *p, const char *path, int ranks, int64_t stages,
                                 int64_t microbatches)
{
    const char *where = p->request->where;
    struct schedule_table *t = &p->table;
    RETURN_IF_FAILED(schedule_read(path, where, t));
    if (t->ranks != ranks)
        return fail(RH_INVALID, "%s: '%s' has %d ranks, the mesh has pp = %d", where, path,
                    t->ranks, ranks);
    if (stages && t->stages != stages)
        return fail(RH_INVALID, "%s: '%s' has %d stages, not %lld", where, path, t->stages,
                    (long long)stages);
    if (microbatches && t->microbatches != microbatches)
        return fail(RH_INVALID, "%s: '%s' has %d microbatches, not %lld", where, path,
                    t->microbatches, (long long)microbatches);
    return RH_OK;
}

/* true, false, "except_last" */
static enum rh_status read_recompute(struct pipeline *p)
{
    const struct strategy_request *request = p->request;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(request->keys, "recompute");
    static const char *const words[] = {"never", "always", "except_last"};
    bool always = false;
    int index = 0;
    if (cJSON_IsString(item)) {
        RETURN_IF_FAILED(json_choice("recompute", item->valuestring, words, 3, &index));
        p->recompute = (enum recompute)index;
        return RH_OK;
    }
    RETURN_IF_FAILED(json_bool(request->keys, request->where, "recompute", &always));
    p->recompute = always ? RECOMPUTE_ALWAYS : RECOMPUTE_NEVER;
    return RH_OK;
}

static enum rh_status read_schedule(struct pipeline *p, int ranks)
{
    const struct strategy_request *request = p->request;
    const char *schedule = NULL;
    const char *path = NULL;
    int64_t stages = 0;
    int64_t microbatches = 0;
    bool split = false;
    RETURN_IF_FAILED(
        json_integer(request->keys, request->where, "microbatches", 1, 1 << 20, &microbatches));
    RETURN_IF_FAILED(json_integer(request->keys, request->where, "stages", 1, 1 << 16, &stages));
    RETURN_IF_FAILED(json_string(request->keys, request->where, "schedule", &schedule));
    RETURN_IF_FAILED(json_string(request->keys, request->where, "schedule_file", &path));
    RETURN_IF_FAILED(json_bool(request->keys, request->where, "split_first_stage", &split));
    p->first_stage_whole = !split;
    RETURN_IF_FAILED(read_recompute(p));
    if (path && schedule)
        return fail(RH_INVALID, "%s: schedule '%s' and schedule_file '%s' exclude each other",
                    request->where, schedule, path);
    if (path)
        return read_table(p, path, ranks, stages, microbatches);
    return schedule_make(schedule ? schedule : "1f1b", request->where, ranks, (int)stages,
                         (int)(microbatches ? microbatches : ranks), &p->table);
}

/* How the batch is cut: mesh, microbatches, schedule; with both numbers where they do not fit. */
static enum rh_status read_shape(struct pipeline *p)
{
    const struct strategy_request *request = p->request;
    p->ranks = request->dp ? request->dp : 1;
    int stages = request->pp ? request->pp : request->device_count / p->ranks;
    if (stages < 1 || p->ranks * stages != request->device_count)
        return fail(RH_INVALID, "%s: mesh dp = %d times pp = %d is not %d devices", request->where,
                    p->ranks, stages, request->device_count);
    RETURN_IF_FAILED(ddp_options_read(cJSON_GetObjectItemCaseSensitive(request->keys, "ddp"),
                                      request->where, &p->ddp));
    RETURN_IF_FAILED(read_schedule(p, stages));
    int64_t rows = request->batch / p->ranks;
    if (request->batch % p->ranks != 0 || rows % p->table.microbatches != 0)
        return fail(RH_INVALID,
                    "%s: a batch of %lld does not divide into %d ranks times %d microbatches",
                    request->where, (long long)request->batch, p->ranks, p->table.microbatches);
    return RH_OK;
}

static enum rh_status build_staged(struct pipeline *p)
{
    const struct strategy_request *request = p->request;
    RETURN_IF_FAILED(read_shape(p));
    int microbatches = p->table.microbatches;
    int64_t rows = request->batch / p->ranks / microbatches;
    struct graph_options options =
        stage_graph_options(request, rows, request->training->loss_sum ? 1 : 1.0 / microbatches);
    RETURN_IF_FAILED(graph_new(request->model, &options, &p->graph));
    RETURN_IF_FAILED(place(p));
    p->crossing_count = crossings_find(p->graph, p->stage_of_layer, p->table.stages, &p->crossings);
    struct mesh mesh = {.axis_count = 2, .axis = {"dp", "pp"}, .size = {p->ranks, p->table.ranks}};
    p->out->plan = plan_new("pipeline", &mesh, 1);
    p->dp_group = plan_add_group(p->out->plan, "dp", 1, 0, NULL);
    p->pp_group = plan_add_group(p->out->plan, "pp", 2, 0, NULL);
    for (int role = 0; role < p->table.ranks; role++)
        write_rank(p, role);
    bool ddp = p->ranks > 1;
    int accumulate = ddp ? 2 : 1;
    if (ddp) {
        order_add_step(p->out, 4, accumulate + 1, 1, request->training->accumulate);
        p->out->order.loop_first = p->out->order.count;
    }
    order_add_step(p->out, accumulate, accumulate + 1, 0, request->training->accumulate);
    for (int i = 0; i < request->model->layer_count; i++)
        p->out->stage_of_layer[i] = p->stage_of_layer[i];
    p->out->microbatches = microbatches;
    return RH_OK;
}

static enum rh_status build(const struct strategy_request *request, struct strategy_plan *out)
{
    int64_t split_size = 0;
    const cJSON *empty = NULL;
    if (request->keys) {
        RETURN_IF_FAILED(json_integer(request->keys, request->where, "split_size", 1,
                                      INT64_C(1) << 40, &split_size));
        static const char *const others[] = {"microbatches", "schedule", "schedule_file", "stages"};
        for (int i = 0; i < 4 && !empty; i++)
            empty = cJSON_GetObjectItemCaseSensitive(request->keys, others[i]);
    }
    if (split_size > 0 && empty)
        return fail(RH_INVALID,
                    "%s: split_size (one worker, by hand) excludes '%s' (one worker a stage)",
                    request->where, empty->string);
    if (split_size > 0)
        return by_hand_build(request, "pipeline", split_size, out);
    struct pipeline p = {.request = request, .out = out};
    enum rh_status status = build_staged(&p);
    free(p.stage_of_layer);
    free(p.crossings);
    schedule_free(&p.table);
    if (p.graph)
        graph_free(p.graph);
    return status;
}

static const char *const keys[] = {
    "schedule",  "schedule_file", "stages", "split_first_stage", "microbatches", "split_size",
    "placement", "split_at",      "ddp",    "recompute",
};

const struct strategy strategy_pipeline = {
    .name = "pipeline",
    .description = "stages on GPUs in the order of a schedule, or by hand with split_size",
    .keys = keys,
    .key_count = sizeof keys / sizeof *keys,
    .build = build,
};
