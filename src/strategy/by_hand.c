#include "strategy/by_hand.h"

#include <stdlib.h>

#include "base/memory.h"
#include "strategy/stage.h"

struct by_hand {
    struct stage stage;
    const struct graph *whole; /* the loss over the concatenated output */
    struct graph *pieces[2];   /* a full piece, and a smaller last one */
    int64_t split_size, rows;
    int piece_count;
    struct pass *passes; /* one a piece */
    int *device_of_layer;
    int parts;       /* runs of consecutive layers on one device */
    int *part_first; /* parts + 1 layers */
    int ranks, group;
    struct ddp_options ddp;
    int buckets;
};

static int64_t piece_rows(const struct by_hand *h, int piece)
{
    int64_t first = piece * h->split_size;
    return first + h->split_size <= h->rows ? h->split_size : h->rows - first;
}

static void find_parts(struct by_hand *h, int layers)
{
    h->part_first = memory_new_array((size_t)layers + 1, sizeof(int));
    for (int i = 1; i < layers; i++)
        if (h->device_of_layer[i] != h->device_of_layer[i - 1])
            h->part_first[++h->parts] = i;
    h->part_first[++h->parts] = layers;
}

/* The order of the seed article (torch-semantics.md section 7): while part s works on piece k, part
 * s-1 works on piece k+1; the later part is issued first. */
static void forward(struct by_hand *h, struct writer *writer, const struct staged_inputs *inputs,
                    struct view output)
{
    int last = h->whole->model->layer_count - 1;
    int last_device = h->device_of_layer[last];
    for (int tick = 0; tick < h->piece_count + h->parts - 1; tick++)
        for (int part = h->parts - 1; part >= 0; part--) {
            int piece = tick - part;
            if (piece < 0 || piece >= h->piece_count)
                continue;
            struct pass *pass = &h->passes[piece];
            writer->microbatch = h->piece_count > 1 ? piece : -1;
            if (part == 0) {
                const struct graph *graph = h->pieces[piece_rows(h, piece) != h->split_size];
                pass_init(pass, &h->stage, writer, graph, writer->microbatch);
                pass_inputs(pass, inputs, piece * h->split_size);
                pass_place(pass, graph->output_of[last], last_device,
                           view_narrow(output, 0, piece * h->split_size, graph->batch));
            }
            int device = h->device_of_layer[h->part_first[part]];
            const char *span = plan_text(h->stage.plan, "forward %d", piece);
            stage_span(&h->stage, writer, device, span, true);
            pass_forward(pass, h->part_first[part], h->part_first[part + 1] - 1);
            stage_span(&h->stage, writer, device, span, false);
        }
}

/* Pieces in reverse: the last piece's gradients are the first. */
static void backward(struct by_hand *h, struct writer *writer, struct buckets *buckets,
                     bool accumulate)
{
    for (int tick = 0; tick < h->piece_count + h->parts - 1; tick++)
        for (int part = 0; part < h->parts; part++) {
            int turn = tick - (h->parts - 1 - part);
            int piece = h->piece_count - 1 - turn;
            if (turn < 0 || turn >= h->piece_count)
                continue;
            struct pass *pass = &h->passes[piece];
            pass->accumulate = accumulate || turn > 0;
            if (buckets && piece == 0) {
                pass->gradient_ready = bucket_gradient_ready;
                pass->context = buckets;
            }
            writer->microbatch = h->piece_count > 1 ? piece : -1;
            int device = h->device_of_layer[h->part_first[part]];
            const char *span = plan_text(h->stage.plan, "backward %d", piece);
            stage_span(&h->stage, writer, device, span, true);
            pass_backward(pass, h->part_first[part], h->part_first[part + 1] - 1);
            stage_span(&h->stage, writer, device, span, false);
        }
}

