#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "strategy/bucket_assign.h"
#include "strategy/stage.h"

static const double MIB = 1048576;

struct bucket {
    struct view flat;
    int device;
    int64_t elements;
    int first;            /* parameter: where a bucket of views begins */
    int tensors, missing; /* gradients in all, and not yet here */
    int reduced;          /* event: recorded after the all-reduce */
};

struct buckets {
    struct stage *stage;
    struct writer *writer;
    const struct ddp_options *options;
    int group, ranks;
    int *bucket_of_parameter;   /* NOT_HERE: no gradient here */
    int64_t *slot_of_parameter; /* in elements */
    struct bucket *buckets;
    int count;
    int launched; /* buckets are reduced strictly in order */
};

enum rh_status ddp_options_read(const cJSON *keys, const char *where, struct ddp_options *options)
{
    double cap = -1;
    double first = -1;
    static const char *const hooks[] = {"allreduce", "fp16_compress", "bf16_compress"};
    const char *hook = hooks[0];
    int index = 0;
    options->broadcast_buffers = true;
    if (keys) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(keys, where, "bucket_cap_mb", "first_bucket_mb",
                                         "broadcast_buffers", "gradient_as_bucket_view",
                                         "comm_hook"));
        RETURN_IF_FAILED(json_bool(keys, where, "gradient_as_bucket_view", &options->bucket_views));
        RETURN_IF_FAILED(json_string(keys, where, "comm_hook", &hook));
        RETURN_IF_FAILED(json_choice("comm_hook", hook, hooks, 3, &index));
        options->hook = (enum comm_hook)index;
        RETURN_IF_FAILED(json_number(keys, where, "bucket_cap_mb", 1e-6, 1e6, &cap));
        RETURN_IF_FAILED(json_number(keys, where, "first_bucket_mb", 1e-6, 1e6, &first));
        RETURN_IF_FAILED(json_bool(keys, where, "broadcast_buffers", &options->broadcast_buffers));
    }
    /* the 1 MiB first bucket exists only while the cap is left at its default (section 5.2) */
    options->cap_bytes = (cap < 0 ? 25 : cap) * MIB;
    options->first_cap_bytes = first >= 0 ? first * MIB : cap < 0 ? MIB : options->cap_bytes;
    return RH_OK;
}

int ddp_arrival_order(const struct graph *graph, const int *device_of_layer, int *parameters)
{
    int count = 0;
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->phase != PHASE_BACKWARD_WEIGHT || device_of_layer[node->layer] == NOT_HERE)
            continue;
        for (int k = node->write_count - 1; k >= 0; k--) {
            const struct value *value = &graph->values[graph->operands[node->write_first + k]];
            if (value->kind == VALUE_PARAMETER_GRADIENT)
                parameters[count++] = value->index;
        }
    }
    return count;
}

static void lay_out(struct buckets *b, const int *order, const int *bucket_of_item, int count)
{
    const struct model *model = b->stage->graph->model;
    for (int i = 0; i < count; i++) {
        const struct parameter *parameter = &model->parameters[order[i]];
        struct bucket *bucket = &b->buckets[bucket_of_item[i]];
        b->bucket_of_parameter[order[i]] = bucket_of_item[i];
        b->slot_of_parameter[order[i]] = bucket->elements;
        bucket->elements += shape_elements(&parameter->shape);
        bucket->device = b->stage->device_of_layer[parameter->layer];
        if (bucket->tensors == 0)
            bucket->first = order[i];
        bucket->tensors++;
        bucket->missing++;
    }
    for (int i = 0; i < b->count; i++) {
        struct bucket *bucket = &b->buckets[i];
        struct tensor_type type = {DTYPE_F32, shape_of(1, &bucket->elements)};
        if (!b->options->bucket_views)
            bucket->flat = stage_transient(b->writer, plan_text(b->stage->plan, "bucket %d", i),
                                           bucket->device, &type, PURPOSE_COMMUNICATION);
        bucket->reduced = role_add_event(b->stage->plan, b->stage->role,
                                         plan_text(b->stage->plan, "bucket %d reduced", i));
        if (b->options->bucket_views)
            bucket->flat = view_dense(b->stage->gradient[bucket->first].buffer,
                                      b->stage->gradient[bucket->first].offset, &type);
    }
}

