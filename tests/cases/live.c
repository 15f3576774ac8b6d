/* The workers of a running training, one by one: what experiment/run.c does, with the session at
 * hand. */
#include "base/json.h"
#include "base/memory.h"
#include "cases/training.h"
#include "experiment/values.h"

enum { MOST_LIVE = 16 };

struct live {
    char folder[32];
    struct platform *platform;
    struct experiment *experiment;
    struct strategy_plan plan;
    struct session *session;
    struct values values;
    struct result result;
    bool loaded, valued;
};

static struct live *open_ones[MOST_LIVE];
static int open_count;

void live_close_all(void)
{
    for (int i = 0; i < open_count; i++) {
        struct live *live = open_ones[i];
        if (live->valued)
            values_close(&live->values);
        if (live->loaded)
            live->experiment->backend->unload(live->session);
        if (live->session)
            live->experiment->backend->close(live->session);
        result_free(&live->result);
        strategy_plan_free(&live->plan);
        experiment_close(live->experiment);
        platform_close(live->platform);
        training_remove(live->folder);
        free(live);
    }
    open_count = 0;
}

struct live *live_open(const struct case_training *t)
{
    cJSON *json = NULL;
    case_require(open_count < MOST_LIVE, "room for live trainings", __FILE__, __LINE__);
    struct live *live = memory_new(sizeof *live);
    training_files(t, live->folder);
    char *text = training_text(t, live->folder);
    enum rh_status status = json_read_text("case", text, &json);
    free(text);
    if (status == RH_OK)
        status = platform_open(&live->platform);
    if (status == RH_OK)
        status = experiment_open(live->platform, json, &live->experiment);
    CHECK_OK(status);
    open_ones[open_count++] = live;
    struct experiment *e = live->experiment;
    struct backend_options options = {.cluster = e->cluster,
                                      .devices = e->devices,
                                      .device_count = e->device_count,
                                      .launch = e->launch,
                                      .numbers = true,
                                      .compute_scale = 1,
                                      .bucket_tensor_seconds = -1};
    CHECK_OK(experiment_plan(e, &live->plan));
    CHECK_OK(e->backend->open(&options, &live->session));
    CHECK_OK(e->backend->load(live->session, live->plan.plan));
    live->loaded = true;
    CHECK_OK(values_open(&live->values, e, &live->plan, NULL));
    live->valued = true;
    live->values.session = live->session;
    CHECK_OK(values_write(&live->values, live->session));
    return live;
}

/* The buffer of that use; the first one that holds numbers with a fraction. */
static int find_buffer(const struct live *live, int worker, enum buffer_use use, int index)
{
    const struct role *role = &live->plan.plan->roles[plan_role_of(live->plan.plan, worker)];
    for (int b = 0; b < role->buffer_count; b++)
        if (role->buffers[b].use == use && role->buffers[b].type.dtype == DTYPE_F32 &&
            (role->buffers[b].index == index || use == USE_STATE || use == USE_LOSSES))
            return b;
    case_require(false, "a buffer of that use", __FILE__, __LINE__);
    return -1;
}

static float *read_buffer(struct live *live, int worker, int buffer, size_t *bytes)
{
    const struct role *role = &live->plan.plan->roles[plan_role_of(live->plan.plan, worker)];
    *bytes = role->buffers[buffer].bytes;
    float *values = memory_new(*bytes);
    if (live->experiment->backend->read(live->session, worker, buffer, values, *bytes) == RH_OK)
        return values;
    free(values);
    return NULL;
}

void live_write(struct live *live, int worker, enum buffer_use use, int index, float value)
{
    size_t bytes = 0;
    int buffer = find_buffer(live, worker, use, index);
    float *values = read_buffer(live, worker, buffer, &bytes);
    case_require(values != NULL, "the buffer is read", __FILE__, __LINE__);
    values[0] = value;
    enum rh_status status =
        live->experiment->backend->write(live->session, worker, buffer, values, bytes);
    free(values);
    CHECK_OK(status);
}

void live_run(struct live *live)
{
    struct backend_feed feed = {.context = &live->values, .fill = values_fill};
    CHECK_OK(
        live->experiment->backend->run(live->session, &live->plan.order, &feed, &live->result));
}

double live_read(struct live *live, int worker, enum buffer_use use, int index, int64_t element)
{
    size_t bytes = 0;
    float *values = read_buffer(live, worker, find_buffer(live, worker, use, index), &bytes);
    case_require(values && (size_t)element * sizeof(float) < bytes, "the element is read", __FILE__,
                 __LINE__);
    double value = values[element];
    free(values);
    return value;
}

double live_seconds(const struct live *live, int step)
{
    return step < live->result.step_count ? live->result.step_seconds[step] : NAN;
}
