/* Reading platforms/devices/NAME.json. Every rate and cost is required: a device that lacks one
 * would silently be too fast. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/private.h"

static const double largest = 1e18; /* of rates and sizes */

void device_free(struct device_model *device)
{
    if (!device)
        return;
    for (int i = 0; i < device->measured_count; i++)
        free(device->measured[i].key);
    free(device->measured);
    free(device->name);
    free(device->source);
    free(device);
}

static enum rh_status read_rates(const cJSON *json, const char *where, struct device_model *device)
{
    const cJSON *rates = cJSON_GetObjectItemCaseSensitive(json, "flops_per_second");
    char inner[256];
    snprintf(inner, sizeof inner, "%s: flops_per_second", where);
    if (!rates)
        return fail(RH_INVALID, "%s: key 'flops_per_second' is missing", where);
    RETURN_IF_FAILED(JSON_CHECK_KEYS(rates, inner, "fp32", "tf32", "bf16", "fp16"));
    for (int type = DTYPE_F32; type <= DTYPE_F16; type++)
        RETURN_IF_FAILED(json_number(rates, inner, dtype_name((enum dtype)type), 1, largest,
                                     &device->flops_per_second[type]));
    return json_number_required(rates, inner, "fp32", 1, largest,
                                &device->flops_per_second[DTYPE_F32]);
}

static enum rh_status read_efficiency(const cJSON *json, const char *where,
                                      struct device_model *device)
{
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(json, "efficiency");
    const char *keys[OP_CLASS_VIEW + 1] = {0};
    char inner[256];
    snprintf(inner, sizeof inner, "%s: efficiency", where);
    if (!object)
        return fail(RH_INVALID, "%s: key 'efficiency' is missing", where);
    for (int c = 0; c < OP_CLASS_VIEW; c++)
        keys[c] = op_class_name((enum op_class)c);
    keys[OP_CLASS_VIEW] = "source";
    RETURN_IF_FAILED(json_check_keys(object, inner, keys, OP_CLASS_VIEW + 1));
    device->efficiency[OP_CLASS_VIEW] = 1;
    for (int c = 0; c < OP_CLASS_VIEW; c++)
        RETURN_IF_FAILED(
            json_number_required(object, inner, keys[c], 1e-4, 1, &device->efficiency[c]));
    return RH_OK;
}

static enum rh_status read_workspace(const cJSON *json, const char *where,
                                     struct device_model *device)
{
    const cJSON *limits = cJSON_GetObjectItemCaseSensitive(json, "workspace_bytes");
    char inner[256];
    snprintf(inner, sizeof inner, "%s: workspace_bytes", where);
    if (!limits)
        return fail(RH_INVALID, "%s: key 'workspace_bytes' is missing", where);
    RETURN_IF_FAILED(JSON_CHECK_KEYS(limits, inner, "convolution", "matmul"));
    RETURN_IF_FAILED(json_number_required(limits, inner, "convolution", 0, largest,
                                          &device->workspace.convolution_bytes));
    return json_number_required(limits, inner, "matmul", 0, largest,
                                &device->workspace.matmul_bytes);
}

static int compare_measured(const void *a, const void *b)
{
    return strcmp(((const struct measured_op *)a)->key, ((const struct measured_op *)b)->key);
}

static enum rh_status read_measured(const cJSON *json, const char *where,
                                    struct device_model *device)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(json, "measured");
    char inner[256];
    snprintf(inner, sizeof inner, "%s: measured", where);
    if (rows && !cJSON_IsArray(rows))
        return fail(RH_INVALID, "%s: a list of {\"op\", \"seconds\"} is expected", inner);
    for (const cJSON *row = rows ? rows->child : NULL; row; row = row->next) {
        const char *key = NULL;
        double seconds = 0;
        RETURN_IF_FAILED(JSON_CHECK_KEYS(row, inner, "op", "seconds"));
        RETURN_IF_FAILED(json_string_required(row, inner, "op", &key));
        RETURN_IF_FAILED(json_number_required(row, inner, "seconds", 0, 1e6, &seconds));
        *ARRAY_ADD(device->measured, device->measured_count, device->measured_capacity) =
            (struct measured_op){text_copy(key), seconds};
    }
    if (device->measured_count)
        qsort(device->measured, (size_t)device->measured_count, sizeof *device->measured,
              compare_measured);
    for (int i = 1; i < device->measured_count; i++)
        if (strcmp(device->measured[i - 1].key, device->measured[i].key) == 0)
            return fail(RH_INVALID, "%s: '%s' is given twice", inner, device->measured[i].key);
    return RH_OK;
}

