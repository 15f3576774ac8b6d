/* One list of a pipeline's rank: the actions of its stages, messages between ranks. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "strategy/pipeline.h"

/* While one list is written. Cells are (stage, microbatch), slots (crossing, microbatch). */
struct list_writer {
    const struct pipeline *p;
    struct stage *stage;
    struct writer writer;
    struct staged_inputs inputs;
    struct buckets *buckets; /* NULL: gradients are not reduced here */
    bool accumulate;
    struct pass *passes;       /* per cell; graph NULL: not begun */
    bool *forgotten;           /* per cell: the forward is to be run again */
    struct view statistics[2]; /* what a second forward updates in place of the real ones */
    int *received;             /* event, per slot */
    struct view *landed;       /* where it was received, per slot */
    int *sent;                 /* event, per slot; -1: not sent here */
};

static int cell(const struct list_writer *w, int stage, int microbatch)
{
    return stage * w->p->table.microbatches + microbatch;
}

static int slot(const struct list_writer *w, int crossing, int microbatch)
{
    return crossing * w->p->table.microbatches + microbatch;
}

static int rank_of(const struct list_writer *w, int stage)
{
    return w->p->table.rank_of_stage[stage];
}

static bool is_backward(const struct action *a)
{
    return a->kind == ACTION_BACKWARD || a->kind == ACTION_INPUT;
}

/* Whether the action needs (to), or makes (from), what crosses there. */
static bool crosses(const struct crossing *c, int end, const struct action *a)
{
    if (end != a->stage)
        return false;
    return crossing_is_forward(c) ? a->kind == ACTION_FORWARD : is_backward(a);
}

static struct pass *pass_of(struct list_writer *w, int stage, int microbatch)
{
    const struct pipeline *p = w->p;
    struct pass *pass = &w->passes[cell(w, stage, microbatch)];
    if (!pass->graph) {
        pass_init(pass, w->stage, &w->writer, p->graph, microbatch);
        pass_inputs(pass, &w->inputs, microbatch * p->graph->batch);
    }
    return pass;
}

/* ---- messages ---- */
/* Each directed edge has a stream of its own name at both ends, and so a communicator of its own: a
 * message never queues behind one of another edge. */
static int edge_stream(struct list_writer *w, const struct crossing *c)
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

static const char *message_name(const struct list_writer *w, const struct crossing *c,
                                int microbatch)
{
    return plan_text(w->stage->plan, "%s [%d]", w->p->graph->values[c->value].name, microbatch);
}

/* Returns the event that is recorded when the message has passed. */
static int exchange_one(struct list_writer *w, const struct crossing *c, int microbatch, bool send,
                        struct view view)
{
    const char *name = message_name(w, c, microbatch);
    struct exchange_message message = {.send = send,
                                       .stream = edge_stream(w, c),
                                       .peer = {false, rank_of(w, send ? c->to : c->from)},
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

static void receive_for(struct list_writer *w, const struct action *a)
{
    const struct pipeline *p = w->p;
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        if (!crosses(c, c->to, a) || rank_of(w, c->from) == w->stage->role)
            continue;
        int at = slot(w, i, a->microbatch);
        w->landed[at] = stage_transient(&w->writer, message_name(w, c, a->microbatch), 0,
                                        &p->graph->values[c->value].type, PURPOSE_ACTIVATIONS);
        w->received[at] = exchange_one(w, c, a->microbatch, false, w->landed[at]);
    }
}

static void use_received(struct list_writer *w, const struct action *a)
{
    const struct pipeline *p = w->p;
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        if (!crosses(c, c->to, a) || rank_of(w, c->from) == w->stage->role)
            continue;
        int at = slot(w, i, a->microbatch);
        write_wait(&w->writer, stage_compute(w->stage, 0), w->received[at]);
        pass_place(pass_of(w, a->stage, a->microbatch), c->value, 0, w->landed[at]);
    }
}

/* To the stages of other ranks by messages; stages of this one find the value where it lies. */
static void hand_on(struct list_writer *w, const struct action *a)
{
    const struct pipeline *p = w->p;
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        if (!crosses(c, c->from, a))
            continue;
        struct view view = pass_value(pass_of(w, a->stage, a->microbatch), c->value, 0);
        if (rank_of(w, c->to) == w->stage->role)
            pass_place(pass_of(w, c->to, a->microbatch), c->value, 0, view);
        else
            w->sent[slot(w, i, a->microbatch)] = exchange_one(w, c, a->microbatch, true, view);
    }
}

/* The microbatch of the action like this one, of its stage, that was two before; -1: none. */
static int two_before(const struct action *actions, int at)
{
    int seen = 0;
    for (int i = at - 1; i >= 0; i--)
        if (actions[i].stage == actions[at].stage &&
            is_backward(&actions[i]) == is_backward(&actions[at]) &&
            actions[i].kind != ACTION_WEIGHT && ++seen == 2)
            return actions[i].microbatch;
    return -1;
}

