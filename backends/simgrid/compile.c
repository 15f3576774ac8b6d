#include <stdlib.h>
#include <string.h>

#include "backends/simgrid/session.h"
#include "backends/spans.h"
#include "base/memory.h"
#include "cost/cost.h"

int session_device(const struct session *s, int worker, int local)
{
    return spans_device(s->plan, &s->options, worker, local);
}

bool is_local_copy(const struct role *role, const struct instruction *in)
{
    return role->buffers[role->views[in->copy.from].buffer].device ==
           role->buffers[role->views[in->copy.to].buffer].device;
}

bool is_transfer(const struct role *role, const struct instruction *in)
{
    return in->kind == INSTRUCTION_COLLECT || in->kind == INSTRUCTION_EXCHANGE ||
           (in->kind == INSTRUCTION_COPY && !is_local_copy(role, in));
}

struct compiled *session_compiled(const struct session *s, int worker, int list)
{
    return s->of[worker * s->plan->roles[0].list_count + list];
}

/* Types of a compute's operands, in arrays that grow with the largest optimizer. */
struct operands {
    struct tensor_type *types;
    int capacity;
};

static enum rh_status compute_seconds(const struct session *s, const struct compiled *c,
                                      const struct instruction *in, struct operands *operands,
                                      double *seconds)
{
    const struct role *role = &s->plan->roles[c->role];
    int reads = in->compute.read_count;
    int writes = in->compute.write_count;
    const struct device_model *model = c->models[role->streams[in->stream].device];
    if (reads + writes > operands->capacity) {
        operands->capacity = 2 * (reads + writes);
        operands->types =
            memory_resize(operands->types, (size_t)operands->capacity, sizeof *operands->types);
    }
    for (int i = 0; i < reads + writes; i++)
        operands->types[i] = role->views[in->compute.view_first + i].type;
    RETURN_IF_FAILED(cost_op_seconds(model, &in->compute.op, operands->types, reads,
                                     operands->types + reads, writes, seconds));
    *seconds *= s->options.compute_scale;
    if (in->compute.op.kind == OP_bucket_copy)
        *seconds += s->options.bucket_tensor_seconds >= 0 ? s->options.bucket_tensor_seconds
                                                          : model->bucket_tensor_seconds;
    return RH_OK;
}

/* Host time to issue: a launch per local device or message that it names; events are cheaper. */
static double issue_seconds(const struct compiled *c, const struct role *role,
                            const struct instruction *in)
{
    const struct device_model *model =
        in->stream >= 0 ? c->models[role->streams[in->stream].device] : c->models[0];
    bool on_host = in->stream >= 0 && role->streams[in->stream].device == role->gpus;
    switch (in->kind) {
    case INSTRUCTION_COMPUTE: return on_host ? 0 : model->launch_seconds;
    case INSTRUCTION_COPY: return model->launch_seconds;
    case INSTRUCTION_COLLECT: return model->launch_seconds * in->collect.part_count;
    case INSTRUCTION_EXCHANGE: return model->launch_seconds * in->exchange.message_count;
    case INSTRUCTION_RECORD:
    case INSTRUCTION_WAIT: return on_host ? 0 : model->event_seconds;
    default: return 0;
    }
}

static enum rh_status cost_instructions(const struct session *s, struct compiled *c)
{
    const struct role *role = &s->plan->roles[c->role];
    const struct list *list = &role->lists[c->list];
    struct operands operands = {0};
    enum rh_status status = RH_OK;
    for (int i = 0; i < list->count && status == RH_OK; i++) {
        const struct instruction *in = &list->instructions[i];
        c->issue[i] = issue_seconds(c, role, in);
        if (in->kind == INSTRUCTION_COMPUTE)
            status = compute_seconds(s, c, in, &operands, &c->seconds[i]);
        if (status != RH_OK)
            fail_within(status, "'%s'", in->name);
        if (in->kind == INSTRUCTION_COPY && is_local_copy(role, in)) {
            const struct view *view = &role->views[in->copy.from];
            const struct device_model *model = c->models[role->buffers[view->buffer].device];
            c->seconds[i] = model->kernel_seconds +
                            2 * (double)type_bytes(&view->type) / model->memory_bytes_per_second;
        }
    }
    free(operands.types);
    return status;
}

