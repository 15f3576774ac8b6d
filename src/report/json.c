#include "report/report.h"

#include <stdlib.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "report/figures.h"
#include "report/output.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

static void add_text(cJSON *object, const char *key, const char *text)
{
    if (text)
        cJSON_AddStringToObject(object, key, text);
    else
        cJSON_AddNullToObject(object, key);
}

/* A figure of which 0 means that nobody knows it. */
static void add_figure(cJSON *object, const char *key, double value)
{
    if (figure_known(value))
        cJSON_AddNumberToObject(object, key, value);
    else
        cJSON_AddNullToObject(object, key);
}

static void add_numbers(cJSON *object, const char *key, const double *values, int count)
{
    if (!values || count < 0)
        cJSON_AddNullToObject(object, key);
    else
        cJSON_AddItemToObject(object, key, cJSON_CreateDoubleArray(values, count));
}

static cJSON *device_json(const struct report_case *c, int index)
{
    char spare[32];
    const struct device_result *device = &c->result->devices[index];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "device", device->device);
    cJSON_AddStringToObject(object, "name", case_name_at(c, index, spare));
    cJSON *peak = cJSON_AddObjectToObject(object, "peak_bytes");
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        cJSON_AddNumberToObject(peak, purpose_name((enum purpose)purpose),
                                device->peak_bytes[purpose]);
    cJSON_AddNumberToObject(object, "peak_total_bytes", device_peak_bytes(device));
    add_figure(object, "capacity_bytes", device->capacity_bytes);
    if (figure_known(device->capacity_bytes))
        cJSON_AddNumberToObject(object, "free_bytes",
                                device->capacity_bytes - device_peak_bytes(device));
    else
        cJSON_AddNullToObject(object, "free_bytes");
    cJSON_AddNumberToObject(object, "busy_seconds", device->busy_seconds);
    cJSON_AddNumberToObject(object, "communication_seconds", device->communication_seconds);
    cJSON_AddNumberToObject(object, "exposed_seconds", device->exposed_seconds);
    cJSON_AddNumberToObject(object, "idle_seconds", device->idle_seconds);
    cJSON *work = cJSON_AddObjectToObject(object, "work_seconds");
    for (int kind = 0; kind <= WORK_OTHER; kind++)
        cJSON_AddNumberToObject(work, work_name((enum work)kind), device->work_seconds[kind]);
    return object;
}

static void add_scaling(cJSON *root, const struct result *result)
{
    if (result->loss_scale > 0) {
        cJSON_AddNumberToObject(root, "loss_scale", result->loss_scale);
        cJSON_AddNumberToObject(root, "skipped_steps", result->skipped_steps);
    }
    cJSON_AddNumberToObject(root, "gradient_norm", result->gradient_norm);
}

static void add_memory(cJSON *root, const struct memory_result *m)
{
    if (!figure_known(m->measured_bytes))
        return;
    cJSON *memory = cJSON_AddObjectToObject(root, "memory");
    cJSON_AddNumberToObject(memory, "planned_bytes", m->planned_bytes);
    cJSON_AddNumberToObject(memory, "runtime_bytes", m->runtime_bytes);
    cJSON_AddNumberToObject(memory, "predicted_bytes", m->planned_bytes + m->runtime_bytes);
    cJSON_AddNumberToObject(memory, "measured_bytes", m->measured_bytes);
    cJSON_AddNumberToObject(memory, "capacity_bytes", m->capacity_bytes);
    cJSON_AddNumberToObject(memory, "devices", m->devices);
}