static void take_loss(struct by_hand *h, struct writer *writer, const struct staged_inputs *inputs,
                      struct view output, bool accumulate)
{
    int last = h->whole->model->layer_count - 1;
    int device = h->device_of_layer[last];
    struct pass pass;
    struct staged_inputs target_only = *inputs;
    target_only.input.buffer = NOT_HERE;
    pass_init(&pass, &h->stage, writer, h->whole, -1);
    pass.accumulate = accumulate;
    pass_inputs(&pass, &target_only, 0);
    pass_place(&pass, h->whole->output_of[last], device, output);
    pass_loss(&pass);
    struct view gradient = pass_value(&pass, h->whole->gradient_of[last], device);
    for (int piece = 0; piece < h->piece_count; piece++) {
        struct pass *of_piece = &h->passes[piece];
        pass_place(of_piece, of_piece->graph->gradient_of[last], device,
                   view_narrow(gradient, 0, piece * h->split_size, of_piece->graph->batch));
    }
    pass_free(&pass);
}

static void write_list(struct by_hand *h, const char *name, bool start, bool accumulate,
                       bool update, bool unlimited)
{
    struct stage *stage = &h->stage;
    int list = role_add_list(stage->plan, stage->role, name);
    struct writer writer = {stage->plan, stage->role, list, WORK_OTHER, -1};
    struct staged_inputs inputs;
    struct buckets *buckets = NULL;
    int last = h->whole->model->layer_count - 1;
    if (start && h->ranks > 1)
        ddp_broadcast_parameters(stage, &writer, h->group);
    stage_begin(stage, &writer);
    if (h->ranks > 1 && h->ddp.broadcast_buffers)
        ddp_broadcast_states(stage, &writer, h->group);
    stage_inputs(stage, &writer, &inputs);
    struct view output =
        stage_transient(&writer, "output", h->device_of_layer[last],
                        &h->whole->values[h->whole->output_of[last]].type, PURPOSE_ACTIVATIONS);
    if (update && h->ranks > 1)
        buckets = buckets_new(stage, &writer, &h->ddp, h->group, h->ranks, unlimited);
    h->passes = memory_new_array((size_t)h->piece_count, sizeof *h->passes);
    forward(h, &writer, &inputs, output);
    take_loss(h, &writer, &inputs, output, accumulate);
    backward(h, &writer, buckets, accumulate);
    if (buckets) {
        buckets_finish(buckets);
        h->buckets = buckets_count(buckets);
        buckets_free(buckets);
    }
    if (update)
        stage_optimizer(stage, &writer);
    for (int piece = 0; piece < h->piece_count; piece++)
        pass_free(&h->passes[piece]);
    free(h->passes);
}

static void write_lists(struct by_hand *h, struct strategy_plan *out, int passes)
{
    bool many = passes > 1;
    bool ddp = h->ranks > 1;
    write_list(h, "steady", false, many, true, false);
    if (ddp)
        write_list(h, "first", !many, many, true, true);
    int first = ddp ? 1 : 0;
    int accumulate = first + 1;
    if (many) {
        write_list(h, "accumulate_first", false, false, false, false);
        write_list(h, "accumulate", false, true, false, false);
        if (ddp)
            write_list(h, "accumulate_start", true, false, false, false);
    }
    if (ddp) {
        order_add_step(out, accumulate + 2, accumulate + 1, first, passes);
        out->order.loop_first = out->order.count;
    }
    order_add_step(out, accumulate, accumulate + 1, 0, passes);
}

