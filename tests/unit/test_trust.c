/* What a simulator must get right before its numbers are worth reading: tests that rival simulators
 * fail, on whole experiments. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/simgrid/simgrid.h"
#include "base/json.h"
#include "base/memory.h"
#include "rehearse.h"

static const char base[] =
    "{\"name\":\"trust\",\"model\":\"resnet50\",\"data\":{\"batch_per_device\":32,\"resident\":true},"
    "\"train\":{\"steps\":4},\"cluster\":\"dgx-1v\",\"devices\":8,\"strategy\":\"ddp\"}";

/* Runs the base experiment with settings ("key=value;key=value"), or gives the status. */
static enum rh_status run_with(const char *settings, struct rh_result **result)
{
    struct rh_experiment *experiment = NULL;
    char *copy = text_copy(settings);
    char *rest = NULL;
    *result = NULL;
    CU_ASSERT_EQUAL_FATAL(rh_experiment_open(base, &experiment), RH_OK);
    enum rh_status status = RH_OK;
    for (char *s = strtok_r(copy, ";", &rest); s && status == RH_OK; s = strtok_r(NULL, ";", &rest))
        status = rh_experiment_set(experiment, s);
    if (status == RH_OK)
        status = rh_experiment_run(experiment, 0, result);
    rh_experiment_close(experiment);
    free(copy);
    return status;
}

static double step_seconds(const char *settings)
{
    struct rh_result *result = NULL;
    CU_ASSERT_EQUAL(run_with(settings, &result), RH_OK);
    if (!result) {
        fprintf(stderr, "    %s: %s\n", settings, rh_error());
        return NAN;
    }
    double seconds = rh_result_step_seconds(result, -1);
    rh_result_free(result);
    return seconds;
}

static cJSON *report_of(const char *settings)
{
    struct rh_result *result = NULL;
    CU_ASSERT_EQUAL_FATAL(run_with(settings, &result), RH_OK);
    char *text = rh_result_json(result);
    cJSON *json = cJSON_Parse(text);
    free(text);
    rh_result_free(result);
    return json;
}

static double number_of(const cJSON *json, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, key));
}

/* launch-bound: half the work does not halve the step, in graph it nearly does */
static void halving_a_launch_bound_batch(void)
{
    double one = step_seconds("strategy.type=single;data.batch=2;cluster=hgx-h100");
    double half = step_seconds("strategy.type=single;data.batch=1;cluster=hgx-h100");
    double graph = step_seconds("strategy.type=single;data.batch=64;cluster=hgx-h100;launch=graph");
    double graph_half =
        step_seconds("strategy.type=single;data.batch=32;cluster=hgx-h100;launch=graph");
    CU_ASSERT_TRUE(half > 0.9 * one);
    CU_ASSERT_TRUE(graph_half < 0.65 * graph);
}

static void smaller_microbatches_stop_helping(void)
{
    double seconds[6];
    int best = 0;
    for (int i = 0; i < 6; i++) {
        char settings[256];
        snprintf(settings, sizeof settings,
                 "strategy={\"type\":\"pipeline\",\"microbatches\":%d};devices=4;data.batch=128",
                 4 << i);
        seconds[i] = step_seconds(settings);
        best = seconds[i] < seconds[best] ? i : best;
    }
    CU_ASSERT_TRUE(best > 0);                     /* more microbatches help at first */
    CU_ASSERT_TRUE(seconds[5] > 1.02 * seconds[best]); /* and then they hurt */
}

static void hand_made_pieces_have_a_best_size(void)
{
    double whole = step_seconds("strategy={\"type\":\"pipeline\",\"split_size\":120};devices=2;data.batch=120");
    double twenty = step_seconds("strategy={\"type\":\"pipeline\",\"split_size\":20};devices=2;data.batch=120");
    double one = step_seconds("strategy={\"type\":\"pipeline\",\"split_size\":1};devices=2;data.batch=120");
    CU_ASSERT_TRUE(twenty < whole);
    CU_ASSERT_TRUE(one > twenty);
}

static void data_parallel_falls_behind_ddp(void)
{
    double gap = 0;
    for (int devices = 2; devices <= 8; devices *= 2) {
        char settings[128];
        snprintf(settings, sizeof settings, "cluster=dgx-a100-40gb;devices=%d;strategy.type=ddp", devices);
        double ddp = step_seconds(settings);
        snprintf(settings, sizeof settings, "cluster=dgx-a100-40gb;devices=%d;strategy.type=data_parallel", devices);
        double now = step_seconds(settings) / ddp;
        CU_ASSERT_TRUE(now > gap && now > 1);
        gap = now;
    }
}

static double total_of(const cJSON *device)
{
    double sum = 0;
    const cJSON *peak = cJSON_GetObjectItemCaseSensitive(device, "peak_bytes");
    for (const cJSON *p = peak ? peak->child : NULL; p; p = p->next)
        if (strcmp(p->string, "total") != 0)
            sum += p->valuedouble;
    return sum;
}

static void device_0_holds_the_most(void)
{
    cJSON *json = report_of("strategy.type=data_parallel;train.optimizer=adam");
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(json, "devices");
    if (!cJSON_IsArray(devices))
        devices = cJSON_GetObjectItemCaseSensitive(json, "device_results");
    double first = total_of(cJSON_GetArrayItem(devices, 0));
    CU_ASSERT_TRUE(first > 0);
    for (int i = 1; i < cJSON_GetArraySize(devices); i++)
        CU_ASSERT_TRUE(total_of(cJSON_GetArrayItem(devices, i)) < first);
    cJSON_Delete(json);
}

