#include "backends/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/reference/numbers.h"
#include "base/memory.h"

struct session {
    struct backend_options options;
    const struct plan *plan;
    struct numbers *numbers; /* NULL without numbers: then a run only counts its steps */
};

static enum rh_status probe(char version[128])
{
    snprintf(version, 128, "on the host's cores: values without times");
    return RH_OK;
}

static enum rh_status open_session(const struct backend_options *options, struct session **session)
{
    *session = memory_new(sizeof **session);
    (*session)->options = *options;
    return RH_OK;
}

static enum rh_status describe(struct session *s, int device, struct device_description *out)
{
    const struct device_model *model = cluster_device_model(s->options.cluster, device);
    out->capacity_bytes = model->memory_bytes;
    out->runtime_bytes = model->runtime_bytes;
    cluster_device_name(s->options.cluster, device, out->name);
    return RH_OK;
}

static enum rh_status load(struct session *s, const struct plan *plan)
{
    s->plan = plan;
    return s->options.numbers ? numbers_new(&s->options, plan, &s->numbers) : RH_OK;
}

static void list_devices(const struct session *s, struct result *result)
{
    result->devices =
        memory_new_array((size_t)s->options.device_count + 1, sizeof *result->devices);
    result->device_count = s->options.device_count;
    for (int i = 0; i < s->options.device_count; i++) {
        int device = s->options.devices[i];
        result->devices[i].device = device;
        result->devices[i].capacity_bytes =
            cluster_device_model(s->options.cluster, device)->memory_bytes;
    }
}

static enum rh_status run(struct session *s, const struct run_order *order,
                          const struct backend_feed *feed, struct result *result)
{
    result->step_count = order->steps;
    result->step_seconds = memory_new_array((size_t)order->steps, sizeof(double));
    result->waited_for = -1;
    list_devices(s, result);
    if (!s->numbers)
        return RH_OK;
    result->losses = memory_new_array((size_t)order->steps, sizeof(double));
    return numbers_run(s->numbers, order, feed, result->losses);
}

static enum rh_status write_values(struct session *s, int worker, int buffer, const void *data,
                                   size_t bytes)
{
    return numbers_write(s->numbers, worker, buffer, data, bytes);
}

static enum rh_status read_values(struct session *s, int worker, int buffer, void *data,
                                  size_t bytes)
{
    return numbers_read(s->numbers, worker, buffer, data, bytes);
}

static void unload(struct session *s)
{
    if (s->numbers)
        numbers_free(s->numbers);
    s->numbers = NULL;
    s->plan = NULL;
}

static void close_session(struct session *s)
{
    unload(s);
    free(s);
}

const struct backend backend_reference = {
    .name = "reference",
    .description = "the numbers alone, on the host",
    .probe = probe,
    .open = open_session,
    .describe = describe,
    .load = load,
    .run = run,
    .write = write_values,
    .read = read_values,
    .unload = unload,
    .close = close_session,
};