struct buckets *buckets_new(struct stage *stage, struct writer *writer,
                            const struct ddp_options *options, int group, int ranks, bool unlimited)
{
    const struct model *model = stage->graph->model;
    size_t parameters = (size_t)model->parameter_count;
    struct buckets *b = memory_new(sizeof *b);
    *b = (struct buckets){.stage = stage,
                          .writer = writer,
                          .options = options,
                          .group = group,
                          .ranks = ranks,
                          .bucket_of_parameter = memory_new_array(parameters, sizeof(int)),
                          .slot_of_parameter = memory_new_array(parameters, sizeof(int64_t))};
    int *order = memory_new_array(parameters, sizeof *order);
    int *bucket_of_item = memory_new_array(parameters, sizeof *bucket_of_item);
    struct bucket_item *items = memory_new_array(parameters, sizeof *items);
    int count = ddp_arrival_order(stage->graph, stage->device_of_layer, order);
    for (size_t i = 0; i < parameters; i++)
        b->bucket_of_parameter[i] = NOT_HERE;
    for (int i = 0; i < count; i++) {
        const struct parameter *parameter = &model->parameters[order[i]];
        items[i].bytes = shape_elements(&parameter->shape) * (int64_t)dtype_bytes(DTYPE_F32);
        items[i].key = stage->device_of_layer[parameter->layer];
    }
    int64_t limits[2] = {(int64_t)options->first_cap_bytes, (int64_t)options->cap_bytes};
    if (unlimited)
        limits[0] = -1;
    b->count = bucket_assign(items, count, limits, unlimited ? 1 : 2, bucket_of_item);
    b->buckets = memory_new_array((size_t)b->count, sizeof *b->buckets);
    lay_out(b, order, bucket_of_item, count);
    free(order);
    free(bucket_of_item);
    free(items);
    return b;
}

void buckets_free(struct buckets *b)
{
    free(b->bucket_of_parameter);
    free(b->slot_of_parameter);
    free(b->buckets);
    free(b);
}

int buckets_count(const struct buckets *b)
{
    return b->count;
}

static struct view slot_view(const struct buckets *b, int parameter)
{
    const struct bucket *bucket = &b->buckets[b->bucket_of_parameter[parameter]];
    const struct tensor_type *type = &b->stage->gradient[parameter].type;
    int64_t elements = shape_elements(&type->shape);
    return view_as(view_narrow(bucket->flat, 0, b->slot_of_parameter[parameter], elements), type);
}

static enum dtype hook_type(const struct buckets *b)
{
    return b->options->hook == HOOK_FP16 ? DTYPE_F16 : DTYPE_BF16;
}

/* The bucket as halves, divided; fp32 (HOOK_ALL_REDUCE) travels as it is. */
static struct view compress(struct buckets *b, const struct bucket *bucket, const char *name)
{
    struct op cast = {.kind = OP_cast, .compute = DTYPE_F32};
    struct op divide = {.kind = OP_scale_add, .compute = DTYPE_F32};
    int compute = stage_compute(b->stage, bucket->device);
    struct tensor_type type = bucket->flat.type;
    if (b->options->hook == HOOK_ALL_REDUCE)
        return bucket->flat;
    type.dtype = hook_type(b);
    divide.scale_add.alpha = 1.0 / b->ranks;
    struct view low = stage_transient(b->writer, plan_text(b->stage->plan, "%s halves", name),
                                      bucket->device, &type, PURPOSE_COMMUNICATION);
    write_compute(b->writer, compute, name, &cast, &bucket->flat, 1, &low, 1);
    write_compute(b->writer, compute, name, &divide, &low, 1, &low, 1);
    return low;
}

static void launch(struct buckets *b, int index)
{
    struct bucket *bucket = &b->buckets[index];
    struct writer *writer = b->writer;
    int compute = stage_compute(b->stage, bucket->device);
    int stream = stage_communication(b->stage, bucket->device);
    const char *name = plan_text(b->stage->plan, "bucket %d", index);
    enum work work = writer->work;
    int microbatch = writer->microbatch;
    writer->work = WORK_COMMUNICATION;
    writer->microbatch = -1;
    struct view sent = compress(b, bucket, name);
    write_join(writer, compute, stream, name);
    struct collect_part part = {stream, &sent, &sent};
    write_collect(writer, name, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, b->group, 0, 0, &part, 1);
    if (b->options->hook != HOOK_ALL_REDUCE)
        write_compute(writer, stream, name, &(struct op){.kind = OP_cast, .compute = DTYPE_F32},
                      &sent, 1, &bucket->flat, 1);
    write_record(writer, stream, bucket->reduced);
    writer->work = work;
    writer->microbatch = microbatch;
}

