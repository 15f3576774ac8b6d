/* Pipelines: one worker a stage, microbatches in the order of a schedule; or, with split_size, the
 * hand-made pipeline of one worker (by_hand.c). With dp > 1 each stage is a DDP group. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "strategy/by_hand.h"
#include "strategy/crossings.h"
#include "strategy/schedule.h"
#include "strategy/stage.h"
#include "strategy/table.h"

struct pipeline {
    const struct strategy_request *request;
    struct strategy_plan *out;
    struct graph *graph; /* of one microbatch */
    const struct schedule *schedule;
    struct ddp_options ddp;
    int stages, microbatches, ranks;
    int dp_group, pp_group;
    int *stage_of_layer;
    struct crossing *crossings;
    int crossing_count;
};

/* Per stage, while one list is written. */
struct stage_writer {
    const struct pipeline *p;
    struct stage *stage;
    struct writer writer;
    struct pass *passes; /* one a microbatch */
    struct staged_inputs inputs;
    struct action *actions;
    int *received;       /* event, per crossing and microbatch */
    struct view *landed; /* likewise: where it was received */
    int *sent;           /* event, per crossing and microbatch; -1: not sent here */
    bool accumulate;
};

/* Each directed edge has a stream of its own name at both ends, and so a communicator of its own: a
 * message never queues behind one of another edge. */
static int edge_stream(struct stage_writer *w, const struct crossing *c)
{
    struct role *role = &w->stage->plan->roles[w->stage->role];
    const char *name =
        plan_text(w->stage->plan, "%s %d-%d", crossing_is_forward(c) ? "activations" : "gradients",
                  c->from, c->to);
    for (int i = 0; i < role->stream_count; i++)
        if (role->streams[i].name == name)
            return i;
    return role_add_stream(w->stage->plan, w->stage->role, name, 0);
}

static const char *message_name(const struct stage_writer *w, const struct crossing *c,
                                int microbatch)
{
    return plan_text(w->stage->plan, "%s [%d]", w->p->graph->values[c->value].name, microbatch);
}

/* Returns the event that is recorded when the message has passed. */
static int exchange_one(struct stage_writer *w, const struct crossing *c, int microbatch, bool send,
                        struct view view)
{
    const char *name = message_name(w, c, microbatch);
    struct exchange_message message = {.send = send,
                                       .stream = edge_stream(w, c),
                                       .peer = {false, send ? c->to : c->from},
                                       .name = name,
                                       .view = view};
    w->writer.work = WORK_COMMUNICATION;
    w->writer.microbatch = microbatch;
    write_join(&w->writer, stage_compute(w->stage, 0), message.stream, name);
    write_exchange(&w->writer, plan_text(w->stage->plan, "%s %s", send ? "send" : "receive", name),
                   w->p->pp_group, &message, 1);
    int event =
        role_add_event(w->stage->plan, w->stage->role,
                       plan_text(w->stage->plan, "%s %s", send ? "sent" : "received", name));
    write_record(&w->writer, message.stream, event);
    return event;
}

static void receive_for(struct stage_writer *w, const struct action *action)
{
    const struct pipeline *p = w->p;
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        if (c->to != w->stage->role || crossing_is_forward(c) != (action->kind == ACTION_FORWARD))
            continue;
        int at = i * p->microbatches + action->microbatch;
        w->landed[at] = stage_transient(&w->writer, message_name(w, c, action->microbatch), 0,
                                        &p->graph->values[c->value].type, PURPOSE_ACTIVATIONS);
        w->received[at] = exchange_one(w, c, action->microbatch, false, w->landed[at]);
    }
}

static void use_received(struct stage_writer *w, const struct action *action)
{
    const struct pipeline *p = w->p;
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        if (c->to != w->stage->role || crossing_is_forward(c) != (action->kind == ACTION_FORWARD))
            continue;
        int at = i * p->microbatches + action->microbatch;
        write_wait(&w->writer, stage_compute(w->stage, 0), w->received[at]);
        pass_place(&w->passes[action->microbatch], c->value, 0, w->landed[at]);
    }
}