/* Memory of a sent value may be used again only after the send: an activation's at its own
 * backward, which reads it too; all others two actions later, when they have long left. */
static void wait_for_sends(struct list_writer *w, const struct action *actions, int at)
{
    const struct pipeline *p = w->p;
    const struct action *a = &actions[at];
    if (a->kind == ACTION_WEIGHT || (a->kind == ACTION_FORWARD && !p->recompute))
        return;
    int before = two_before(actions, at);
    for (int i = 0; i < p->crossing_count; i++) {
        const struct crossing *c = &p->crossings[i];
        bool kept = crossing_is_forward(c) && !p->recompute;
        int microbatch = kept ? a->microbatch : before;
        if (c->from != a->stage || rank_of(w, c->to) == w->stage->role || microbatch < 0 ||
            (!kept && !crosses(c, c->from, a)))
            continue;
        int event = w->sent[slot(w, i, microbatch)];
        assert(event >= 0 && "a value is waited for before it is sent");
        write_wait(&w->writer, stage_compute(w->stage, 0), event);
    }
}

/* ---- actions ---- */
static void emit(struct list_writer *w, struct pass *pass, int stage, unsigned phases)
{
    const struct graph *graph = w->p->graph;
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if ((phases & 1u << node->phase) && w->p->stage_of_layer[node->layer] == stage)
            pass_node(pass, node);
    }
}

/* ---- recomputation ---- */
/* A forward that is run again must not move the running statistics again. */
static void copy_statistics(struct list_writer *w)
{
    const int buffers[2] = {w->stage->state_values[0], w->stage->state_counts[0]};
    w->writer.work = WORK_OTHER;
    for (int i = 0; i < 2; i++) {
        w->statistics[i].buffer = NOT_HERE;
        if (!w->p->recompute || buffers[i] == NOT_HERE)
            continue;
        struct view real = view_of(&w->stage->plan->roles[w->stage->role], buffers[i]);
        w->statistics[i] = stage_transient(&w->writer, "statistics of recomputed forwards", 0,
                                           &real.type, PURPOSE_ACTIVATIONS);
        stage_copy(w->stage, &w->writer, "statistics", real, 0, w->statistics[i], 0);
    }
}

static void place_statistics(const struct list_writer *w, struct pass *pass)
{
    const struct graph *graph = w->p->graph;
    for (int v = 0; v < graph->value_count; v++) {
        const struct value *value = &graph->values[v];
        if (value->kind != VALUE_STATE || w->stage->state[value->index].buffer < 0)
            continue;
        struct view view = w->stage->state[value->index];
        view.buffer = w->statistics[view.buffer == w->stage->state_counts[0]].buffer;
        pass_place(pass, v, 0, view);
    }
}

/* Keeps what the stage was given, and the loss's gradient; all else can be made again. */
static void forget(struct list_writer *w, const struct action *a)
{
    const struct pipeline *p = w->p;
    int last = p->graph->model->layer_count - 1;
    int gradient = p->graph->gradient_of[last];
    struct pass before = *pass_of(w, a->stage, a->microbatch);
    w->passes[cell(w, a->stage, a->microbatch)] = (struct pass){0};
    struct pass *pass = pass_of(w, a->stage, a->microbatch);
    for (int i = 0; i < p->crossing_count; i++)
        if (crosses(&p->crossings[i], p->crossings[i].to, a))
            pass_place(pass, p->crossings[i].value, 0,
                       pass_value(&before, p->crossings[i].value, 0));
    if (p->stage_of_layer[last + 1] == a->stage)
        pass_place(pass, gradient, 0, pass_value(&before, gradient, 0));
    pass_free(&before);
    place_statistics(w, pass);
    w->forgotten[cell(w, a->stage, a->microbatch)] = true;
}

static void run_again(struct list_writer *w, struct pass *pass, const struct action *a)
{
    const char *span = plan_text(w->stage->plan, "recompute %d", a->microbatch);
    w->forgotten[cell(w, a->stage, a->microbatch)] = false;
    stage_span(w->stage, &w->writer, 0, span, true);
    emit(w, pass, a->stage, 1u << PHASE_FORWARD);
    stage_span(w->stage, &w->writer, 0, span, false);
}

static bool is_forgotten(const struct list_writer *w, const struct action *a)
{
    enum recompute recompute = w->p->recompute;
    bool last = a->microbatch == w->p->table.microbatches - 1;
    return recompute == RECOMPUTE_ALWAYS || (recompute == RECOMPUTE_EXCEPT_LAST && !last);
}

static unsigned phases_of(const struct list_writer *w, const struct action *a)
{
    const unsigned input = 1u << PHASE_BACKWARD_INPUT, weight = 1u << PHASE_BACKWARD_WEIGHT;
    bool whole = w->p->first_stage_whole && a->stage == 0;
    switch (a->kind) {
    case ACTION_FORWARD: return 1u << PHASE_FORWARD | 1u << PHASE_LOSS;
    case ACTION_BACKWARD: return input | weight;
    case ACTION_INPUT: return whole ? 0 : input;
    default: return weight | (whole ? input : 0);
    }
}