static bool unordered(const struct order *order, int a, int b)
{
    return !order_before(order, a, b) && !order_before(order, b, a);
}

static bool touches_device(const struct role *role, const struct instruction *in, int device)
{
    if (in->kind == INSTRUCTION_COLLECT)
        for (int p = 0; p < in->collect.part_count; p++)
            if (role->streams[role->parts[in->collect.part_first + p].stream].device == device)
                return true;
    if (in->kind == INSTRUCTION_EXCHANGE)
        for (int m = 0; m < in->exchange.message_count; m++)
            if (role->streams[role->messages[in->exchange.message_first + m].stream].device ==
                device)
                return true;
    return false;
}

/* Computes that share their device with another compute stream, or run beside a collective that
 * takes a share of it, become SimGrid executions; all others are sums on a clock. */
/* Several workers on one node share its host's cores. */
static bool host_is_shared(const struct session *s)
{
    int gpus = s->plan->roles[0].gpus;
    return s->options.cluster->nodes[0]->gpu_count > gpus && s->workers > 1;
}

static void find_execs(struct session *s, struct compiled *c)
{
    const struct role *role = &s->plan->roles[c->role];
    const struct list *list = &role->lists[c->list];
    for (int a = 0; a < role->stream_count; a++) {
        int device = role->streams[a].device;
        for (int k = 0; device == role->gpus && host_is_shared(s) && k < c->queues.count[a]; k++)
            if (list->instructions[c->queues.items[a][k]].kind == INSTRUCTION_COMPUTE)
                s->any_exec = c->exec[c->queues.items[a][k]] = true;
        double share = c->models[device]->collective_compute_share;
        for (int i = 0; i < list->count; i++) {
            const struct instruction *other = &list->instructions[i];
            bool computes = other->kind == INSTRUCTION_COMPUTE && other->stream != a &&
                            role->streams[other->stream].device == device;
            bool collects = share > 0 && touches_device(role, other, device);
            for (int k = 0; (computes || collects) && k < c->queues.count[a]; k++) {
                int mine = c->queues.items[a][k];
                if (list->instructions[mine].kind == INSTRUCTION_COMPUTE && !c->exec[mine] &&
                    unordered(c->order, mine, i))
                    s->any_exec = c->exec[mine] = true;
            }
        }
    }
}

static struct compiled *find_compiled(struct session *s, int role, int list,
                                      const struct device_model *const *models, bool same_models)
{
    int devices = s->plan->roles[role].gpus + 1;
    for (int i = 0; i < s->compiled_count; i++) {
        struct compiled *c = &s->compiled[i];
        if (c->role == role && c->list == list &&
            (!same_models || memcmp(c->models, models, (size_t)devices * sizeof *models) == 0))
            return c;
    }
    return NULL;
}

static enum rh_status compile(struct session *s, int role, int list,
                              const struct device_model *const *models)
{
    const struct role *r = &s->plan->roles[role];
    size_t count = (size_t)r->lists[list].count;
    size_t devices = (size_t)r->gpus + 1;
    struct compiled *twin = find_compiled(s, role, list, models, false);
    struct order *order = twin ? twin->order : NULL;
    struct compiled *c = ARRAY_ADD(s->compiled, s->compiled_count, s->compiled_capacity);
    *c = (struct compiled){.role = role,
                           .list = list,
                           .models = memory_new_array(devices, sizeof *c->models),
                           .seconds = memory_new_array(count, sizeof *c->seconds),
                           .issue = memory_new_array(count, sizeof *c->issue),
                           .exec = memory_new_array(count, sizeof *c->exec),
                           .order = order,
                           .owns_order = !order};
    memcpy(c->models, models, devices * sizeof *models);
    if (!order)
        RETURN_IF_FAILED(order_new(s->plan, role, list, &c->order));
    RETURN_IF_FAILED(cost_instructions(s, c));
    queues_fill(&c->queues, r, list);
    find_execs(s, c);
    return RH_OK;
}

