#include "calibrate/published.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

static enum rh_status read_row(const cJSON *json, const char *path, struct published_row *row)
{
    int64_t gpus = 1;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(json, path, "model", "row", "gpus", "ddp", "seconds"));
    RETURN_IF_FAILED(json_string_required(json, path, "model", &row->model));
    RETURN_IF_FAILED(json_string_required(json, path, "row", &row->name));
    RETURN_IF_FAILED(json_integer_required(json, path, "gpus", 1, 1 << 20, &gpus));
    RETURN_IF_FAILED(
        json_number_required(json, path, "seconds", 1e-9, 1e9, &row->measured_seconds));
    row->gpus = (int)gpus;
    return json_bool(json, path, "ddp", &row->ddp);
}

static enum rh_status read_rows(struct published *p, const char *path)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(p->json, "measured");
    const cJSON *fit = cJSON_GetObjectItemCaseSensitive(p->json, "fit");
    const char *model = NULL;
    const char *name = NULL;
    bool found = false;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(fit, path, "model", "row"));
    RETURN_IF_FAILED(json_string_required(fit, path, "model", &model));
    RETURN_IF_FAILED(json_string_required(fit, path, "row", &name));
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        struct published_row *row = ARRAY_ADD(p->rows, p->count, p->capacity);
        RETURN_IF_FAILED(read_row(item, path, row));
        row->fitted = strcmp(row->model, model) == 0 && strcmp(row->name, name) == 0;
        found |= row->fitted;
    }
    if (!found)
        return fail(RH_INVALID, "'%s': no measured row is '%s' of '%s', which is to be fitted",
                    path, name, model);
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < p->count; k++)
            if (!p->rows[k].ddp && strcmp(p->rows[k].model, p->rows[i].model) == 0)
                p->rows[i].anchor_seconds = p->rows[k].measured_seconds;
    for (int i = 0; i < p->count; i++)
        if (p->rows[i].anchor_seconds <= 0)
            return fail(RH_INVALID, "'%s': model '%s' has no row without DDP to anchor on", path,
                        p->rows[i].model);
    return RH_OK;
}

enum rh_status published_read(const char *path, struct published *p)
{
    *p = (struct published){0};
    RETURN_IF_FAILED(json_read_file(path, &p->json));
    enum rh_status status =
        JSON_CHECK_KEYS(p->json, path, "source", "experiment", "fit", "measured");
    if (status == RH_OK)
        status = json_string_required(p->json, path, "source", &p->source);
    if (status == RH_OK)
        status = read_rows(p, path);
    if (status != RH_OK)
        published_free(p);
    return status;
}

void published_free(struct published *p)
{
    free(p->rows);
    cJSON_Delete(p->json);
    *p = (struct published){0};
}

static enum rh_status predict(struct platform *platform, const struct published *p,
                              const struct published_row *row, double constant, double *seconds)
{
    char setting[128];
    struct experiment *experiment = NULL;
    struct run_options options = {0};
    struct outcome outcome;
    cJSON *json = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(p->json, "experiment"), true);
    snprintf(setting, sizeof setting, "model=%s", row->model);
    enum rh_status status = experiment_set(json, setting);
    snprintf(setting, sizeof setting, "devices=%d", row->gpus);
    if (status == RH_OK)
        status = experiment_set(json, setting);
    snprintf(setting, sizeof setting, "anchor.single_step_seconds=%.17g", row->anchor_seconds);
    if (status == RH_OK)
        status = experiment_set(json, setting);
    snprintf(setting, sizeof setting, "anchor.bucket_tensor_seconds=%.17g", constant);
    if (status == RH_OK)
        status = experiment_set(json, setting);
    if (status != RH_OK) {
        cJSON_Delete(json);
        return status;
    }
    RETURN_IF_FAILED(experiment_open(platform, json, &experiment));
    status = experiment_run(experiment, &options, &outcome);
    if (status == RH_OK) {
        *seconds = outcome.result.median_step_seconds;
        outcome_free(&outcome);
    }
    experiment_close(experiment);
    return status;
}

/* The step is linear in the constant while the device is the bottleneck: one secant finds it. */
static enum rh_status fit(struct platform *platform, struct published *p,
                          const struct published_row *row)
{
    static const double probe_seconds = 1e-5;
    double without = 0;
    double with = 0;
    RETURN_IF_FAILED(predict(platform, p, row, 0, &without));
    RETURN_IF_FAILED(predict(platform, p, row, probe_seconds, &with));
    if (with > without && row->measured_seconds > without)
        p->bucket_tensor_seconds =
            probe_seconds * (row->measured_seconds - without) / (with - without);
    return RH_OK;
}

enum rh_status published_predict(struct platform *platform, struct published *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->rows[i].fitted)
            RETURN_IF_FAILED(fit(platform, p, &p->rows[i]));
    for (int i = 0; i < p->count; i++)
        if (p->rows[i].ddp)
            RETURN_IF_FAILED(predict(platform, p, &p->rows[i], p->bucket_tensor_seconds,
                                     &p->rows[i].predicted_seconds));
    return RH_OK;
}

struct published_error published_error(const struct published *p, double factor)
{
    struct published_error e = {0};
    for (int i = 0; i < p->count; i++) {
        const struct published_row *row = &p->rows[i];
        if (!row->ddp || row->fitted)
            continue;
        double said = factor > 0 ? row->anchor_seconds * factor : row->predicted_seconds;
        double error = said / row->measured_seconds - 1;
        e.rows++;
        e.mean += fabs(error);
        e.bias += error;
        if (!e.worst_row || fabs(error) > e.worst) {
            e.worst = fabs(error);
            e.worst_row = row;
        }
    }
    if (e.rows) {
        e.mean /= e.rows;
        e.bias /= e.rows;
    }
    return e;
}