static const char *span_name(const struct list_writer *w, const struct action *a)
{
    static const char *const words[] = {"forward", "backward", "backward input", "backward weight"};
    if (w->p->table.stages == w->p->table.ranks)
        return plan_text(w->stage->plan, "%s %d", words[a->kind], a->microbatch);
    return plan_text(w->stage->plan, "stage %d %s %d", a->stage, words[a->kind], a->microbatch);
}

static bool makes_weights(const struct action *a)
{
    return a->kind == ACTION_BACKWARD || a->kind == ACTION_WEIGHT;
}

/* Whether an action of the stage that writes what this one writes stands elsewhere in [from, to).
 */
static bool another(const struct action *actions, int from, int to, const struct action *a)
{
    for (int i = from; i < to; i++) {
        bool same = makes_weights(a) ? makes_weights(&actions[i]) : actions[i].kind == a->kind;
        if (actions[i].stage == a->stage && same)
            return true;
    }
    return false;
}

static void write_action(struct list_writer *w, const struct action *actions, int count, int at)
{
    const struct action *a = &actions[at];
    wait_for_sends(w, actions, at);
    struct pass *pass = pass_of(w, a->stage, a->microbatch);
    use_received(w, a);
    pass->accumulate = w->accumulate || another(actions, 0, at, a);
    bool last = makes_weights(a) && !another(actions, at + 1, count, a);
    pass->gradient_ready = w->buckets && last ? bucket_gradient_ready : NULL;
    pass->context = w->buckets;
    w->writer.microbatch = a->microbatch;
    if (w->forgotten[cell(w, a->stage, a->microbatch)] && phases_of(w, a))
        run_again(w, pass, a);
    stage_span(w->stage, &w->writer, 0, span_name(w, a), true);
    emit(w, pass, a->stage, phases_of(w, a));
    stage_span(w->stage, &w->writer, 0, span_name(w, a), false);
    hand_on(w, a);
    if (a->kind == ACTION_FORWARD && is_forgotten(w, a))
        forget(w, a);
    if (makes_weights(a)) /* nothing comes after it */
        pass_free(pass);
}

/* A receive is posted one action ahead of its use: it overlaps with that action's work, and its
 * memory is that of values which the action before it has finished with. */
static void write_actions(struct list_writer *w)
{
    const struct action *actions = w->p->table.actions[w->stage->role];
    int count = w->p->table.counts[w->stage->role];
    receive_for(w, &actions[0]);
    for (int i = 0; i < count; i++) {
        if (i + 1 < count)
            receive_for(w, &actions[i + 1]);
        write_action(w, actions, count, i);
    }
}

static void write_body(struct list_writer *w, const struct pipeline_list *what)
{
    const struct pipeline *p = w->p;
    struct stage *stage = w->stage;
    if (what->start && p->ranks > 1)
        ddp_broadcast_parameters(stage, &w->writer, p->dp_group);
    stage_begin(stage, &w->writer);
    if (p->ranks > 1 && (what->start || (what->statistics && p->ddp.broadcast_buffers)))
        ddp_broadcast_states(stage, &w->writer, p->dp_group);
    stage_inputs(stage, &w->writer, &w->inputs);
    copy_statistics(w);
    if (what->update && p->ranks > 1)
        w->buckets =
            buckets_new(stage, &w->writer, &p->ddp, p->dp_group, p->ranks, what->unlimited);
    write_actions(w);
    if (w->buckets) {
        buckets_finish(w->buckets);
        p->out->buckets += what->unlimited ? 0 : buckets_count(w->buckets);
        buckets_free(w->buckets);
    }
    if (what->update)
        stage_optimizer(stage, &w->writer);
}

void pipeline_write_list(const struct pipeline *p, struct stage *stage,
                         const struct pipeline_list *what)
{
    size_t cells = (size_t)p->table.stages * (size_t)p->table.microbatches;
    size_t slots = (size_t)p->crossing_count * (size_t)p->table.microbatches + 1;
    struct list_writer w = {.p = p,
                            .stage = stage,
                            .writer = {stage->plan, stage->role,
                                       role_add_list(stage->plan, stage->role, what->name),
                                       WORK_OTHER, -1},
                            .accumulate = what->accumulate,
                            .passes = memory_new_array(cells, sizeof(struct pass)),
                            .forgotten = memory_new_array(cells, sizeof(bool)),
                            .received = memory_new_array(slots, sizeof(int)),
                            .sent = memory_new_array(slots, sizeof(int)),
                            .landed = memory_new_array(slots, sizeof(struct view))};
    for (size_t i = 0; i < slots; i++)
        w.received[i] = w.sent[i] = -1;
    write_body(&w, what);
    for (size_t i = 0; i < cells; i++)
        if (w.passes[i].graph)
            pass_free(&w.passes[i]);
    free(w.passes);
    free(w.forgotten);
    free(w.received);
    free(w.sent);
    free(w.landed);
}
