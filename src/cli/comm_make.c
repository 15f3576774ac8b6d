#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "cli/comm.h"

/* "2x3", "3", or "scalar". */
static enum rh_status read_shape(const char *text, int *rank, int64_t dims[RH_MAX_DIMS])
{
    *rank = 0;
    if (strcmp(text, "scalar") == 0)
        return RH_OK;
    for (const char *at = text;; at++) {
        char *end = NULL;
        if (*rank == RH_MAX_DIMS)
            return fail(RH_INVALID, "comm: --shape: '%s' has more than %d dimensions", text,
                        RH_MAX_DIMS);
        errno = 0;
        dims[*rank] = strtoll(at, &end, 10);
        if (end == at || errno || dims[*rank] < 0 || (*end && *end != 'x'))
            return fail(RH_INVALID, "comm: --shape: '%s' is no shape such as 2x3, 3 or scalar",
                        text);
        ++*rank;
        at = end;
        if (!*at)
            return RH_OK;
    }
}

/* The tensors that a call starts from: where each lies and its shape. */
static enum rh_status make_inputs(struct rh_cluster *cluster, const struct comm_arguments *a,
                                  const struct call_kind *kind, struct comm_call *call,
                                  enum rh_dtype dtype)
{
    bool many = kind->kind == KIND_REDUCE || kind->kind == KIND_GATHER;
    int shapes = a->shapes.count;
    int places = many ? call->device_count : 1;
    if (!kind->coalesced && shapes != 1 && shapes != places)
        return fail(RH_INVALID, "comm: %d shapes are given for %d tensors", shapes, places);
    call->tensors_per_device = kind->coalesced ? shapes : 1;
    call->input_count = places * call->tensors_per_device;
    call->inputs = memory_new_array((size_t)call->input_count, sizeof(struct rh_tensor *));
    for (int i = 0; i < call->input_count; i++) {
        int64_t dims[RH_MAX_DIMS];
        int rank = 0;
        int place = i / call->tensors_per_device;
        int which = kind->coalesced ? i % shapes : shapes == 1 ? 0 : place;
        int device = many ? call->devices[place] : call->source;
        RETURN_IF_FAILED(read_shape(a->shapes.items[which], &rank, dims));
        RETURN_IF_FAILED(rh_tensor_new(cluster, device, dtype, rank, dims, &call->inputs[i]));
    }
    return RH_OK;
}

static enum rh_status make_outs(struct rh_cluster *cluster, const struct comm_arguments *a,
                                const struct call_kind *kind, struct comm_call *call,
                                enum rh_dtype dtype)
{
    int places = kind->kind == KIND_GATHER ? 1 : call->device_count;
    if (a->outs.count == 0)
        return RH_OK;
    if (a->outs.count != places)
        return fail(RH_INVALID, "comm: %d --out are given for %d devices", a->outs.count, places);
    call->outs = memory_new_array((size_t)places, sizeof(struct rh_tensor *));
    for (; call->out_count < places; call->out_count++) {
        int64_t dims[RH_MAX_DIMS];
        int rank = 0;
        int device = kind->kind == KIND_GATHER ? call->destination : call->devices[call->out_count];
        RETURN_IF_FAILED(read_shape(a->outs.items[call->out_count], &rank, dims));
        RETURN_IF_FAILED(
            rh_tensor_new(cluster, device, dtype, rank, dims, &call->outs[call->out_count]));
    }
    return RH_OK;
}

/* Values in turn, over and over: the numbers given, or 1, 2, 3 … anew on each device of a sum. */
static enum rh_status fill_inputs(const struct comm_arguments *a, const struct call_kind *kind,
                                  struct comm_call *call)
{
    struct string_list words = {0};
    int64_t elements = 0;
    int64_t mine = 0;
    size_t size = a->dtype && strcmp(a->dtype, "int64") == 0 ? 8 : 4;
    for (int i = 0; i < call->input_count; i++) {
        elements += (int64_t)(rh_tensor_bytes(call->inputs[i]) / size);
        mine +=
            i < call->tensors_per_device ? (int64_t)(rh_tensor_bytes(call->inputs[i]) / size) : 0;
    }
    if (a->values)
        list_split(&words, a->values);
    int64_t period = a->values ? words.count : kind->kind == KIND_REDUCE ? mine : elements;
    enum rh_status status = RH_OK;
    if (a->values && elements % period != 0)
        status = fail(RH_INVALID, "comm: --values has %lld numbers, the tensors have %lld elements",
                      (long long)period, (long long)elements);
    int64_t at = 0;
    for (int i = 0; i < call->input_count && status == RH_OK; i++) {
        size_t bytes = rh_tensor_bytes(call->inputs[i]);
        char *values = memory_new(bytes + 8);
        for (size_t k = 0; k < bytes / size && status == RH_OK; k++, at++) {
            const char *word = a->values ? words.items[at % period] : NULL;
            char *end = NULL;
            double value = word ? strtod(word, &end) : (double)(at % period + 1);
            if (word && (end == word || *end))
                status = fail(RH_INVALID, "comm: --values: '%s' is no number", word);
            if (size == 8)
                ((int64_t *)(void *)values)[k] = (int64_t)value;
            else
                ((float *)(void *)values)[k] = (float)value;
        }
        if (status == RH_OK)
            status = rh_tensor_write(call->inputs[i], values, bytes);
        free(values);
    }
    list_free(&words, true);
    return status;
}