/* Numbers that every device has, with their ranges. */
static enum rh_status read_numbers(const cJSON *json, const char *where,
                                   struct device_model *device)
{
    const struct {
        const char *key;
        double least, most, *value;
    } numbers[] = {
        {"memory_bytes", 1, largest, &device->memory_bytes},
        {"runtime_bytes", 0, largest, &device->runtime_bytes},
        {"communicator_bytes", 0, largest, &device->communicator_bytes},
        {"memory_bytes_per_second", 1, largest, &device->memory_bytes_per_second},
        {"kernel_seconds", 0, 1, &device->kernel_seconds},
        {"launch_seconds", 0, 1, &device->launch_seconds},
        {"event_seconds", 0, 1, &device->event_seconds},
        {"graph_launch_seconds", 0, 1, &device->graph_launch_seconds},
        {"graph_node_seconds", 0, 1, &device->graph_node_seconds},
        {"copy_seconds", 0, 1, &device->copy_seconds},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        RETURN_IF_FAILED(json_number_required(json, where, numbers[i].key, numbers[i].least,
                                              numbers[i].most, numbers[i].value));
    if (device->runtime_bytes >= device->memory_bytes)
        return fail(RH_INVALID, "%s: 'runtime_bytes' is %.0f, not less than 'memory_bytes' %.0f",
                    where, device->runtime_bytes, device->memory_bytes);
    RETURN_IF_FAILED(
        json_number(json, where, "bucket_tensor_seconds", 0, 1, &device->bucket_tensor_seconds));
    return json_number(json, where, "collective_compute_share", 0, 0.99,
                       &device->collective_compute_share);
}

static enum rh_status read_kind(const cJSON *json, const char *where, struct device_model *device)
{
    static const char *const kinds[] = {"gpu", "host"};
    const char *kind = NULL;
    int index = 0;
    RETURN_IF_FAILED(json_string_required(json, where, "kind", &kind));
    if (json_choice("kind", kind, kinds, 2, &index) != RH_OK)
        return fail_within(RH_INVALID, "%s", where);
    device->host = index == 1;
    int64_t units = 0;
    int64_t capability = 0;
    int64_t nvlinks = 0;
    RETURN_IF_FAILED(json_integer_required(json, where, device->host ? "cores" : "multiprocessors",
                                           1, 100000, &units));
    device->multiprocessors = (int)units;
    if (!device->host) {
        RETURN_IF_FAILED(
            json_integer_required(json, where, "compute_capability", 30, 999, &capability));
        RETURN_IF_FAILED(json_number_required(json, where, "collective_compute_share", 0, 0.99,
                                              &device->collective_compute_share));
        RETURN_IF_FAILED(read_workspace(json, where, device));
    }
    RETURN_IF_FAILED(json_integer(json, where, "nvlink_count", 0, 64, &nvlinks));
    if (nvlinks)
        RETURN_IF_FAILED(json_number_required(json, where, "nvlink_bytes_per_second", 1, largest,
                                              &device->nvlink_bytes_per_second));
    device->compute_capability = (int)capability;
    device->nvlink_count = (int)nvlinks;
    return RH_OK;
}

static enum rh_status read_all(const cJSON *json, const char *where, struct device_model *device)
{
    const char *name = NULL;
    const char *source = NULL;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(
        json, where, "name", "source", "comment", "kind", "memory_bytes", "runtime_bytes",
        "communicator_bytes", "workspace_bytes", "memory_bytes_per_second", "flops_per_second",
        "efficiency", "kernel_seconds", "launch_seconds", "event_seconds", "graph_launch_seconds",
        "graph_node_seconds", "copy_seconds", "collective_compute_share", "bucket_tensor_seconds",
        "compute_capability", "multiprocessors", "cores", "nvlink_bytes_per_second", "nvlink_count",
        "measured"));
    RETURN_IF_FAILED(json_string_required(json, where, "name", &name));
    RETURN_IF_FAILED(json_string_required(json, where, "source", &source));
    device->name = text_copy(name);
    device->source = text_copy(source);
    RETURN_IF_FAILED(read_kind(json, where, device));
    RETURN_IF_FAILED(read_numbers(json, where, device));
    RETURN_IF_FAILED(read_rates(json, where, device));
    RETURN_IF_FAILED(read_efficiency(json, where, device));
    return read_measured(json, where, device);
}

enum rh_status device_read(const cJSON *json, const char *where, struct device_model **device)
{
    struct device_model *made = memory_new(sizeof *made);
    enum rh_status status = read_all(json, where, made);
    if (status != RH_OK) {
        device_free(made);
        made = NULL;
    }
    *device = made;
    return status;
}
