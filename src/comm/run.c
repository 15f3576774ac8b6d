#include "comm/run.h"

#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "plan/check.h"

struct operand {
    int buffer;
    const struct comm_tensor *tensor;
    bool in, out; /* written before the run, read after it */
};

struct call {
    const struct comm_run *run;
    struct plan *plan;
    struct writer writer;
    int group;
    int *streams; /* per local device; -1 */
    struct operand *operands;
    int operand_count, operand_capacity;
};

static void call_begin(struct call *call, const struct comm_run *run, const char *name)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {1}};
    memset(call, 0, sizeof *call);
    call->run = run;
    call->plan = plan_new(name, &mesh, -1);
    role_init(call->plan, 0, "worker", run->gpus);
    call->group = plan_add_group(call->plan, "local", 0, 0, NULL);
    call->streams = memory_new_array((size_t)run->gpus + 1, sizeof *call->streams);
    for (int i = 0; i <= run->gpus; i++)
        call->streams[i] = -1;
    int list = role_add_list(call->plan, 0, name);
    call->writer = (struct writer){call->plan, 0, list, WORK_COMMUNICATION, -1};
}

static int stream_of(struct call *call, int device)
{
    if (call->streams[device] < 0)
        call->streams[device] =
            role_add_stream(call->plan, 0, plan_text(call->plan, "stream %d", device), device);
    return call->streams[device];
}

static struct view add_operand(struct call *call, const struct comm_tensor *tensor, bool in,
                               bool out)
{
    int number = call->operand_count;
    int buffer = role_add_buffer(call->plan, 0,
                                 (struct buffer){.name = plan_text(call->plan, "tensor %d", number),
                                                 .device = tensor->device,
                                                 .type = tensor->type,
                                                 .purpose = PURPOSE_COMMUNICATION,
                                                 .lifetime = LIFETIME_PERSISTENT,
                                                 .list = -1,
                                                 .use = USE_TENSOR,
                                                 .index = number});
    *ARRAY_ADD(call->operands, call->operand_count, call->operand_capacity) =
        (struct operand){buffer, tensor, in, out};
    return view_of(&call->plan->roles[0], buffer);
}

static enum rh_status execute(struct call *call, double *seconds)
{
    const struct comm_run *run = call->run;
    struct run_entry entry = {0, 1, true};
    struct run_order order = {&entry, 1, 0, 1};
    struct result result = {0};
    for (int i = 0; i < call->operand_count; i++)
        if (call->operands[i].in)
            RETURN_IF_FAILED(run->backend->write(run->session, 0, call->operands[i].buffer,
                                                 call->operands[i].tensor->data,
                                                 type_bytes(&call->operands[i].tensor->type)));
    RETURN_IF_FAILED(run->backend->run(run->session, &order, NULL, &result));
    if (seconds)
        *seconds = result.step_count > 0 ? result.step_seconds[0] : 0;
    result_free(&result);
    for (int i = 0; i < call->operand_count; i++)
        if (call->operands[i].out)
            RETURN_IF_FAILED(run->backend->read(run->session, 0, call->operands[i].buffer,
                                                call->operands[i].tensor->data,
                                                type_bytes(&call->operands[i].tensor->type)));
    return RH_OK;
}

static enum rh_status call_end(struct call *call, double *seconds)
{
    enum rh_status status = plan_check(call->plan);
    if (status == RH_OK)
        status = call->run->backend->load(call->run->session, call->plan);
    if (status == RH_OK) {
        status = execute(call, seconds);
        call->run->backend->unload(call->run->session);
    }
    plan_free(call->plan);
    free(call->streams);
    free(call->operands);
    return status;
}

/* The stream of a copy: the source's, except from the host (torch-semantics.md 2.2); both ends
 * wait. */
static void write_move(struct call *call, struct view from, int source, struct view to, int target)
{
    struct rh_traffic *traffic = call->run->traffic;
    bool from_host = source == call->run->gpus;
    int stream = stream_of(call, from_host ? target : source);
    int other = stream_of(call, from_host ? source : target);
    if (other != stream)
        write_join(&call->writer, other, stream, "copy");
    write_copy(&call->writer, stream, "copy", from, to);
    if (other != stream)
        write_join(&call->writer, stream, other, "copy");
    traffic->copies += source != target;
    traffic->copy_bytes += source != target ? (double)type_bytes(&from.type) : 0;
}

