/* Loss scale, clipping by the global norm and learning-rate schedules: the values of torch, the
 * same decision on every device and in every strategy, a step that is skipped leaves nothing
 * behind. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "experiment/learning_rate.h"
#include "kernels/cpu/cpu.h"
#include "rehearse.h"
#include "tests/unit/unit.h"

enum { STEPS = 5 };

static struct cpu_tensor vector(float *data, int64_t elements)
{
    return (struct cpu_tensor){data, {DTYPE_F32, shape_of(1, &elements)}};
}

static struct cpu_tensor rows(float *data, int64_t count)
{
    int64_t dim[2] = {count, NORM_ELEMENTS};
    return (struct cpu_tensor){data, {DTYPE_F32, shape_of(2, dim)}};
}

static void norm_of(float *a, int64_t na, float *b, int64_t nb, float norm[NORM_ELEMENTS])
{
    struct op op = {.kind = OP_grad_norm};
    struct cpu_tensor reads[] = {vector(a, na), vector(b, nb)};
    struct cpu_tensor writes[] = {vector(norm, NORM_ELEMENTS)};
    CU_ASSERT_EQUAL(cpu_run(&op, reads, 2, writes, 1), RH_OK);
}

static void decide(const struct op *op, float *norms, int64_t count, float *scaler)
{
    struct cpu_tensor reads[] = {rows(norms, count), vector(scaler, SCALER_ELEMENTS)};
    struct cpu_tensor writes[] = {vector(scaler, SCALER_ELEMENTS)};
    CU_ASSERT_EQUAL(cpu_run(op, reads, 2, writes, 1), RH_OK);
}

/* torch.nn.utils.clip_grad_norm_ of (3, 4) and (12), max_norm 1: norm 13, the first gradient
 * becomes 0.230769217. */
static void clipping(void)
{
    float a[] = {3, 4}, b[] = {12}, norms[4], scaler[SCALER_ELEMENTS] = {1};
    struct op op = {.kind = OP_grad_scaler, .scaler = {.max_norm = 1}};
    norm_of(a, 2, b, 1, norms);
    CU_ASSERT_EQUAL(norms[NORM_SQUARES], 169);
    CU_ASSERT_EQUAL(norms[NORM_BAD], 0);
    decide(&op, norms, 1, scaler);
    CU_ASSERT_EQUAL(scaler[SCALER_NORM], 13);
    UNIT_ASSERT_NEAR(3 * (double)scaler[SCALER_MULTIPLIER], 0.230769217, 1e-7);
    /* two devices: rows add up; scaled gradients: the scale is taken out of norm and gradients */
    norm_of(a, 2, a, 0, norms);
    norm_of(b, 1, b, 0, norms + NORM_ELEMENTS);
    scaler[SCALER_SCALE] = 4;
    decide(&op, norms, 2, scaler);
    CU_ASSERT_EQUAL(scaler[SCALER_NORM], 13.0F / 4);
    UNIT_ASSERT_NEAR((double)scaler[SCALER_MULTIPLIER], 1 / (3.25 + 1e-6) / 4, 1e-6);
    op.scaler.max_norm = 100; /* far enough: only the scale is taken out */
    decide(&op, norms, 2, scaler);
    CU_ASSERT_EQUAL(scaler[SCALER_MULTIPLIER], 0.25F);
}

/* GradScaler(init_scale 1024, growth_interval 2): good, good, bad, good, good. */
static void scale_changes(void)
{
    static const float bad[STEPS] = {0, 0, 1, 0, 0};
    static const float scale[STEPS] = {1024, 2048, 1024, 1024, 2048};
    static const float tracker[STEPS] = {1, 0, 0, 1, 0};
    static const float multiplier[STEPS] = {1.0F / 1024, 1.0F / 1024, 1.0F / 2048, 1.0F / 1024,
                                            1.0F / 1024};
    float scaler[SCALER_ELEMENTS] = {1024};
    struct op op = {.kind = OP_grad_scaler,
                    .scaler = {.skip = true, .growth = 2, .backoff = 0.5, .interval = 2}};
    for (int i = 0; i < STEPS; i++) {
        float norms[NORM_ELEMENTS] = {bad[i] != 0 ? INFINITY : 16, bad[i]};
        decide(&op, norms, 1, scaler);
        CU_ASSERT_EQUAL(scaler[SCALER_SCALE], scale[i]);
        CU_ASSERT_EQUAL(scaler[SCALER_TRACKER], tracker[i]);
        CU_ASSERT_EQUAL(scaler[SCALER_MULTIPLIER], multiplier[i]);
        CU_ASSERT_EQUAL(scaler[SCALER_SKIP], bad[i]);
    }
    CU_ASSERT_EQUAL(scaler[SCALER_SKIPPED], 1);
    /* clipping alone skips nothing: a NaN goes through, as in torch */
    float norms[NORM_ELEMENTS] = {NAN, 1};
    op.scaler.skip = false;
    op.scaler.max_norm = 1;
    decide(&op, norms, 1, scaler);
    CU_ASSERT_TRUE(isnan(scaler[SCALER_MULTIPLIER]));
    CU_ASSERT_EQUAL(scaler[SCALER_SKIP], 0);
}