static void add_result(cJSON *root, const struct report_case *c)
{
    char spare[32];
    const struct result *result = c->result;
    add_figure(root, "step_seconds", result->median_step_seconds);
    add_numbers(root, "steps", result->step_seconds, result->step_count);
    add_figure(root, "samples_per_second", c->samples_per_second);
    add_figure(root, "speedup", c->speedup);
    add_figure(root, "efficiency", c->efficiency);
    add_figure(root, "single_step_seconds", c->single_step_seconds);
    add_figure(root, "single_batch", (double)c->single_batch);
    cJSON_AddNumberToObject(root, "exposed_communication_seconds",
                            result->exposed_communication_seconds);
    cJSON_AddNumberToObject(root, "bubble_fraction", result->bubble_fraction);
    add_figure(root, "flops_per_step", c->flops_per_step);
    add_figure(root, "flops_per_second", case_flops_per_second(c));
    add_text(root, "waited_for",
             result->waited_for >= 0 ? case_device_name(c, result->waited_for, spare) : NULL);
    cJSON *links = cJSON_AddObjectToObject(root, "link_bytes");
    for (int i = 0; i < LINK_CLASS_COUNT; i++)
        cJSON_AddNumberToObject(links, link_class_name((enum link_class)i),
                                result->link_class_bytes[i]);
    add_memory(root, &result->memory);
    add_numbers(root, "losses", result->losses, result->step_count);
    if (c->first_step > 0)
        cJSON_AddNumberToObject(root, "first_step", c->first_step);
    if (result->scaled)
        add_scaling(root, result);
    cJSON_AddBoolToObject(root, "folded", result->folded);
    add_text(root, "network_settings", result->network_settings);
    cJSON *devices = cJSON_AddArrayToObject(root, "devices");
    for (int i = 0; i < result->device_count; i++)
        cJSON_AddItemToArray(devices, device_json(c, i));
}

static void add_origin(cJSON *root, const struct report_case *c)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)c->seed);
    cJSON_AddRawToObject(root, "seed", number); /* a double would round it */
    cJSON *files = cJSON_AddArrayToObject(root, "platform_files");
    for (int i = 0; i < c->file_count; i++) {
        cJSON *file = cJSON_CreateObject();
        snprintf(number, sizeof number, "%016llx", (unsigned long long)c->files[i].hash);
        add_text(file, "path", c->files[i].path);
        cJSON_AddStringToObject(file, "hash", number);
        cJSON_AddItemToArray(files, file);
    }
    if (c->resolved)
        cJSON_AddItemToObject(root, "resolved", cJSON_Duplicate(c->resolved, true));
    else
        cJSON_AddNullToObject(root, "resolved");
}

cJSON *report_json(const struct report_case *c)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", PACKAGE_VERSION);
    add_text(root, "experiment", c->experiment);
    if (c->label)
        cJSON_AddStringToObject(root, "label", c->label);
    cJSON_AddNumberToObject(root, "status", case_status(c));
    if (!case_has_result(c))
        add_text(root, "error", c->error);
    if (!case_has_result(c) && figure_known(c->asked_bytes)) {
        cJSON_AddNumberToObject(root, "asked_bytes", c->asked_bytes);
        cJSON_AddNumberToObject(root, "available_bytes", c->available_bytes);
    }
    add_text(root, "model", c->model);
    add_text(root, "strategy", c->strategy);
    add_text(root, "cluster", c->cluster);
    cJSON_AddNumberToObject(root, "device_count", case_devices(c));
    add_text(root, "backend", c->backend);
    add_text(root, "backend_version", c->backend_version);
    add_text(root, "launch", c->launch);
    add_text(root, "precision", c->precision);
    cJSON_AddNumberToObject(root, "batch", (double)c->batch);
    add_text(root, "batch_fixed", c->batch_fixed);
    cJSON_AddNumberToObject(root, "accumulate", c->accumulate);
    cJSON_AddNumberToObject(root, "microbatches", c->microbatches);
    cJSON_AddNumberToObject(root, "buckets", c->buckets);
    add_figure(root, "compute_scale", c->compute_scale);
    if (case_has_result(c))
        add_result(root, c);
    add_origin(root, c);
    return root;
}

enum rh_status report_write_json(const cJSON *json, const char *path)
{
    struct output output;
    char *text = cJSON_Print(json);
    if (!text)
        return fail(RH_FAILED, "cannot write '%s': the JSON tree cannot be printed", path);
    enum rh_status status = output_open(path, &output);
    if (status == RH_OK) {
        fprintf(output.file, "%s\n", text);
        status = output_close(&output);
    }
    cJSON_free(text);
    return status;
}
