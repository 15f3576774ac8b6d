#include "comm/run.h"

#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "base/memory.h"
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
    bool from_host = source == call->run->gpus;
    int stream = stream_of(call, from_host ? target : source);
    int other = stream_of(call, from_host ? source : target);
    if (other != stream)
        write_join(&call->writer, other, stream, "copy");
    write_copy(&call->writer, stream, "copy", from, to);
    if (other != stream)
        write_join(&call->writer, stream, other, "copy");
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
        write_collect(&call.writer, "broadcast", COLLECTIVE_BROADCAST, REDUCE_SUM, call.group, 0, 0,
                      parts, count + 1);
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

enum rh_status comm_run_reduce_add(const struct comm_run *run, const struct comm_tensor *inputs,
                                   int count, const struct comm_tensor *out, double *seconds)
{
    struct call call;
    call_begin(&call, run, "reduce_add");
    struct view sum = add_operand(&call, out, false, true);
    struct view *views = memory_new_array((size_t)count, sizeof *views);
    for (int i = 0; i < count; i++)
        views[i] = add_operand(&call, &inputs[i], true, false);
    if (nccl_serves(run, inputs + 1, count - 1, inputs[0].device)) {
        struct collect_part *parts = memory_new_array((size_t)count, sizeof *parts);
        for (int i = 0; i < count; i++)
            parts[i] = (struct collect_part){stream_of(&call, inputs[i].device), &views[i],
                                             i ? NULL : &sum};
        write_collect(&call.writer, "reduce_add", COLLECTIVE_REDUCE, REDUCE_SUM, call.group, 0, 0,
                      parts, count);
        free(parts);
    } else {
        int stream = stream_of(&call, out->device);
        write_sum(&call, stream, views[0], sum, 0);
        for (int i = 1; i < count; i++) {
            struct view here = views[i];
            if (inputs[i].device != out->device) {
                struct buffer buffer = {.name = "piece",
                                        .device = out->device,
                                        .type = out->type,
                                        .purpose = PURPOSE_COMMUNICATION,
                                        .lifetime = LIFETIME_TRANSIENT,
                                        .list = 0,
                                        .index = -1};
                here = view_of(&call.plan->roles[0], role_add_buffer(call.plan, 0, buffer));
                write_move(&call, views[i], inputs[i].device, here, out->device);
            }
            write_sum(&call, stream, here, sum, 1);
        }
    }
    free(views);
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
    write_collect(&call.writer, "all_reduce", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, call.group, 0, 0,
                  parts, count);
    free(views);
    free(parts);
    return call_end(&call, seconds);
}