static void bad_gradients_are_counted(void)
{
    float a[] = {1, INFINITY, -INFINITY, NAN}, b[] = {NAN}, norm[NORM_ELEMENTS];
    norm_of(a, 4, b, 1, norm);
    CU_ASSERT_EQUAL(norm[NORM_BAD], 4);
}

/* One step of each optimizer: with a multiplier, as with gradients that were multiplied before;
 * with skip, everything and the count stay. */
static void optimizers_heed(void)
{
    static const enum op_kind kinds[] = {OP_sgd, OP_adam, OP_adamw};
    for (int k = 0; k < 3; k++) {
        struct op op = {.kind = kinds[k], .scaled = true};
        op.adam.beta1 = 0.9;
        op.adam.beta2 = 0.99;
        op.adam.epsilon = 1e-8;
        if (k == 0)
            op = (struct op){.kind = OP_sgd, .scaled = true, .sgd = {.momentum = 0.5}};
        int states = k == 0 ? 1 : 2;
        float p[3][1] = {{1}, {1}, {1}}, m[3][1] = {{0.5F}, {0.5F}, {0.5F}};
        float v[3][1] = {{2}, {2}, {2}}, g = 8, small = 2, control[4] = {0.1F};
        int64_t count[3] = {3, 3, 3};
        for (int i = 0; i < 3; i++) { /* plain, multiplied, skipped */
            float scaler[SCALER_ELEMENTS] = {1, 0, i == 1 ? 0.25F : 1, i == 2};
            struct cpu_tensor counted = {&count[i], {.dtype = DTYPE_I64}};
            struct cpu_tensor reads[] = {vector(control, 4),
                                         counted,
                                         vector(scaler, SCALER_ELEMENTS),
                                         vector(p[i], 1),
                                         vector(i == 0 ? &small : &g, 1),
                                         vector(m[i], 1),
                                         vector(v[i], 1)};
            struct cpu_tensor writes[] = {counted, vector(p[i], 1), vector(m[i], 1),
                                          vector(v[i], 1)};
            CU_ASSERT_EQUAL(cpu_run(&op, reads, 5 + states, writes, 2 + states), RH_OK);
        }
        CU_ASSERT_TRUE(p[0][0] != 1 && count[0] == 4);
        CU_ASSERT_TRUE(p[1][0] == p[0][0] && m[1][0] == m[0][0] && v[1][0] == v[0][0]);
        CU_ASSERT_TRUE(p[2][0] == 1 && m[2][0] == 0.5F && v[2][0] == 2 && count[2] == 3);
    }
}

