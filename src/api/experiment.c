#include <math.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/memory.h"
#include "experiment/describe.h"
#include "experiment/experiment.h"

struct rh_experiment {
    cJSON *json;
};

struct rh_result {
    struct platform *platform;
    struct experiment *experiment;
    struct outcome outcome;
    struct described described;
    int with_numbers;
};

enum rh_status rh_experiment_open(const char *path_or_json, struct rh_experiment **out)
{
    cJSON *json = NULL;
    *out = NULL;
    if (path_or_json[0] == '{')
        RETURN_IF_FAILED(json_read_text("experiment", path_or_json, &json));
    else
        RETURN_IF_FAILED(experiment_read(path_or_json, NULL, 0, &json));
    *out = memory_new(sizeof **out);
    (*out)->json = json;
    return RH_OK;
}

enum rh_status rh_experiment_set(struct rh_experiment *experiment, const char *setting)
{
    return experiment_set(experiment->json, setting);
}

enum rh_status rh_experiment_set_model(struct rh_experiment *experiment,
                                       const struct rh_model *model)
{
    if (!cJSON_IsObject(experiment->json))
        return fail(RH_INVALID, "the experiment is not an object");
    cJSON_DeleteItemFromObjectCaseSensitive(experiment->json, "model");
    cJSON_AddItemToObject(experiment->json, "model", cJSON_Duplicate(api_model_json(model), true));
    return RH_OK;
}

void rh_experiment_close(struct rh_experiment *experiment)
{
    if (!experiment)
        return;
    cJSON_Delete(experiment->json);
    free(experiment);
}

static enum rh_status run(struct rh_result *result, const cJSON *json, int flags)
{
    struct run_options options = {.numbers = flags & RH_NUMBERS,
                                  .trace = flags & RH_TRACE,
                                  .no_fold = flags & RH_NO_FOLD};
    RETURN_IF_FAILED(platform_open(&result->platform));
    RETURN_IF_FAILED(
        experiment_open(result->platform, cJSON_Duplicate(json, true), &result->experiment));
    enum rh_status status = experiment_run(result->experiment, &options, &result->outcome);
    if (status != RH_OK) {
        experiment_close(result->experiment);
        result->experiment = NULL;
        return status;
    }
    describe_case(result->experiment, &result->outcome, RH_OK, &result->described);
    return RH_OK;
}

enum rh_status rh_experiment_run(struct rh_experiment *experiment, int flags,
                                 struct rh_result **out)
{
    struct rh_result *result = memory_new(sizeof *result);
    enum rh_status status = run(result, experiment->json, flags);
    *out = status == RH_OK ? result : NULL;
    if (status != RH_OK)
        rh_result_free(result);
    return status;
}

void rh_result_free(struct rh_result *result)
{
    if (!result)
        return;
    if (result->experiment) {
        described_free(&result->described);
        outcome_free(&result->outcome);
        experiment_close(result->experiment);
    }
    if (result->platform)
        platform_close(result->platform);
    free(result);
}

int rh_result_steps(const struct rh_result *result)
{
    return result->outcome.result.step_count;
}

double rh_result_step_seconds(const struct rh_result *result, int step)
{
    const struct result *r = &result->outcome.result;
    if (step < 0)
        return r->median_step_seconds;
    return step < r->step_count ? r->step_seconds[step] : NAN;
}

double rh_result_samples_per_second(const struct rh_result *result)
{
    return result->outcome.samples_per_second;
}

double rh_result_loss(const struct rh_result *result, int step)
{
    const struct result *r = &result->outcome.result;
    return r->losses && step >= 0 && step < r->step_count ? r->losses[step] : NAN;
}

int rh_result_devices(const struct rh_result *result)
{
    return result->outcome.result.device_count;
}

double rh_result_peak_bytes(const struct rh_result *result, int device)
{
    const struct result *r = &result->outcome.result;
    double sum = 0;
    for (int p = 0; p < PURPOSE_COUNT && device >= 0 && device < r->device_count; p++)
        sum += r->devices[device].peak_bytes[p];
    return sum;
}

void rh_result_print(const struct rh_result *result, FILE *out)
{
    report_print(&result->described.report, out);
}

char *rh_result_json(const struct rh_result *result)
{
    cJSON *json = report_json(&result->described.report);
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    return text;
}

enum rh_status rh_result_trace(const struct rh_result *result, const char *path)
{
    return report_trace(&result->described.report, path);
}