static void send_results(struct stage_writer *w, const struct action *action)
{
    const struct pipeline *p = w->p;
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        if (c->from != w->stage->role || crossing_is_forward(c) != (action->kind == ACTION_FORWARD))
            continue;
        int at = i * p->microbatches + action->microbatch;
        w->sent[at] = exchange_one(w, c, action->microbatch, true,
                                   pass_value(&w->passes[action->microbatch], c->value, 0));
    }
}

/* Memory of a sent value may be used again only after the send: an activation's at its own
 * backward, a gradient's two backward actions later, when it has long left. */
static void wait_for_sends(struct stage_writer *w, const struct action *action)
{
    const struct pipeline *p = w->p;
    if (action->kind != ACTION_BACKWARD)
        return;
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        int microbatch = crossing_is_forward(c) ? action->microbatch : action->microbatch - 2;
        if (c->from != w->stage->role || microbatch < 0)
            continue;
        int event = w->sent[i * p->microbatches + microbatch];
        assert(event >= 0 && "a value is waited for before it is sent");
        write_wait(&w->writer, stage_compute(w->stage, 0), event);
    }
}

static void write_action(struct stage_writer *w, const struct action *action,
                         struct buckets *buckets)
{
    const struct pipeline *p = w->p;
    struct pass *pass = &w->passes[action->microbatch];
    int layers = p->graph->model->layer_count;
    if (action->kind == ACTION_FORWARD) {
        pass_init(pass, w->stage, &w->writer, p->graph, action->microbatch);
        pass_inputs(pass, &w->inputs, action->microbatch * p->graph->batch);
        pass->accumulate = w->accumulate || action->microbatch > 0;
    }
    wait_for_sends(w, action);
    use_received(w, action);
    w->writer.microbatch = action->microbatch;
    const char *span =
        plan_text(w->stage->plan, "%s %d", action->kind == ACTION_FORWARD ? "forward" : "backward",
                  action->microbatch);
    stage_span(w->stage, &w->writer, 0, span, true);
    if (action->kind == ACTION_FORWARD) {
        pass_forward(pass, 0, layers);
        pass_loss(pass);
    } else {
        if (buckets && action->microbatch == p->microbatches - 1) {
            pass->gradient_ready = bucket_gradient_ready;
            pass->context = buckets;
        }
        pass_backward(pass, 0, layers);
    }
    stage_span(w->stage, &w->writer, 0, span, false);
    send_results(w, action);
}

/* A receive is posted one action ahead of its use: it overlaps with that action's work, and its
 * memory is that of values which the action before it has finished with. */
static void write_actions(struct stage_writer *w, struct buckets *buckets)
{
    int count = 2 * w->p->microbatches;
    receive_for(w, &w->actions[0]);
    for (int i = 0; i < count; i++) {
        if (i + 1 < count)
            receive_for(w, &w->actions[i + 1]);
        write_action(w, &w->actions[i], buckets);
    }
}

struct list_kind {
    const char *name;
    bool start, statistics, accumulate, update, unlimited;
};