/* ---- schedules: torch 1.13, lr 0.1, eight steps ---- */
static void schedules(void)
{
    static const struct {
        const char *json;
        double rates[8];
    } cases[] = {
        {"{\"type\":\"step\",\"step_size\":3,\"gamma\":0.5}",
         {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025}},
        {"{\"type\":\"multi_step\",\"milestones\":[2,5],\"gamma\":0.1}",
         {0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001}},
        {"{\"type\":\"exponential\",\"gamma\":0.9}",
         {0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049, 0.0531441, 0.04782969}},
        {"{\"type\":\"cosine\",\"t_max\":5,\"eta_min\":0.01}",
         {0.1, 0.09140576475, 0.06890576475, 0.04109423525, 0.01859423525, 0.01, 0.01859423525,
          0.04109423525}},
        {"\"linear\"",
         {0.03333333333, 0.04666666667, 0.06, 0.07333333333, 0.08666666667, 0.1, 0.1, 0.1}},
        {"{\"type\":\"linear\",\"start_factor\":0.5,\"end_factor\":0.75,\"total_iters\":4}",
         {0.05, 0.05625, 0.0625, 0.06875, 0.075, 0.075, 0.075, 0.075}},
        {"{\"type\":\"step\",\"step_size\":2,\"gamma\":0.5,\"warmup_steps\":3}",
         {0.025, 0.05, 0.075, 0.1, 0.1, 0.05, 0.05, 0.025}},
        {"\"constant\"", {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rate_schedule schedule;
        cJSON *train = cJSON_CreateObject();
        cJSON_AddItemToObject(train, "lr_schedule", cJSON_Parse(cases[i].json));
        CU_ASSERT_EQUAL(rate_schedule_read(train, "test", &schedule), RH_OK);
        for (int step = 0; step < 8; step++)
            UNIT_ASSERT_NEAR(rate_schedule_at(&schedule, 0.1, step), cases[i].rates[step], 1e-9);
        cJSON_Delete(train);
    }
}

/* ---- whole trainings ---- */
static const char *const ways[] = {
    "\"devices\":3,\"strategy\":\"data_parallel\"",
    "\"devices\":4,\"strategy\":\"ddp\"",
    "\"devices\":3,\"strategy\":\"model_parallel\"",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"split_size\":5}",
    "\"devices\":3,\"strategy\":{\"type\":\"pipeline\",\"microbatches\":6}",
    "\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":{\"type\":\"pipeline\"}",
    "\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":\"model_parallel\"",
};
static const char single[] = "\"devices\":1,\"strategy\":\"single\"";
static const char mlp[] = "{\"name\":\"mlp\",\"sizes\":[6,8,8,7,5]}";

/* The losses, and the report as JSON (freed by the caller); NULL with the error printed. */
static char *train(const char *model, const char *settings, const char *way, double losses[STEPS])
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    char *report = NULL;
    char *text = text_format(
        "{\"name\":\"scaling\",\"model\":%s,\"data\":{\"batch\":24,\"seed\":7},\"train\":{\"loss\":"
        "\"%s\",\"steps\":%d,%s},\"cluster\":\"dgx-1v\",\"backend\":\"reference\",%s}",
        model, model == mlp ? "cross_entropy" : "mse", STEPS, settings, way);
    if (rh_experiment_open(text, &experiment) == RH_OK &&
        rh_experiment_run(experiment, RH_NUMBERS, &result) == RH_OK) {
        for (int i = 0; i < STEPS; i++)
            losses[i] = rh_result_loss(result, i);
        report = rh_result_json(result);
    } else {
        fprintf(stderr, "    %s %s: %s\n", settings, way, rh_error());
    }
    rh_result_free(result);
    rh_experiment_close(experiment);
    free(text);
    return report;
}

#define SGD "\"optimizer\":{\"type\":\"sgd\",\"lr\":0.1,\"momentum\":0.9}"

static double figure(const char *report, const char *key)
{
    cJSON *json = cJSON_Parse(report);
    double value = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, key));
    cJSON_Delete(json);
    return value;
}

static void clipped_like_single(void)
{
    static const char *const settings[] = {
        SGD ",\"clip_grad_norm\":0.2",
        SGD ",\"clip_grad_norm\":0.2,\"loss_scale\":1024,\"accumulate\":2",
        "\"optimizer\":\"adamw\",\"clip_grad_norm\":0.1,\"loss_scale\":{\"interval\":2}",
    };
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        double expected[STEPS], losses[STEPS];
        char *report = train(mlp, settings[s], single, expected);
        CU_ASSERT_PTR_NOT_NULL_FATAL(report);
        double norm = figure(report, "gradient_norm"), scale = figure(report, "loss_scale");
        free(report);
        CU_ASSERT_TRUE(norm > 0.2); /* clipping had something to do */
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            report = train(mlp, settings[s], ways[w], losses);
            CU_ASSERT_PTR_NOT_NULL(report);
            for (int k = 0; report && k < STEPS; k++)
                UNIT_ASSERT_NEAR(losses[k], expected[k], 1e-5);
            UNIT_ASSERT_NEAR(figure(report, "gradient_norm"), norm, 1e-4);
            CU_ASSERT_TRUE(s == 0 || figure(report, "loss_scale") == scale);
            free(report);
        }
    }
}

/* A scale that is a power of two changes no bit in fp32; one that only ever overflows trains like a
 * learning rate of 0. */
