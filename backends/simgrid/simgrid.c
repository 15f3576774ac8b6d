#include "backends/simgrid/simgrid.h"

#include <simgrid/forward.h>

#include <simgrid/version.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/simgrid/session.h"
#include "base/memory.h"

static enum rh_status probe(char version[128])
{
    snprintf(version, 128, "SimGrid %d.%d.%d", SIMGRID_VERSION_MAJOR, SIMGRID_VERSION_MINOR,
             SIMGRID_VERSION_PATCH);
    return RH_OK;
}

static enum rh_status open_session(const struct backend_options *options, struct session **session)
{
    struct session *s = memory_new(sizeof *s);
    s->options = *options;
    *session = s;
    return RH_OK;
}

static enum rh_status describe(struct session *s, int device,
                               struct device_description *description)
{
    const struct device_model *model = cluster_device_model(s->options.cluster, device);
    description->capacity_bytes = model->memory_bytes;
    description->runtime_bytes = model->runtime_bytes;
    cluster_device_name(s->options.cluster, device, description->name);
    return RH_OK;
}

static void unload(struct session *s)
{
    session_forget(s);
    if (s->numbers)
        numbers_free(s->numbers);
    s->numbers = NULL;
}

static enum rh_status load(struct session *s, const struct plan *plan)
{
    s->plan = plan;
    enum rh_status status = session_compile(s);
    if (status == RH_OK && s->options.numbers)
        status = numbers_new(&s->options, plan, &s->numbers);
    if (status != RH_OK)
        unload(s);
    return status;
}

static enum rh_status run(struct session *s, const struct run_order *order,
                          const struct backend_feed *feed, struct result *result)
{
    RETURN_IF_FAILED(session_simulate(s, order, result));
    if (!s->numbers)
        return RH_OK;
    result->losses = memory_new_array((size_t)order->steps, sizeof *result->losses);
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

static void close_session(struct session *s)
{
    if (s->plan)
        unload(s);
    free(s);
}

const struct backend backend_simgrid = {
    .name = "simgrid",
    .description = "a model of the cluster on SimGrid; with numbers, values too",
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