static void write_list(const struct pipeline *p, struct stage *stage, const struct list_kind *what)
{
    size_t messages = (size_t)p->crossing_count * (size_t)p->microbatches + 1;
    struct stage_writer w = {
        .p = p,
        .stage = stage,
        .writer = {stage->plan, stage->role, role_add_list(stage->plan, stage->role, what->name),
                   WORK_OTHER, -1},
        .passes = memory_new_array((size_t)p->microbatches, sizeof(struct pass)),
        .actions = memory_new_array((size_t)p->microbatches * 2, sizeof(struct action)),
        .received = memory_new_array(messages, sizeof(int)),
        .sent = memory_new_array(messages, sizeof(int)),
        .landed = memory_new_array(messages, sizeof(struct view)),
        .accumulate = what->accumulate};
    struct buckets *buckets = NULL;
    for (size_t i = 0; i < messages; i++)
        w.received[i] = w.sent[i] = -1;
    if (what->start && p->ranks > 1)
        ddp_broadcast_parameters(stage, &w.writer, p->dp_group);
    stage_begin(stage, &w.writer);
    if (p->ranks > 1 && (what->start || (what->statistics && p->ddp.broadcast_buffers)))
        ddp_broadcast_states(stage, &w.writer, p->dp_group);
    stage_inputs(stage, &w.writer, &w.inputs);
    if (what->update && p->ranks > 1)
        buckets = buckets_new(stage, &w.writer, &p->ddp, p->dp_group, p->ranks, what->unlimited);
    p->schedule->actions(stage->role, p->stages, p->microbatches, w.actions);
    write_actions(&w, buckets);
    if (buckets) {
        buckets_finish(buckets);
        p->out->buckets += what->unlimited ? 0 : buckets_count(buckets);
        buckets_free(buckets);
    }
    if (what->update)
        stage_optimizer(stage, &w.writer);
    for (int m = 0; m < p->microbatches; m++)
        pass_free(&w.passes[m]);
    free(w.passes);
    free(w.actions);
    free(w.received);
    free(w.sent);
    free(w.landed);
}

static void write_stage(const struct pipeline *p, int role)
{
    int layers = p->graph->model->layer_count;
    bool many = p->request->training->accumulate > 1;
    bool ddp = p->ranks > 1;
    struct stage stage;
    int *device_of_layer = memory_new_array((size_t)layers + 1, sizeof(int));
    for (int i = 0; i <= layers; i++)
        device_of_layer[i] = p->stage_of_layer[i] == role ? 0 : NOT_HERE;
    role_init(p->out->plan, role, plan_text(p->out->plan, "stage %d", role), 1);
    stage_init(&stage, p->out->plan, role, p->request, p->graph, device_of_layer,
               p->request->batch / p->ranks, ddp ? 0 : -1);
    struct list_kind steady = {"steady", false, !many, many, true, false};
    write_list(p, &stage, &steady);
    if (ddp) {
        struct list_kind first = {"first", !many, true, many, true, true};
        write_list(p, &stage, &first);
    }
    if (many) {
        struct list_kind begin = {"accumulate_first", false, true, false, false, false};
        struct list_kind more = {"accumulate", false, false, true, false, false};
        write_list(p, &stage, &begin);
        write_list(p, &stage, &more);
        if (ddp) {
            struct list_kind start = {"accumulate_start", true, true, false, false, false};
            write_list(p, &stage, &start);
        }
    }
    stage_homes(&stage, p->out);
    stage_free(&stage);
    free(device_of_layer);
}

static enum rh_status check_stages(const struct pipeline *p)
{
    const struct model *model = p->request->model;
    int *layers = memory_new_array((size_t)p->stages, sizeof *layers);
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
    for (int s = 0; s < p->stages && status == RH_OK; s++)
        if (layers[s] == 0)
            status = fail(RH_INVALID, "%s: stage %d of %d has no layers", p->request->where, s,
                          p->stages);
    free(layers);
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
        RETURN_IF_FAILED(placement_read(request, placement ? placement : splits, p->stages, false,
                                        p->stage_of_layer));
    else
        RETURN_IF_FAILED(
            balance_layers(request, p->graph, request->devices, p->stages, p->stage_of_layer));
    p->stage_of_layer[layers] = p->stage_of_layer[layers - 1];
    return check_stages(p);
}

