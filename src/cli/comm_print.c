#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "cli/comm.h"

enum { MOST_VALUES = 24 };

static int64_t elements_of(const struct rh_tensor *tensor)
{
    int64_t elements = 1;
    for (int d = 0; d < rh_tensor_rank(tensor); d++)
        elements *= rh_tensor_dim(tensor, d);
    return elements;
}

static double *values_of(const struct rh_tensor *tensor)
{
    int64_t elements = elements_of(tensor);
    size_t bytes = rh_tensor_bytes(tensor);
    void *read = memory_new(bytes + 1);
    double *values = memory_new_array((size_t)elements + 1, sizeof *values);
    if (rh_tensor_read(tensor, read, bytes) != RH_OK)
        elements = 0;
    for (int64_t i = 0; i < elements; i++)
        values[i] =
            rh_tensor_dtype(tensor) == RH_INT64 ? (double)((int64_t *)read)[i] : ((float *)read)[i];
    free(read);
    return values;
}

static void add_shape(struct text *text, const struct rh_tensor *tensor)
{
    int rank = rh_tensor_rank(tensor);
    text_add(text, "(");
    for (int d = 0; d < rank; d++)
        text_add(text, "%s%lld%s", d ? ", " : "", (long long)rh_tensor_dim(tensor, d),
                 rank == 1 ? "," : "");
    text_add(text, ")");
}

static void add_values(struct text *text, const struct rh_tensor *tensor, int dim,
                       const double **values)
{
    if (dim == rh_tensor_rank(tensor)) {
        text_add(text, "%g", *(*values)++);
        return;
    }
    text_add(text, "[");
    for (int64_t i = 0; i < rh_tensor_dim(tensor, dim); i++) {
        text_add(text, i ? ", " : "");
        add_values(text, tensor, dim + 1, values);
    }
    text_add(text, "]");
}

static const char *device_name(int device, char out[24])
{
    snprintf(out, 24, device == RH_HOST ? "host" : "device %d", device);
    return out;
}

/* Which input shares its memory with the result; -1: none, it is new. */
static int alias_of(const struct comm_call *call, const struct rh_tensor *result)
{
    for (int i = 0; i < call->input_count && !call->outs; i++)
        if (rh_tensor_device(result) == rh_tensor_device(call->inputs[i]) &&
            (rh_tensor_same(result, call->inputs[i]) || strcmp(call->name, "scatter") == 0))
            return i;
    return -1;
}

/* New tensors, or those that were written into. */
static struct rh_tensor *const *results_of(const struct comm_call *call)
{
    return call->outs ? call->outs : call->results;
}

static int count_of(const struct comm_call *call)
{
    return call->outs ? call->out_count : call->result_count;
}

static void print_tensor(const struct rh_tensor *tensor, const char *note)
{
    struct text text = {0};
    char name[24];
    int64_t elements = elements_of(tensor);
    add_shape(&text, tensor);
    printf("  %-9s %-12s", device_name(rh_tensor_device(tensor), name), text.data);
    text.length = 0;
    if (elements <= MOST_VALUES) {
        double *values = values_of(tensor);
        const double *at = values;
        add_values(&text, tensor, 0, &at);
        free(values);
    } else {
        text_add(&text, "%lld elements", (long long)elements);
    }
    printf(" %s%s\n", text.data, note);
    free(text.data);
}

static const char *note_of(const struct comm_call *call, const struct rh_tensor *result)
{
    if (call->outs)
        return "  written into";
    if (alias_of(call, result) < 0)
        return "";
    return strcmp(call->name, "scatter") == 0 ? "  a view of the input" : "  the input itself";
}

/* Devices that got nothing: scatter's ceil(size / devices) may leave some. */
static void print_unused(const struct comm_call *call)
{
    for (int i = call->result_count;
         strcmp(call->name, "scatter") == 0 && !call->outs && i < call->device_count; i++)
        printf("  device %-2d nothing: %d pieces for %d devices\n", call->devices[i],
               call->result_count, call->device_count);
}

static void print_traffic(const struct comm_call *call)
{
    const struct rh_traffic *t = &call->traffic;
    if (t->copies)
        printf("  moved     %d cop%s, %.0f bytes\n", t->copies, t->copies == 1 ? "y" : "ies",
               t->copy_bytes);
    if (t->collectives)
        printf("  moved     %d collective%s, %.0f bytes\n", t->collectives,
               t->collectives == 1 ? "" : "s", t->collective_bytes);
    if (!t->copies && !t->collectives)
        printf("  moved     nothing\n");
}

void comm_print(const struct comm_call *call)
{
    char time[32];
    bool timed = strcmp(call->backend, "reference") != 0;
    printf("%s on %s, %s\n", call->name, call->cluster, call->backend);
    for (int i = 0; i < call->input_count; i++)
        print_tensor(call->inputs[i], "  given");
    for (int i = 0; i < count_of(call); i++)
        print_tensor(results_of(call)[i], note_of(call, results_of(call)[i]));
    print_unused(call);
    print_traffic(call);
    if (timed)
        printf("  time      %s (%s)\n", text_seconds(time, call->seconds),
               strcmp(call->backend, "simgrid") == 0 ? "simulated" : "measured");
}

static cJSON *tensor_json(const struct rh_tensor *tensor)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *shape = cJSON_AddArrayToObject(json, "shape");
    double *values = values_of(tensor);
    int64_t elements = elements_of(tensor);
    if (rh_tensor_device(tensor) == RH_HOST)
        cJSON_AddStringToObject(json, "device", "host");
    else
        cJSON_AddNumberToObject(json, "device", rh_tensor_device(tensor));
    cJSON_AddStringToObject(json, "dtype", rh_tensor_dtype(tensor) == RH_INT64 ? "int64" : "fp32");
    for (int d = 0; d < rh_tensor_rank(tensor); d++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)rh_tensor_dim(tensor, d)));
    cJSON *list = cJSON_AddArrayToObject(json, "values");
    for (int64_t i = 0; i < elements; i++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber(values[i]));
    free(values);
    return json;
}

cJSON *comm_json(const struct comm_call *call)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "call", call->name);
    cJSON_AddStringToObject(json, "cluster", call->cluster);
    cJSON_AddStringToObject(json, "backend", call->backend);
    cJSON *inputs = cJSON_AddArrayToObject(json, "inputs");
    for (int i = 0; i < call->input_count; i++)
        cJSON_AddItemToArray(inputs, tensor_json(call->inputs[i]));
    cJSON *results = cJSON_AddArrayToObject(json, "results");
    for (int i = 0; i < count_of(call); i++) {
        cJSON *result = tensor_json(results_of(call)[i]);
        int input = alias_of(call, results_of(call)[i]);
        if (input >= 0)
            cJSON_AddNumberToObject(result, "shares_memory_of_input", input);
        cJSON_AddItemToArray(results, result);
    }
    cJSON *moved = cJSON_AddObjectToObject(json, "moved");
    cJSON_AddNumberToObject(moved, "copies", call->traffic.copies);
    cJSON_AddNumberToObject(moved, "copy_bytes", call->traffic.copy_bytes);
    cJSON_AddNumberToObject(moved, "collectives", call->traffic.collectives);
    cJSON_AddNumberToObject(moved, "collective_bytes", call->traffic.collective_bytes);
    if (strcmp(call->backend, "reference") != 0)
        cJSON_AddNumberToObject(json, "seconds", call->seconds);
    return json;
}