static void write_collective(struct call *call, const char *name, enum collective_kind kind,
                             const struct collect_part *parts, int count)
{
    const struct view *part = parts[0].send;
    write_collect(&call->writer, name, kind, REDUCE_SUM, call->group, 0, 0, parts, count);
    call->run->traffic->collectives++;
    call->run->traffic->collective_bytes += (double)type_bytes(&part->type);
}

enum rh_status comm_run_copy(const struct comm_run *run, const struct comm_tensor *from,
                             const struct comm_tensor *to, int count, double *seconds)
{
    struct call call;
    call_begin(&call, run, "copy");
    for (int i = 0; i < count; i++) {
        struct view source = add_operand(&call, &from[i], true, false);
        struct view target = add_operand(&call, &to[i], false, true);
        write_move(&call, source, from[i].device, target, to[i].device);
    }
    return call_end(&call, seconds);
}

/* NCCL wants GPUs, all different. */
static bool nccl_serves(const struct comm_run *run, const struct comm_tensor *tensors, int count,
                        int also)
{
    for (int i = 0; i < count; i++) {
        if (tensors[i].device == run->gpus || tensors[i].device == also)
            return false;
        for (int k = 0; k < i; k++)
            if (tensors[k].device == tensors[i].device)
                return false;
    }
    return also != run->gpus;
}

enum rh_status comm_run_broadcast(const struct comm_run *run, const struct comm_tensor *from,
                                  const struct comm_tensor *to, int count, double *seconds)
{
    struct call call;
    call_begin(&call, run, "broadcast");
    struct view source = add_operand(&call, from, true, false);
    struct view *views = memory_new_array((size_t)count, sizeof *views);
    for (int i = 0; i < count; i++)
        views[i] = add_operand(&call, &to[i], false, true);
    if (nccl_serves(run, to, count, from->device)) {
        struct collect_part *parts = memory_new_array((size_t)count + 1, sizeof *parts);
        parts[0] = (struct collect_part){stream_of(&call, from->device), &source, NULL};
        for (int i = 0; i < count; i++)
            parts[i + 1] = (struct collect_part){stream_of(&call, to[i].device), NULL, &views[i]};
        write_collective(&call, "broadcast", COLLECTIVE_BROADCAST, parts, count + 1);
        free(parts);
    } else {
        for (int i = 0; i < count; i++)
            write_move(&call, source, from->device, views[i], to[i].device);
    }
    free(views);
    return call_end(&call, seconds);
}

static void write_sum(struct call *call, int stream, struct view x, struct view y, double beta)
{
    struct op op = {.kind = OP_scale_add, .compute = DTYPE_F32};
    struct view reads[2] = {x, y};
    op.scale_add.alpha = 1;
    op.scale_add.beta = beta;
    write_compute(&call->writer, stream, "add", &op, reads, beta != 0 ? 2 : 1, &y, 1);
}

static struct view transient(struct call *call, const char *name, int device,
                             const struct tensor_type *type)
{
    struct buffer buffer = {.name = name,
                            .device = device,
                            .type = *type,
                            .purpose = PURPOSE_COMMUNICATION,
                            .lifetime = LIFETIME_TRANSIENT,
                            .list = 0,
                            .index = -1};
    return view_of(&call->plan->roles[0], role_add_buffer(call->plan, 0, buffer));
}

/* views[0] lies where `sum` does; the others are added in order. */
static void write_reduce(struct call *call, const struct view *views, const int *devices, int count,
                         struct view sum, bool by_nccl)
{
    int target = devices[0];
    if (by_nccl) {
        struct collect_part *parts = memory_new_array((size_t)count, sizeof *parts);
        for (int i = 0; i < count; i++)
            parts[i] =
                (struct collect_part){stream_of(call, devices[i]), &views[i], i ? NULL : &sum};
        write_collective(call, "reduce_add", COLLECTIVE_REDUCE, parts, count);
        free(parts);
        return;
    }
    int stream = stream_of(call, target);
    write_sum(call, stream, views[0], sum, 0);
    for (int i = 1; i < count; i++) {
        struct view here = views[i];
        if (devices[i] != target) {
            here = transient(call, "piece", target, &sum.type);
            write_move(call, views[i], devices[i], here, target);
        }
        write_sum(call, stream, here, sum, 1);
    }
}