static void scale_alone(void)
{
    double plain[STEPS], losses[STEPS];
    for (int w = -1; w < (int)(sizeof ways / sizeof *ways); w++) {
        const char *way = w < 0 ? single : ways[w];
        free(train(mlp, SGD, way, plain));
        char *report = train(mlp, SGD ",\"loss_scale\":\"dynamic\"", way, losses);
        for (int k = 0; k < STEPS; k++)
            CU_ASSERT_EQUAL(losses[k], plain[k]);
        CU_ASSERT_EQUAL(figure(report, "skipped_steps"), 0);
        CU_ASSERT_EQUAL(figure(report, "loss_scale"), 65536);
        free(report);
        free(train(mlp, "\"optimizer\":{\"type\":\"sgd\",\"lr\":0}", way, plain));
        report = train(mlp,
                       SGD ",\"precision\":\"fp16\",\"loss_scale\":{\"initial\":1e30,\"backoff\":"
                           "0.5}",
                       way, losses);
        for (int k = 0; k < STEPS; k++)
            UNIT_ASSERT_NEAR(losses[k], plain[k], 2e-3);
        CU_ASSERT_EQUAL(figure(report, "skipped_steps"), STEPS);
        UNIT_ASSERT_NEAR(figure(report, "loss_scale"), 1e30 / 32, 1e-6);
        free(report);
    }
}

/* Host, GPUs and a device without parameters: all heed the same scaler. */
static void with_a_host(void)
{
    static const char settings[] = SGD ",\"clip_grad_norm\":0.05,\"loss_scale\":\"dynamic\"";
    static const char way[] = "\"devices\":1,\"strategy\":{\"type\":\"model_parallel\","
                              "\"placement\":{\"embedding\":\"host\",\"linear\":0}}";
    double expected[STEPS], losses[STEPS];
    char *one = train("\"embedding-linear\"", settings, single, expected);
    char *two = train("\"embedding-linear\"", settings, way, losses);
    CU_ASSERT_PTR_NOT_NULL_FATAL(one);
    CU_ASSERT_PTR_NOT_NULL_FATAL(two);
    for (int k = 0; k < STEPS; k++)
        UNIT_ASSERT_NEAR(losses[k], expected[k], 1e-5);
    CU_ASSERT_TRUE(expected[0] != expected[STEPS - 1]);
    free(one);
    free(two);
}

static void refused(void)
{
    static const struct {
        const char *settings, *message;
    } cases[] = {
        {"\"clip_grad_norm\":0", "clip_grad_norm"},
        {"\"clip_grad_norm\":-1", "-1"},
        {"\"loss_scale\":\"dynamc\"", "did you mean 'dynamic'"},
        {"\"loss_scale\":0", "loss_scale"},
        {"\"loss_scale\":{\"growth\":0.5}", "growth"},
        {"\"lr_schedule\":\"cosine\"", "wants 't_max'"},
        {"\"lr_schedule\":\"cosin\"", "did you mean 'cosine'"},
        {"\"lr_schedule\":{\"type\":\"multi_step\",\"milestones\":[4,4]}",
         "number 1 is not a step after 4"},
        {"\"lr_schedule\":{\"type\":\"step\",\"step_size\":2,\"t_max\":3}", "t_max"},
        {"\"lr_schedule\":7", "must be a name or an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rh_experiment *experiment = NULL;
        struct rh_result *result = NULL;
        char *text =
            text_format("{\"name\":\"x\",\"model\":\"toy\",\"data\":{\"batch\":4},\"train\":"
                        "{\"loss\":\"mse\",%s},\"cluster\":\"dgx-1v\",\"devices\":1,"
                        "\"strategy\":\"single\",\"backend\":\"reference\"}",
                        cases[i].settings);
        CU_ASSERT_TRUE(rh_experiment_open(text, &experiment) == RH_INVALID ||
                       rh_experiment_run(experiment, RH_NUMBERS, &result) == RH_INVALID);
        UNIT_ASSERT_CONTAINS(rh_error(), cases[i].message);
        rh_experiment_close(experiment);
        free(text);
    }
}

static const struct unit_test tests[] = {
    {"clipping by the global norm", clipping, NULL},
    {"the scale grows and shrinks", scale_changes, NULL},
    {"inf and NaN are counted", bad_gradients_are_counted, NULL},
    {"optimizers heed multiplier and skip", optimizers_heed, NULL},
    {"schedules of the learning rate", schedules, NULL},
    {"clipped in every strategy like one device", clipped_like_single, NULL},
    {"a scale alone changes nothing, or skips all", scale_alone, NULL},
    {"an embedding on the host", with_a_host, NULL},
    {"settings that are refused", refused, NULL},
};

int main(void)
{
    return UNIT_MAIN("scaling", tests);
}