static enum rh_status place(struct by_hand *h, const struct strategy_request *request, int gpus)
{
    int layers = request->model->layer_count;
    const cJSON *placement =
        request->keys ? cJSON_GetObjectItemCaseSensitive(request->keys, "placement") : NULL;
    const cJSON *splits =
        request->keys ? cJSON_GetObjectItemCaseSensitive(request->keys, "split_at") : NULL;
    if (placement && splits)
        return fail(RH_INVALID, "%s: placement and split_at exclude each other", request->where);
    if (placement || splits)
        RETURN_IF_FAILED(placement_read(request, placement ? placement : splits, gpus, true,
                                        h->device_of_layer));
    else
        RETURN_IF_FAILED(
            balance_layers(request, h->whole, request->devices, gpus, h->device_of_layer));
    h->device_of_layer[layers] = h->device_of_layer[layers - 1];
    if (h->device_of_layer[layers] == gpus)
        return fail(RH_INVALID,
                    "%s: the last layer '%s' is placed on the host; the loss runs on a GPU",
                    request->where, request->model->layers[layers - 1].name);
    find_parts(h, layers);
    return RH_OK;
}

static enum rh_status make_graphs(struct by_hand *h, const struct strategy_request *request,
                                  struct graph **whole)
{
    struct graph_options options = stage_graph_options(request, h->rows, 1);
    RETURN_IF_FAILED(graph_new(request->model, &options, whole));
    h->whole = *whole;
    h->piece_count = (int)((h->rows + h->split_size - 1) / h->split_size);
    options.batch = h->split_size < h->rows ? h->split_size : h->rows;
    h->split_size = options.batch;
    RETURN_IF_FAILED(graph_new(request->model, &options, &h->pieces[0]));
    options.batch = piece_rows(h, h->piece_count - 1);
    if (options.batch != h->split_size)
        RETURN_IF_FAILED(graph_new(request->model, &options, &h->pieces[1]));
    return RH_OK;
}

static enum rh_status build(struct by_hand *h, const struct strategy_request *request,
                            const char *name, struct graph **whole, struct strategy_plan *out)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {h->ranks}};
    int layers = request->model->layer_count;
    int gpus = request->device_count / h->ranks;
    RETURN_IF_FAILED(ddp_options_read(
        request->keys ? cJSON_GetObjectItemCaseSensitive(request->keys, "ddp") : NULL,
        request->where, &h->ddp));
    RETURN_IF_FAILED(make_graphs(h, request, whole));
    h->device_of_layer = memory_new_array((size_t)layers + 1, sizeof(int));
    RETURN_IF_FAILED(place(h, request, gpus));
    out->plan = plan_new(name, &mesh, -1);
    role_init(out->plan, 0, h->ranks > 1 ? "rank" : "worker", gpus);
    h->group = plan_add_group(out->plan, "dp", 1, 0, NULL);
    stage_init(&h->stage, out->plan, 0, request, *whole, h->device_of_layer,
               h->ranks > 1 ? &h->ddp : NULL, h->rows, h->ranks > 1 ? 0 : -1);
    write_lists(h, out, request->training->accumulate);
    stage_homes(&h->stage, out);
    for (int i = 0; i < layers; i++)
        out->stage_of_layer[i] = h->device_of_layer[i];
    out->buckets = h->buckets;
    out->microbatches = h->piece_count;
    stage_free(&h->stage);
    return RH_OK;
}

enum rh_status by_hand_build(const struct strategy_request *request, const char *name,
                             int64_t split_size, struct strategy_plan *out)
{
    struct by_hand h = {.ranks = request->dp > 1 ? request->dp : 1};
    struct graph *whole = NULL;
    if (request->device_count % h.ranks != 0)
        return fail(RH_INVALID, "%s: %d devices do not divide into %d ranks", request->where,
                    request->device_count, h.ranks);
    if (request->batch % h.ranks != 0)
        return fail(RH_INVALID, "%s: a batch of %lld does not divide into %d equal shares",
                    request->where, (long long)request->batch, h.ranks);
    h.rows = request->batch / h.ranks;
    h.split_size = split_size > 0 ? split_size : h.rows;
    enum rh_status status = build(&h, request, name, &whole, out);
    free(h.device_of_layer);
    free(h.part_first);
    if (whole)
        graph_free(whole);
    for (int i = 0; i < 2; i++)
        if (h.pieces[i])
            graph_free(h.pieces[i]);
    return status;
}
