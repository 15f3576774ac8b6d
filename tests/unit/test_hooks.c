/* DDP's communication hooks and gradients that lie in their buckets: the same training, fewer
 * bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "rehearse.h"
#include "tests/unit/unit.h"

enum { STEPS = 4 };
static const char mlp[] = "{\"name\":\"mlp\",\"sizes\":[6,8,8,7,8,5]}";

/* The report of a run, freed by the caller; NULL with the error printed. */
static cJSON *run(const char *train, const char *way, const char *ddp, double losses[STEPS])
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    cJSON *report = NULL;
    char *strategy = text_format(way, ddp);
    char *text = text_format(
        "{\"name\":\"h\",\"model\":%s,\"data\":{\"batch\":24,\"seed\":7},\"train\":{\"steps\":%d,"
        "\"loss\":\"cross_entropy\"%s},\"cluster\":\"dgx-1v\","
        "\"backend\":\"reference\",%s}",
        mlp, STEPS, train, strategy);
    if (rh_experiment_open(text, &experiment) == RH_OK &&
        rh_experiment_run(experiment, RH_NUMBERS, &result) == RH_OK) {
        char *json = rh_result_json(result);
        report = cJSON_Parse(json);
        free(json);
        for (int i = 0; i < STEPS; i++)
            losses[i] = rh_result_loss(result, i);
    } else {
        fprintf(stderr, "    %s: %s\n", strategy, rh_error());
    }
    rh_result_free(result);
    rh_experiment_close(experiment);
    free(strategy);
    free(text);
    return report;
}

static const char *const ways[] = {
    "\"devices\":4,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"bucket_cap_mb\":0.0003%s}}",
    "\"devices\":4,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"broadcast_buffers\":true%s}}",
    "\"devices\":4,\"mesh\":{\"dp\":2},\"strategy\":{\"type\":\"model_parallel\",\"ddp\":{"
    "\"bucket_cap_mb\":0.0003%s}}",
    "\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":{\"type\":\"pipeline\","
    "\"microbatches\":"
    "3,\"ddp\":{\"bucket_cap_mb\":0.0003%s}}",
    "\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":{\"type\":\"pipeline\",\"schedule\":"
    "\"zbv\",\"microbatches\":3,\"ddp\":{\"bucket_cap_mb\":0.0003%s}}",
};

static double peak(const cJSON *report, const char *purpose)
{
    const cJSON *devices = cJSON_GetObjectItem(report, "devices");
    double sum = 0;
    for (const cJSON *d = devices->child; d; d = d->next)
        sum += cJSON_GetNumberValue(
            cJSON_GetObjectItem(cJSON_GetObjectItem(d, "peak_bytes"), purpose));
    return sum;
}

/* D61: not one bit differs, and the buckets' memory is gone. */
static void gradients_in_their_buckets(void)
{
    static const char *const settings[] = {
        "", ",\"accumulate\":3", ",\"clip_grad_norm\":0.2",
        ",\"optimizer\":\"adamw\",\"precision\":\"fp16\",\"fusion\":true"};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int s = 0; s < 4; s++) {
            double plain[STEPS], views[STEPS];
            cJSON *a = run(settings[s], ways[w], "", plain);
            cJSON *b = run(settings[s], ways[w], ",\"gradient_as_bucket_view\":true", views);
            CU_ASSERT_PTR_NOT_NULL_FATAL(a);
            CU_ASSERT_PTR_NOT_NULL_FATAL(b);
            for (int i = 0; i < STEPS; i++)
                CU_ASSERT_EQUAL(plain[i], views[i]);
            CU_ASSERT_TRUE(peak(b, "communication") < peak(a, "communication"));
            CU_ASSERT_TRUE(peak(b, "gradients") <= peak(a, "gradients") + 512);
            cJSON_Delete(a);
            cJSON_Delete(b);
        }
}

/* Gradients rounded to halves: near the plain training, not equal to it. */
static void halves_travel(void)
{
    static const struct {
        const char *ddp;
        double relative;
    } hooks[] = {
        {",\"comm_hook\":\"fp16_compress\"", 2e-3},
        {",\"comm_hook\":\"bf16_compress\"", 2e-2},
        {",\"comm_hook\":\"fp16_compress\",\"gradient_as_bucket_view\":true", 2e-3},
    };
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int h = 0; h < 3; h++) {
            double plain[STEPS], low[STEPS], named[STEPS];
            bool differs = false;
            cJSON_Delete(run("", ways[w], "", plain));
            cJSON_Delete(run("", ways[w], ",\"comm_hook\":\"allreduce\"", named));
            cJSON *report = run("", ways[w], hooks[h].ddp, low);
            CU_ASSERT_PTR_NOT_NULL(report);
            for (int i = 0; report && i < STEPS; i++) {
                UNIT_ASSERT_NEAR(low[i], plain[i], hooks[h].relative);
                CU_ASSERT_EQUAL(named[i], plain[i]);
                differs |= low[i] != plain[i];
            }
            CU_ASSERT_TRUE(differs);
            cJSON_Delete(report);
        }
}

static void refused(void)
{
    double losses[STEPS];
    CU_ASSERT_PTR_NULL(run("", ways[0], ",\"comm_hook\":\"fp16\"", losses));
    UNIT_ASSERT_CONTAINS(rh_error(), "fp16_compress");
}

static const struct unit_test tests[] = {
    {"gradients in their buckets", gradients_in_their_buckets, NULL},
    {"halves travel", halves_travel, NULL},
    {"hooks that are refused", refused, NULL},
};

int main(void)
{
    return UNIT_MAIN("hooks", tests);
}