/* Divides before it sums (section 5.4): what keeps 2^15 + 2^15 finite in fp16. A hook divides
 * itself, and a gradient that lies in its bucket needs no copy. */
void bucket_gradient_ready(void *context, int parameter)
{
    struct buckets *b = context;
    struct bucket *bucket = &b->buckets[b->bucket_of_parameter[parameter]];
    bool divided = b->options->hook != HOOK_ALL_REDUCE;
    struct op op = {.kind = OP_bucket_copy, .compute = DTYPE_F32};
    op.scale_add.alpha = divided ? 1 : 1.0 / b->ranks;
    struct view slot = slot_view(b, parameter);
    if (!divided || !b->options->bucket_views)
        write_compute(b->writer, stage_compute(b->stage, bucket->device),
                      b->stage->graph->model->parameters[parameter].name, &op,
                      &b->stage->gradient[parameter], 1, &slot, 1);
    assert(bucket->missing > 0 && "a gradient is ready twice in one list");
    bucket->missing--;
    while (b->launched < b->count && b->buckets[b->launched].missing == 0)
        launch(b, b->launched++);
}

void buckets_finish(struct buckets *b)
{
    const struct model *model = b->stage->graph->model;
    struct view *gradients = memory_new_array((size_t)model->parameter_count, sizeof *gradients);
    int *of_bucket = memory_new_array((size_t)model->parameter_count, sizeof *of_bucket);
    assert(b->launched == b->count && "a bucket was never filled");
    b->writer->work = WORK_COMMUNICATION;
    b->writer->microbatch = -1;
    for (int i = 0; i < b->count; i++) {
        struct bucket *bucket = &b->buckets[i];
        int compute = stage_compute(b->stage, bucket->device);
        /* unpack wants its writes in the order of their slots */
        int count = 0;
        for (int p = 0; p < model->parameter_count; p++) {
            if (b->bucket_of_parameter[p] != i)
                continue;
            int at = count++;
            for (; at > 0 && b->slot_of_parameter[of_bucket[at - 1]] > b->slot_of_parameter[p];
                 at--)
                of_bucket[at] = of_bucket[at - 1];
            of_bucket[at] = p;
        }
        for (int k = 0; k < count; k++)
            gradients[k] = b->stage->gradient[of_bucket[k]];
        write_wait(b->writer, compute, bucket->reduced);
        if (b->options->bucket_views)
            continue;
        comm_unpack(b->writer, compute, plan_text(b->stage->plan, "bucket %d", i), bucket->flat,
                    gradients, count, false);
    }
    free(gradients);
    free(of_bucket);
}

/* Coalesced by 250 MiB, appended before the limit is looked at (section 5.1). */
void ddp_broadcast_parameters(struct stage *stage, struct writer *writer, int group)
{
    const struct model *model = stage->graph->model;
    struct view *views = memory_new_array((size_t)model->parameter_count, sizeof *views);
    for (int device = 0; device <= stage->gpus; device++) {
        int count = 0;
        for (int i = 0; i < model->parameter_count; i++)
            if (stage->device_of_layer[model->parameters[i].layer] == device)
                views[count++] = stage->parameter[i];
        if (count == 0)
            continue;
        writer->work = WORK_COMMUNICATION;
        writer->microbatch = -1;
        comm_broadcast_in_place(writer, stage_compute(stage, device),
                                stage_communication(stage, device), device, group, views, count,
                                250 * MIB);
    }
    free(views);
}

void ddp_broadcast_states(struct stage *stage, struct writer *writer, int group)
{
    writer->work = WORK_COMMUNICATION;
    writer->microbatch = -1;
    for (int device = 0; device <= stage->gpus; device++) {
        const int buffers[2] = {stage->state_values[device], stage->state_counts[device]};
        if (buffers[0] < 0)
            continue;
        int compute = stage_compute(stage, device);
        int stream = stage_communication(stage, device);
        write_join(writer, compute, stream, "running statistics");
        for (int i = 0; i < 2; i++) {
            struct view view = view_of(&stage->plan->roles[stage->role], buffers[i]);
            struct collect_part part = {stream, &view, &view};
            write_collect(writer, i ? "running counts" : "running statistics", COLLECTIVE_BROADCAST,
                          REDUCE_SUM, group, 0, 0, &part, 1);
        }
        write_join(writer, stream, compute, "running statistics");
    }
}