enum rh_status comm_run_reduce_add(const struct comm_run *run, const struct comm_tensor *inputs,
                                   int count, const struct comm_tensor *out, double *seconds)
{
    struct call call;
    call_begin(&call, run, "reduce_add");
    struct view sum = add_operand(&call, out, false, true);
    struct view *views = memory_new_array((size_t)count, sizeof *views);
    int *devices = memory_new_array((size_t)count, sizeof *devices);
    for (int i = 0; i < count; i++) {
        views[i] = add_operand(&call, &inputs[i], true, false);
        devices[i] = inputs[i].device;
    }
    write_reduce(&call, views, devices, count, sum,
                 nccl_serves(run, inputs + 1, count - 1, inputs[0].device));
    free(views);
    free(devices);
    return call_end(&call, seconds);
}

enum rh_status comm_run_all_reduce(const struct comm_run *run, const struct comm_tensor *tensors,
                                   int count, double *seconds)
{
    struct call call;
    call_begin(&call, run, "all_reduce");
    struct view *views = memory_new_array((size_t)count, sizeof *views);
    struct collect_part *parts = memory_new_array((size_t)count, sizeof *parts);
    for (int i = 0; i < count; i++) {
        views[i] = add_operand(&call, &tensors[i], true, true);
        parts[i] = (struct collect_part){stream_of(&call, tensors[i].device), &views[i], &views[i]};
    }
    write_collective(&call, "all_reduce", COLLECTIVE_ALL_REDUCE, parts, count);
    free(views);
    free(parts);
    return call_end(&call, seconds);
}

/* One flat view of a parcel's part on a device; a part of one tensor is taken as it lies. */
static struct view flatten(struct call *call, const struct comm_tensor *tensors, int count,
                           const struct tensor_type *flat)
{
    struct view *views = memory_new_array((size_t)count, sizeof *views);
    for (int i = 0; i < count; i++)
        views[i] = add_operand(call, &tensors[i], true, false);
    struct view result;
    if (count == 1) {
        result = view_as(views[0], flat);
    } else {
        result = transient(call, "flat", tensors[0].device, flat);
        comm_pack(&call->writer, stream_of(call, tensors[0].device), "flatten", views, count,
                  result);
    }
    free(views);
    return result;
}

enum rh_status comm_run_broadcast_parcels(const struct comm_run *run, int source,
                                          const struct comm_parcel *parcels, int count, int targets,
                                          double *seconds)
{
    struct call call;
    call_begin(&call, run, "broadcast_coalesced");
    struct view *views = memory_new_array((size_t)targets, sizeof *views);
    struct collect_part *parts = memory_new_array((size_t)targets + 1, sizeof *parts);
    for (int p = 0; p < count; p++) {
        const struct comm_tensor *flats = parcels[p].flats;
        struct view flat =
            flatten(&call, parcels[p].tensors, parcels[p].count, &parcels[p].flats[0].type);
        parts[0] = (struct collect_part){stream_of(&call, source), &flat, NULL};
        for (int i = 0; i < targets; i++) {
            views[i] = add_operand(&call, &flats[i], false, true);
            parts[i + 1] =
                (struct collect_part){stream_of(&call, flats[i].device), NULL, &views[i]};
        }
        if (nccl_serves(run, flats, targets, source))
            write_collective(&call, "broadcast", COLLECTIVE_BROADCAST, parts, targets + 1);
        else
            for (int i = 0; i < targets; i++)
                write_move(&call, flat, source, views[i], flats[i].device);
    }
    free(views);
    free(parts);
    return call_end(&call, seconds);
}

enum rh_status comm_run_reduce_parcels(const struct comm_run *run, const int *devices,
                                       int device_count, int root,
                                       const struct comm_parcel *parcels, int count,
                                       double *seconds)
{
    struct call call;
    call_begin(&call, run, "reduce_add_coalesced");
    struct view *views = memory_new_array((size_t)device_count, sizeof *views);
    struct comm_tensor *places = memory_new_array((size_t)device_count, sizeof *places);
    int *order = memory_new_array((size_t)device_count, sizeof *order);
    order[0] = devices[root];
    for (int i = 0, at = 1; i < device_count; i++)
        if (i != root) {
            order[at] = devices[i];
            places[at++].device = devices[i];
        }
    for (int p = 0; p < count; p++) {
        struct view sum = add_operand(&call, &parcels[p].flats[0], false, true);
        for (int i = 0, at = 1; i < device_count; i++)
            views[i == root ? 0 : at++] =
                flatten(&call, parcels[p].tensors + (ptrdiff_t)i * parcels[p].count,
                        parcels[p].count, &sum.type);
        write_reduce(&call, views, order, device_count, sum,
                     nccl_serves(run, places + 1, device_count - 1, order[0]));
    }
    free(views);
    free(places);
    free(order);
    return call_end(&call, seconds);
}
