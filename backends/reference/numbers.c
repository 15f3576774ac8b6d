#include "backends/reference/numbers.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reference/collect.h"
#include "backends/reference/memory.h"
#include "base/memory.h"
#include "kernels/cpu/cpu.h"
#include "plan/untimed.h"

struct numbers {
    const struct plan *plan;
    struct board *board;
    struct areas areas;
    struct cpu_tensor *tensors; /* operands of the op that runs */
    int tensor_capacity;
};

enum rh_status numbers_new(const struct backend_options *options, const struct plan *plan,
                           struct numbers **out)
{
    struct numbers *n = memory_new(sizeof *n);
    n->plan = plan;
    n->board = options->board;
    enum rh_status status = areas_new(plan, &n->areas);
    if (status != RH_OK) {
        free(n);
        n = NULL;
    }
    *out = n;
    return status;
}

void numbers_free(struct numbers *n)
{
    areas_free(&n->areas);
    free(n->tensors);
    free(n);
}

/* Kernels know rows alone, but pack and unpack go through bytes in the order of memory. */
static bool used_where_it_lies(const struct instruction *in, const struct view *view)
{
    enum op_kind kind = in->compute.op.kind;
    return kind == OP_pack || kind == OP_unpack ? view_is_dense(view) : view_is_row_major(view);
}

/* Any other view is used through a row-major copy. */
static enum rh_status open_operand(struct numbers *n, int worker, const struct instruction *in,
                                   const struct view *view, struct cpu_tensor *tensor)
{
    tensor->type = view->type;
    tensor->data = areas_view(&n->areas, worker, view);
    if (used_where_it_lies(in, view))
        return RH_OK;
    char *dense = malloc(type_bytes(&view->type));
    if (!dense)
        return fail(RH_OUT_OF_MEMORY, "'%s': no memory for a dense copy of %zu bytes", in->name,
                    type_bytes(&view->type));
    view_gather(view, tensor->data, dense);
    tensor->data = dense;
    return RH_OK;
}

static enum rh_status compute(void *context, int worker, const struct instruction *in)
{
    struct numbers *n = context;
    const struct role *role = &n->plan->roles[plan_role_of(n->plan, worker)];
    const struct view *views = &role->views[in->compute.view_first];
    int reads = in->compute.read_count;
    int count = reads + in->compute.write_count;
    if (count > n->tensor_capacity) {
        n->tensor_capacity = 2 * count;
        n->tensors = memory_resize(n->tensors, (size_t)n->tensor_capacity, sizeof *n->tensors);
    }
    enum rh_status status = RH_OK;
    int opened = 0;
    board_beat(n->board);
    while (opened < count && status == RH_OK) {
        status = open_operand(n, worker, in, &views[opened], &n->tensors[opened]);
        opened += status == RH_OK;
    }
    if (status == RH_OK)
        status = cpu_run(&in->compute.op, n->tensors, reads, n->tensors + reads, count - reads);
    if (status != RH_OK && role->gpus > 1)
        fail_within(status, "worker %d, device %d: '%s'", worker, role->streams[in->stream].device,
                    in->name);
    else if (status != RH_OK)
        fail_within(status, "worker %d: '%s'", worker, in->name);
    for (int i = 0; i < opened; i++) {
        if (used_where_it_lies(in, &views[i]))
            continue;
        if (i >= reads && status == RH_OK)
            view_scatter(&views[i], areas_view(&n->areas, worker, &views[i]), n->tensors[i].data);
        free(n->tensors[i].data);
    }
    return status;
}

static enum rh_status move(struct numbers *n, int from_worker, const struct view *from,
                           int to_worker, const struct view *to)
{
    const char *source = areas_view(&n->areas, from_worker, from);
    char *target = areas_view(&n->areas, to_worker, to);
    if (view_is_row_major(from)) {
        view_scatter(to, target, source);
        return RH_OK;
    }
    char *dense = malloc(type_bytes(&from->type) + 1);
    if (!dense)
        return fail(RH_OUT_OF_MEMORY, "no memory to copy %zu bytes", type_bytes(&from->type));
    view_gather(from, source, dense);
    view_scatter(to, target, dense);
    free(dense);
    return RH_OK;
}

static enum rh_status copy(void *context, int worker, const struct instruction *in)
{
    struct numbers *n = context;
    const struct role *role = &n->plan->roles[plan_role_of(n->plan, worker)];
    return move(n, worker, &role->views[in->copy.from], worker, &role->views[in->copy.to]);
}

static enum rh_status transfer(void *context, const struct untimed_end *from,
                               const struct untimed_end *to)
{
    struct numbers *n = context;
    const struct role *source = &n->plan->roles[plan_role_of(n->plan, from->worker)];
    const struct role *target = &n->plan->roles[plan_role_of(n->plan, to->worker)];
    return move(n, from->worker, &source->views[from->view], to->worker, &target->views[to->view]);
}

static enum rh_status collect(void *context, const struct untimed_member *members, int count,
                              int root)
{
    struct numbers *n = context;
    return collect_values(&n->areas, members, count, root);
}