static void too_little_memory_is_refused(void)
{
    struct rh_result *result = NULL;
    CU_ASSERT_EQUAL(run_with("strategy.type=single;data.batch=2048", &result), RH_OUT_OF_MEMORY);
    UNIT_ASSERT_CONTAINS(rh_error(), "does not fit");
    UNIT_ASSERT_CONTAINS(rh_error(), "node0:gpu0");
    UNIT_ASSERT_CONTAINS(rh_error(), "largest");
    rh_result_free(result);
}

static void a_slower_gpu_slows_everyone(void)
{
    static const char mixed[] =
        "cluster={\"nodes\":[{\"node\":\"dgx-a100-40gb\",\"count\":1},{\"node\":\"dgx-1v-32gb\",\"count\":1}]};"
        "devices=16";
    double alone = step_seconds("cluster=dgx-1v;devices=8");
    double fast = step_seconds("cluster=dgx-a100-40gb;devices=8");
    double together = step_seconds(mixed);
    CU_ASSERT_TRUE(fast < 0.9 * alone);
    CU_ASSERT_TRUE(together > 0.95 * alone);
    struct rh_result *result = NULL;
    CU_ASSERT_EQUAL_FATAL(run_with(mixed, &result), RH_OK);
    FILE *file = tmpfile();
    char text[65536] = "";
    rh_result_print(result, file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    UNIT_ASSERT_CONTAINS(text, "slowest     node1:gpu");
    rh_result_free(result);
}

static void time_grows_with_ranks_and_latency(void)
{
    double before = 0;
    for (int nodes = 1; nodes <= 16; nodes *= 4) {
        char settings[128];
        snprintf(settings, sizeof settings, "cluster=hgx-h100;devices=%d", nodes * 8);
        double now = step_seconds(settings);
        CU_ASSERT_TRUE(now > before);
        before = now;
    }
}

static void oversubscription_costs(void)
{
    static const char format[] =
        "cluster={\"node\":\"hgx-h100\",\"oversubscription\":%d};devices=512";
    char settings[256];
    snprintf(settings, sizeof settings, format, 1);
    double full = step_seconds(settings);
    snprintf(settings, sizeof settings, format, 8);
    double thin = step_seconds(settings);
    CU_ASSERT_TRUE(thin >= full);
}

static void folded_equals_unfolded(void)
{
    for (int nodes = 2; nodes <= 4; nodes++) {
        struct rh_experiment *experiment = NULL;
        struct rh_result *result[2];
        char devices[32];
        snprintf(devices, sizeof devices, "devices=%d", nodes * 8);
        CU_ASSERT_EQUAL_FATAL(rh_experiment_open(base, &experiment), RH_OK);
        CU_ASSERT_EQUAL(rh_experiment_set(experiment, devices), RH_OK);
        CU_ASSERT_EQUAL_FATAL(rh_experiment_run(experiment, 0, &result[0]), RH_OK);
        CU_ASSERT_EQUAL_FATAL(rh_experiment_run(experiment, RH_NO_FOLD, &result[1]), RH_OK);
        for (int step = 0; step < rh_result_steps(result[0]); step++)
            UNIT_ASSERT_NEAR(rh_result_step_seconds(result[0], step),
                             rh_result_step_seconds(result[1], step), 1e-9);
        rh_result_free(result[0]);
        rh_result_free(result[1]);
        rh_experiment_close(experiment);
    }
}

static void two_runs_are_alike(void)
{
    cJSON *a = report_of("strategy.type=data_parallel;data.resident=false");
    cJSON *b = report_of("strategy.type=data_parallel;data.resident=false");
    char *x = cJSON_Print(a);
    char *y = cJSON_Print(b);
    CU_ASSERT_STRING_EQUAL(x, y);
    free(x);
    free(y);
    cJSON_Delete(a);
    cJSON_Delete(b);
}

static void an_anchor_sets_the_single_step(void)
{
    cJSON *json = report_of("anchor={\"single_step_seconds\":0.097}");
    UNIT_ASSERT_NEAR(number_of(json, "single_step_seconds"), 0.097, 1e-6);
    CU_ASSERT_TRUE(number_of(json, "step_seconds") > 0.097);
    cJSON_Delete(json);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"halving a launch-bound batch", halving_a_launch_bound_batch, NULL},
        {"smaller microbatches stop helping", smaller_microbatches_stop_helping, NULL},
        {"hand-made pieces have a best size", hand_made_pieces_have_a_best_size, NULL},
        {"DataParallel falls behind DDP", data_parallel_falls_behind_ddp, NULL},
        {"device 0 holds the most", device_0_holds_the_most, NULL},
        {"too little memory is refused", too_little_memory_is_refused, NULL},
        {"a slower GPU slows everyone", a_slower_gpu_slows_everyone, NULL},
        {"time grows with ranks", time_grows_with_ranks_and_latency, NULL},
        {"oversubscription costs", oversubscription_costs, NULL},
        {"folded equals unfolded", folded_equals_unfolded, NULL},
        {"two runs are alike", two_runs_are_alike, NULL},
        {"an anchor sets the single step", an_anchor_sets_the_single_step, NULL},
    };
    return UNIT_MAIN("trust", tests);
}