/* How the batch is cut: mesh, microbatches, schedule; with both numbers where they do not fit. */
static enum rh_status read_shape(struct pipeline *p)
{
    const struct strategy_request *request = p->request;
    const char *schedule = "1f1b";
    p->ranks = request->dp ? request->dp : 1;
    p->stages = request->pp ? request->pp : request->device_count / p->ranks;
    if (p->ranks * p->stages != request->device_count)
        return fail(RH_INVALID, "%s: mesh dp = %d times pp = %d is not %d devices", request->where,
                    p->ranks, p->stages, request->device_count);
    int64_t rows = request->batch / p->ranks;
    int64_t microbatches = p->stages;
    RETURN_IF_FAILED(
        json_integer(request->keys, request->where, "microbatches", 1, 1 << 20, &microbatches));
    RETURN_IF_FAILED(json_string(request->keys, request->where, "schedule", &schedule));
    RETURN_IF_FAILED(schedule_find(schedule, &p->schedule));
    RETURN_IF_FAILED(ddp_options_read(cJSON_GetObjectItemCaseSensitive(request->keys, "ddp"),
                                      request->where, &p->ddp));
    if (request->batch % p->ranks != 0 || rows % microbatches != 0)
        return fail(RH_INVALID,
                    "%s: a batch of %lld does not divide into %d ranks times %lld microbatches",
                    request->where, (long long)request->batch, p->ranks, (long long)microbatches);
    if (microbatches < (int64_t)p->schedule->microbatches_per_stage * p->stages)
        return fail(RH_INVALID, "%s: too few microbatches for %s: %lld on %d stages",
                    request->where, p->schedule->name, (long long)microbatches, p->stages);
    p->microbatches = (int)microbatches;
    return RH_OK;
}

static enum rh_status build_staged(struct pipeline *p)
{
    const struct strategy_request *request = p->request;
    RETURN_IF_FAILED(read_shape(p));
    int64_t rows = request->batch / p->ranks / p->microbatches;
    struct graph_options options =
        stage_graph_options(request, rows, request->training->loss_sum ? 1 : 1.0 / p->microbatches);
    RETURN_IF_FAILED(graph_new(request->model, &options, &p->graph));
    RETURN_IF_FAILED(place(p));
    p->crossing_count = crossings_find(p->graph, p->stage_of_layer, p->stages, &p->crossings);
    struct mesh mesh = {.axis_count = 2, .axis = {"dp", "pp"}, .size = {p->ranks, p->stages}};
    p->out->plan = plan_new("pipeline", &mesh, 1);
    p->dp_group = plan_add_group(p->out->plan, "dp", 1, 0, NULL);
    p->pp_group = plan_add_group(p->out->plan, "pp", 2, 0, NULL);
    for (int role = 0; role < p->stages; role++)
        write_stage(p, role);
    bool ddp = p->ranks > 1;
    int accumulate = ddp ? 2 : 1;
    if (ddp) {
        order_add_step(p->out, 4, accumulate + 1, 1, request->training->accumulate);
        p->out->order.loop_first = p->out->order.count;
    }
    order_add_step(p->out, accumulate, accumulate + 1, 0, request->training->accumulate);
    for (int i = 0; i < request->model->layer_count; i++)
        p->out->stage_of_layer[i] = p->stage_of_layer[i];
    p->out->microbatches = p->microbatches;
    return RH_OK;
}

static enum rh_status build(const struct strategy_request *request, struct strategy_plan *out)
{
    int64_t split_size = 0;
    const cJSON *empty = NULL;
    if (request->keys) {
        RETURN_IF_FAILED(json_integer(request->keys, request->where, "split_size", 1,
                                      INT64_C(1) << 40, &split_size));
        empty = cJSON_GetObjectItemCaseSensitive(request->keys, "microbatches");
        if (!empty)
            empty = cJSON_GetObjectItemCaseSensitive(request->keys, "schedule");
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
    if (p.graph)
        graph_free(p.graph);
    return status;
}

static const char *const keys[] = {"schedule",  "microbatches", "split_size",
                                   "placement", "split_at",     "ddp"};

const struct strategy strategy_pipeline = {
    .name = "pipeline",
    .description = "stages on one GPU each (GPipe, 1F1B), or by hand with split_size",
    .keys = keys,
    .key_count = 6,
    .build = build,
};