static enum rh_status feed_all(struct numbers *n, const struct backend_feed *feed, int step,
                               int pass)
{
    for (int w = 0; feed && w < n->areas.workers; w++) {
        const struct role *role = &n->plan->roles[plan_role_of(n->plan, w)];
        int coordinate[MESH_MAX_AXES] = {0};
        mesh_coordinate(&n->plan->mesh, w, coordinate);
        for (int b = 0; b < role->buffer_count; b++) {
            const struct buffer *buffer = &role->buffers[b];
            bool fed =
                buffer->use == USE_INPUT || buffer->use == USE_TARGET || buffer->use == USE_CONTROL;
            if (fed)
                RETURN_IF_FAILED(feed->fill(feed->context, w, step, pass, buffer, coordinate,
                                            areas_buffer(&n->areas, w, b)));
        }
    }
    return RH_OK;
}

/* Every step has its slot: a buffer that is too short would be read beyond its end. */
static enum rh_status check_losses(const struct numbers *n, int steps)
{
    for (int r = 0; r < n->plan->role_count; r++) {
        const struct role *role = &n->plan->roles[r];
        for (int b = 0; b < role->buffer_count; b++) {
            const struct buffer *buffer = &role->buffers[b];
            int64_t slots = shape_elements(&buffer->type.shape);
            if (buffer->use == USE_LOSSES && slots < steps)
                return fail(RH_INVALID, "buffer '%s' of role '%s' holds %lld losses; %d steps run",
                            buffer->name, role->name, (long long)slots, steps);
        }
    }
    return RH_OK;
}

static void read_losses(const struct numbers *n, int steps, double *losses)
{
    for (int step = 0; step < steps; step++) {
        double sum = 0;
        int count = 0;
        for (int w = 0; w < n->areas.workers; w++) {
            const struct role *role = &n->plan->roles[plan_role_of(n->plan, w)];
            for (int b = 0; b < role->buffer_count; b++)
                if (role->buffers[b].use == USE_LOSSES) {
                    sum += ((const float *)areas_buffer(&n->areas, w, b))[step];
                    count++;
                }
        }
        losses[step] = count ? sum / count : NAN;
    }
}

enum rh_status numbers_run(struct numbers *n, const struct run_order *order,
                           const struct backend_feed *feed, double *losses)
{
    struct untimed_hooks hooks = {
        .context = n, .compute = compute, .copy = copy, .collect = collect, .transfer = transfer};
    int step = 0;
    int pass = 0;
    int at = 0;
    assert(order->loop_first < order->count && order->entries[order->count - 1].ends_step);
    RETURN_IF_FAILED(check_losses(n, order->steps));
    while (step < order->steps) {
        const struct run_entry *entry = &order->entries[at];
        for (int k = 0; k < entry->repeat && step < order->steps; k++) {
            areas_poison(&n->areas);
            RETURN_IF_FAILED(feed_all(n, feed, step, pass++));
            board_tell_list(n->board, n->plan->roles[0].lists[entry->list].name);
            RETURN_IF_FAILED(untimed_run(n->plan, &n->plan->mesh, entry->list, &hooks));
            if (entry->ends_step) {
                step++;
                pass = 0;
            }
        }
        if (++at == order->count)
            at = order->loop_first;
    }
    read_losses(n, order->steps, losses);
    return RH_OK;
}

static enum rh_status check_buffer(const struct numbers *n, int worker, int buffer, size_t bytes)
{
    if (!n)
        return fail(RH_INVALID, "the session was opened without numbers: there are no values");
    if (worker < 0 || worker >= n->areas.workers)
        return fail(RH_INVALID, "worker %d; the plan has %d", worker, n->areas.workers);
    const struct role *role = &n->plan->roles[plan_role_of(n->plan, worker)];
    if (buffer < 0 || buffer >= role->buffer_count)
        return fail(RH_INVALID, "buffer %d; role '%s' has %d", buffer, role->name,
                    role->buffer_count);
    const struct buffer *b = &role->buffers[buffer];
    if (b->lifetime != LIFETIME_PERSISTENT)
        return fail(RH_INVALID, "buffer '%s' is transient: it has no values between runs", b->name);
    if (b->bytes != bytes)
        return fail(RH_INVALID, "buffer '%s' has %zu bytes; %zu are given", b->name, b->bytes,
                    bytes);
    return RH_OK;
}

enum rh_status numbers_write(struct numbers *n, int worker, int buffer, const void *data,
                             size_t bytes)
{
    RETURN_IF_FAILED(check_buffer(n, worker, buffer, bytes));
    memcpy(areas_buffer(&n->areas, worker, buffer), data, bytes);
    return RH_OK;
}

enum rh_status numbers_read(struct numbers *n, int worker, int buffer, void *data, size_t bytes)
{
    RETURN_IF_FAILED(check_buffer(n, worker, buffer, bytes));
    memcpy(data, areas_buffer(&n->areas, worker, buffer), bytes);
    return RH_OK;
}