enum rh_status comm_make(struct rh_cluster *cluster, const struct comm_arguments *a,
                         const struct call_kind *kind, struct comm_call *call)
{
    static const char *const names[] = {"fp32", "int64"};
    int index = 0;
    if (a->dtype)
        RETURN_IF_FAILED(json_choice("type", a->dtype, names, 2, &index));
    enum rh_dtype dtype = index ? RH_INT64 : RH_FLOAT32;
    RETURN_IF_FAILED(make_inputs(cluster, a, kind, call, dtype));
    RETURN_IF_FAILED(make_outs(cluster, a, kind, call, dtype));
    return fill_inputs(a, kind, call);
}

static void free_tensors(struct rh_tensor **tensors, int count)
{
    for (int i = 0; i < count; i++)
        rh_tensor_free(tensors[i]);
    free(tensors);
}

void comm_free(struct comm_call *call)
{
    free_tensors(call->inputs, call->inputs ? call->input_count : 0);
    free_tensors(call->results, call->results ? call->result_count : 0);
    free_tensors(call->outs, call->out_count);
    free(call->devices);
    free(call->sizes);
}

static enum rh_status run_reduce_coalesced(struct comm_call *c)
{
    int n = c->tensors_per_device;
    struct rh_tensor *const **lists = memory_new_array((size_t)c->device_count, sizeof *lists);
    int *counts = memory_new_array((size_t)c->device_count, sizeof *counts);
    for (int d = 0; d < c->device_count; d++) {
        lists[d] = c->inputs + (ptrdiff_t)d * n;
        counts[d] = n;
    }
    c->result_count = n;
    enum rh_status status =
        rh_reduce_add_coalesced(lists, counts, c->device_count, c->destination,
                                (size_t)c->buffer_bytes, c->results, &c->seconds);
    free(lists);
    free(counts);
    return status;
}

/* Results that go into given tensors: the call has none of its own. */
static enum rh_status run_into(const struct call_kind *kind, struct comm_call *c)
{
    if (kind->kind == KIND_BROADCAST)
        return rh_broadcast_into(c->inputs[0], c->outs, c->out_count, &c->seconds);
    if (kind->kind == KIND_SCATTER)
        return rh_scatter_into(c->inputs[0], c->outs, c->out_count, c->dim, &c->seconds);
    return rh_gather_into(c->inputs, c->input_count, c->dim, c->outs[0], &c->seconds);
}

enum rh_status comm_run_kind(const struct call_kind *kind, struct comm_call *c)
{
    int n = c->device_count;
    size_t most = (size_t)(n + 1) * (size_t)c->tensors_per_device;
    c->results = memory_new_array(most, sizeof(struct rh_tensor *));
    if (c->outs)
        return run_into(kind, c);
    c->result_count = n;
    if (kind->kind == KIND_BROADCAST && !kind->coalesced)
        return rh_broadcast(c->inputs[0], c->devices, n, c->results, &c->seconds);
    if (kind->kind == KIND_SCATTER)
        return rh_scatter(c->inputs[0], c->devices, n, c->sizes, c->dim, c->results,
                          &c->result_count, &c->seconds);
    if (kind->kind == KIND_BROADCAST) {
        c->result_count = n * c->tensors_per_device;
        return rh_broadcast_coalesced(c->inputs, c->input_count, c->devices, n,
                                      (size_t)c->buffer_bytes, c->results, &c->seconds);
    }
    if (kind->kind == KIND_REDUCE && kind->coalesced)
        return run_reduce_coalesced(c);
    c->result_count = 1;
    if (kind->kind == KIND_REDUCE)
        return rh_reduce_add(c->inputs, c->input_count, c->destination, c->results, &c->seconds);
    if (kind->kind == KIND_GATHER)
        return rh_gather(c->inputs, c->input_count, c->dim, c->destination, c->results,
                         &c->seconds);
    return rh_to(c->inputs[0], c->destination, c->results, &c->seconds);
}