/* Nodes that do the same and see the same network are simulated once: one role, whole nodes of the
 * same model, one worker inside one node. Whether their transfers allow it is seen afterwards. */
static int workers_of_first_node(const struct session *s)
{
    const struct cluster *cluster = s->options.cluster;
    int gpus = s->plan->roles[0].gpus;
    if (!s->options.fold || s->options.fidelity != FIDELITY_FLOWS || cluster->native_path ||
        s->plan->role_count != 1)
        return s->workers;
    int per_node = cluster->nodes[0]->gpu_count;
    if (per_node % gpus != 0 || s->workers * gpus <= per_node ||
        (s->workers * gpus) % per_node != 0)
        return s->workers;
    for (int i = 0; i < s->workers * gpus; i++) {
        int device = s->options.devices[i];
        if (device != i ||
            cluster->nodes[cluster_device_node(cluster, device)] != cluster->nodes[0])
            return s->workers;
    }
    return per_node / gpus;
}

static enum rh_status compile_workers(struct session *s)
{
    int lists = s->plan->roles[0].list_count;
    s->of = memory_new_array((size_t)s->simulated * (size_t)lists, sizeof *s->of);
    int *index = memory_new_array((size_t)s->simulated * (size_t)lists, sizeof *index);
    enum rh_status status = RH_OK;
    for (int worker = 0; worker < s->simulated && status == RH_OK; worker++) {
        int role = plan_role_of(s->plan, worker);
        int devices = s->plan->roles[role].gpus + 1;
        const struct device_model **models = memory_new_array((size_t)devices, sizeof *models);
        for (int i = 0; i < devices; i++)
            models[i] = cluster_device_model(s->options.cluster, session_device(s, worker, i));
        for (int list = 0; list < lists && status == RH_OK; list++) {
            if (!find_compiled(s, role, list, models, true))
                status = compile(s, role, list, models);
            if (status == RH_OK)
                index[worker * lists + list] =
                    (int)(find_compiled(s, role, list, models, true) - s->compiled);
        }
        free(models);
    }
    for (int i = 0; i < s->simulated * lists && status == RH_OK; i++)
        s->of[i] = &s->compiled[index[i]]; /* the array no longer grows */
    free(index);
    return status;
}

enum rh_status session_compile(struct session *s)
{
    s->workers = mesh_workers(&s->plan->mesh);
    s->simulated = workers_of_first_node(s);
    s->folded = s->simulated < s->workers;
    RETURN_IF_FAILED(compile_workers(s));
    RETURN_IF_FAILED(session_find_exclusive(s));
    /* folding is exact only while what crosses nodes is worth a formula */
    if (!s->folded || !s->network_flow)
        return RH_OK;
    const struct plan *plan = s->plan;
    session_forget(s);
    s->plan = plan;
    s->workers = s->simulated = mesh_workers(&plan->mesh);
    RETURN_IF_FAILED(compile_workers(s));
    return session_find_exclusive(s);
}

void session_forget(struct session *s)
{
    int lists = s->plan ? s->plan->roles[0].list_count : 0;
    for (int i = 0; i < s->compiled_count; i++) {
        struct compiled *c = &s->compiled[i];
        queues_free(&c->queues, &s->plan->roles[c->role]);
        free(c->models);
        free(c->seconds);
        free(c->issue);
        free(c->exec);
        if (c->owns_order && c->order)
            order_free(c->order);
    }
    for (int i = 0; s->exclusive && i < s->simulated * lists; i++)
        free(s->exclusive[i]);
    for (int i = 0; i < s->place_count; i++) {
        free(s->places[i].workers);
        communicator_free(s->places[i].communicator);
    }
    free(s->exclusive);
    free(s->places);
    free(s->compiled);
    free(s->of);
    struct backend_options options = s->options;
    *s = (struct session){.options = options, .numbers = s->numbers};
}
