/* Every strategy trains like one device: the same losses (1e-6 relative in fp32, models without
 * batch norm), the same parameters in the end; numbers by the reference backend. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rehearse.h"
#include "strategy/bucket_assign.h"

static const char conv_model[] =
    "{\"name\":\"conv\",\"input\":[2,8,8],\"layers\":["
    "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"r1\",\"op\":\"relu\"},"
    "{\"name\":\"c2\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"c2\",\"r1\"]},"
    "{\"name\":\"r2\",\"op\":\"relu\"},"
    "{\"name\":\"p\",\"op\":\"max_pool2d\",\"kernel\":2},"
    "{\"name\":\"f\",\"op\":\"flatten\"},"
    "{\"name\":\"fc\",\"op\":\"linear\",\"out\":5}]}";

static const char norm_model[] =
    "{\"name\":\"norm\",\"input\":[2,8,8],\"layers\":["
    "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n1\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"r1\",\"op\":\"relu\"},"
    "{\"name\":\"c2\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n2\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"n2\",\"r1\"]},"
    "{\"name\":\"r2\",\"op\":\"relu\"},"
    "{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1},"
    "{\"name\":\"f\",\"op\":\"flatten\"},"
    "{\"name\":\"fc\",\"op\":\"linear\",\"out\":5}]}";

struct subject {
    const char *name, *model, *loss;
    int64_t batch;
};

static const struct subject subjects[] = {
    {"toy", "\"toy\"", "mse", 24},
    {"mlp", "{\"name\":\"mlp\",\"sizes\":[6,8,8,7,5]}", "cross_entropy", 24},
    {"embedding", "\"embedding-linear\"", "mse", 24},
    {"residual conv", conv_model, "cross_entropy", 24},
};

enum { STEPS = 5 };

/* Losses of one experiment; false (with the error printed) if it did not run. */
static bool losses_of(const struct subject *s, const char *rest, double losses[STEPS])
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    char *text =
        text_format("{\"name\":\"%s\",\"model\":%s,\"data\":{\"batch\":%lld,\"seed\":7},\"train\":{"
                    "\"loss\":\"%s\","
                    "\"optimizer\":{\"type\":\"sgd\",\"lr\":0.05,\"momentum\":0.9},\"steps\":%d%s,"
                    "\"cluster\":\"dgx-1v\",\"backend\":\"reference\"}",
                    s->name, s->model, (long long)s->batch, s->loss, STEPS, rest);
    bool fine = rh_experiment_open(text, &experiment) == RH_OK &&
                rh_experiment_run(experiment, RH_NUMBERS, &result) == RH_OK;
    if (!fine)
        fprintf(stderr, "    %s %s: %s\n", s->name, rest, rh_error());
    for (int i = 0; fine && i < STEPS; i++)
        losses[i] = rh_result_loss(result, i);
    rh_result_free(result);
    rh_experiment_close(experiment);
    free(text);
    return fine;
}

static void one_like_single(const struct subject *subject, const char *rest)
{
    double expected[STEPS];
    double losses[STEPS];
    CU_ASSERT_TRUE_FATAL(losses_of(subject, "},\"devices\":1,\"strategy\":\"single\"", expected));
    bool ran = losses_of(subject, rest, losses);
    CU_ASSERT_TRUE(ran);
    CU_ASSERT_TRUE(expected[STEPS - 1] != expected[0]);
    for (int k = 0; ran && k < STEPS; k++)
        UNIT_ASSERT_NEAR(losses[k], expected[k], 1e-6);
}

static void like_single(const char *rest)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        one_like_single(&subjects[i], rest);
}

static void data_parallel(void)
{
    like_single("},\"devices\":1,\"strategy\":\"data_parallel\"");
    like_single("},\"devices\":2,\"strategy\":\"data_parallel\"");
    like_single("},\"devices\":5,\"strategy\":\"data_parallel\""); /* 5, 5, 5, 5, 4 rows */
    like_single("},\"devices\":7,\"strategy\":\"data_parallel\""); /* 4 rows each: one idle */
}

static void ddp(void)
{
    like_single("},\"devices\":1,\"strategy\":\"ddp\"");
    like_single("},\"devices\":2,\"strategy\":\"ddp\"");
    like_single("},\"devices\":8,\"strategy\":\"ddp\"");
    like_single(
        "},\"devices\":4,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"bucket_cap_mb\":0.0001}}");
}

/* Where the elements lie does not change a bit; pictures, weights, buckets and replicas move. */
static void channels_last(void)
{
    static const char *const ways[] = {
        "},\"devices\":1,\"strategy\":\"single\"",
        "},\"devices\":5,\"strategy\":\"data_parallel\"",
        "},\"devices\":4,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"bucket_cap_mb\":0.0001}}",
        "},\"devices\":2,\"strategy\":\"model_parallel\"",
        "},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"1f1b\"}",
        ",\"precision\":\"bf16\"},\"devices\":2,\"strategy\":\"ddp\"",
    };
    const struct subject *subject = &subjects[3];
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        double rows[STEPS];
        double losses[STEPS];
        char *rest = text_format(",\"memory_format\":\"channels_last\"%s", ways[w]);
        CU_ASSERT_TRUE_FATAL(losses_of(subject, ways[w], rows));
        bool ran = losses_of(subject, rest, losses);
        CU_ASSERT_TRUE(ran);
        for (int k = 0; ran && k < STEPS; k++)
            CU_ASSERT_EQUAL(losses[k], rows[k]);
        free(rest);
    }
}

/* K passes over the same number of samples each are one step over K times as many. */
static void accumulation(void)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        static const char *const ways[] = {
            ",\"accumulate\":3},\"devices\":1,\"strategy\":\"single\"",
            ",\"accumulate\":3},\"devices\":2,\"strategy\":\"ddp\"",
            ",\"accumulate\":3},\"devices\":3,\"strategy\":\"data_parallel\"",
            ",\"accumulate\":3},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"microbatches\":"
            "2}",
            ",\"accumulate\":3},\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},"
            "\"strategy\":{\"type\":\"pipeline\",\"microbatches\":2}",
        };
        struct subject third = subjects[i];
        double expected[STEPS];
        double losses[STEPS];
        third.batch = subjects[i].batch / 3;
        CU_ASSERT_TRUE_FATAL(
            losses_of(&subjects[i], "},\"devices\":1,\"strategy\":\"single\"", expected));
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            bool ran = losses_of(&third, ways[w], losses);
            CU_ASSERT_TRUE(ran);
            for (int k = 0; ran && k < STEPS; k++)
                UNIT_ASSERT_NEAR(losses[k], expected[k], 1e-6);
        }
    }
}

static void model_parallel(void)
{
    like_single("},\"devices\":2,\"strategy\":\"model_parallel\"");
    like_single("},\"devices\":2,\"mesh\":{\"dp\":2},\"strategy\":\"model_parallel\"");
    like_single("},\"devices\":4,\"mesh\":{\"dp\":2},\"strategy\":\"model_parallel\"");
}

static void embedding_on_the_host(void)
{
    double expected[STEPS];
    double losses[STEPS];
    CU_ASSERT_TRUE_FATAL(
        losses_of(&subjects[2], "},\"devices\":1,\"strategy\":\"single\"", expected));
    CU_ASSERT_TRUE_FATAL(losses_of(&subjects[2],
                                   "},\"devices\":1,\"strategy\":{\"type\":\"model_parallel\","
                                   "\"placement\":{\"embedding\":\"host\",\"linear\":0}}",
                                   losses));
    for (int k = 0; k < STEPS; k++)
        UNIT_ASSERT_NEAR(losses[k], expected[k], 1e-6);
}

static void pipeline_by_hand(void)
{
    like_single("},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"split_size\":24}");
    like_single(
        "},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"split_size\":7}"); /* 7 7 7 3 */
    like_single("},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"split_size\":1}");
}

static void pipeline_by_schedule(void)
{
    like_single("},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"gpipe\","
                "\"microbatches\":1}");
    like_single("},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"gpipe\","
                "\"microbatches\":8}");
    like_single("},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"1f1b\","
                "\"microbatches\":2}");
    like_single("},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"1f1b\","
                "\"microbatches\":12}");
}

/* Warm-ups of different lengths, stages that both receive and send. The toy has 3 layers. */
static void pipelines_of_more_stages(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    static const int microbatches[] = {4, 6, 8};
    for (size_t i = 1; i < sizeof subjects / sizeof *subjects; i++) {
        int most = i == 2 ? 2 : 4; /* embedding-linear has 2 layers */
        for (int stages = 2; stages <= most; stages++)
            for (int s = 0; s < 2; s++)
                for (int m = 0; m < 3; m++) {
                    char *rest = text_format("},\"devices\":%d,\"strategy\":{\"type\":\"pipeline\","
                                             "\"schedule\":\"%s\",\"microbatches\":%d}",
                                             stages, schedules[s], microbatches[m]);
                    one_like_single(&subjects[i], rest);
                    free(rest);
                }
    }
}

/* Statistics are those of the rows that one device sees: whole batches give the same, wherever the
 * layers lie; shares of a batch do not (torch-semantics.md, batch norm). */
static void batch_norm(void)
{
    static const struct subject norm = {"norm", norm_model, "cross_entropy", 24};
    static const char *const whole[] = {
        "},\"devices\":1,\"strategy\":\"data_parallel\"",
        "},\"devices\":1,\"strategy\":\"ddp\"",
        "},\"devices\":2,\"strategy\":\"model_parallel\"",
        "},\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"split_size\":24}",
    };
    double expected[STEPS];
    double replicas[STEPS];
    double ranks[STEPS];
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        one_like_single(&norm, whole[i]);
    CU_ASSERT_TRUE_FATAL(losses_of(&norm, "},\"devices\":1,\"strategy\":\"single\"", expected));
    CU_ASSERT_TRUE_FATAL(
        losses_of(&norm, "},\"devices\":4,\"strategy\":\"data_parallel\"", replicas));
    CU_ASSERT_TRUE_FATAL(losses_of(&norm, "},\"devices\":4,\"strategy\":\"ddp\"", ranks));
    CU_ASSERT_TRUE(ranks[0] != expected[0]);
    for (int k = 0; k < STEPS; k++)
        UNIT_ASSERT_NEAR(ranks[k], replicas[k], 1e-6); /* the same shares of the same batch */
}

static void ddp_over_pipelines(void)
{
    like_single("},\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":{\"type\":\"pipeline\","
                "\"microbatches\":3}");
    like_single("},\"devices\":8,\"mesh\":{\"dp\":4,\"pp\":2},\"strategy\":{\"type\":\"pipeline\","
                "\"schedule\":\"gpipe\",\"microbatches\":2,\"ddp\":{\"bucket_cap_mb\":0.0001}}");
}

/* torch-semantics.md 12.8, D11 to D14 (bucket of each tensor, in closing order). */
static void bucket_assignment(void)
{
    int got[8];
    const struct bucket_item d11[] = {{400, 0}, {800, 0}, {400, 0}, {200, 0}};
    const int64_t l400[] = {400};
    CU_ASSERT_EQUAL(bucket_assign(d11, 4, l400, 1, got), 4);
    CU_ASSERT_TRUE(got[0] == 0 && got[1] == 1 && got[2] == 2 && got[3] == 3);
    const struct bucket_item d12[] = {{200, 0}, {200, 1}, {200, 0}, {200, 1}, {200, 0}, {200, 1}};
    CU_ASSERT_EQUAL(bucket_assign(d12, 6, l400, 1, got), 4);
    CU_ASSERT_TRUE(got[0] == got[2] && got[1] == got[3] && got[4] == 2 && got[5] == 3);
    const struct bucket_item d13[] = {{40, 0}, {40, 0}, {40, 0}, {40, 0}};
    const int64_t l40_80[] = {40, 80};
    CU_ASSERT_EQUAL(bucket_assign(d13, 4, l40_80, 2, got), 3);
    CU_ASSERT_TRUE(got[0] == 0 && got[1] == 1 && got[2] == 1 && got[3] == 2);
    const int64_t l200_400[] = {200, 400};
    CU_ASSERT_EQUAL(bucket_assign(d12, 6, l200_400, 2, got), 4);
    CU_ASSERT_TRUE(got[0] == 0 && got[1] == 1 && got[2] == got[4] && got[3] == got[5]);
}

static void refuses(const char *rest, const char *part, const char *other)
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    char *text = text_format("{\"name\":\"bad\",\"model\":\"toy\",\"data\":{\"batch\":10},"
                             "\"train\":{\"loss\":\"mse\",\"steps\":2},\"cluster\":\"dgx-1v\","
                             "\"backend\":\"reference\",%s}",
                             rest);
    CU_ASSERT_EQUAL(rh_experiment_open(text, &experiment), RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_run(experiment, RH_NUMBERS, &result), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), part);
    UNIT_ASSERT_CONTAINS(rh_error(), other);
    rh_result_free(result);
    rh_experiment_close(experiment);
    free(text);
}

static void misuse_names_both_numbers(void)
{
    refuses("\"devices\":4,\"strategy\":\"ddp\"", "10", "4");
    refuses("\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"microbatches\":3}", "10", "3");
    refuses("\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"microbatches\":1}", "too few",
            "2 stages");
    refuses("\"devices\":5,\"strategy\":\"pipeline\"", "3 layers", "5 stages");
    refuses("\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"net3\"]}",
            "net3", "no layer");
    refuses(
        "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"split_size\":5,\"microbatches\":2}",
        "split_size", "microbatches");
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"data_parallel", data_parallel, NULL},
        {"ddp", ddp, NULL},
        {"channels last", channels_last, NULL},
        {"accumulation", accumulation, NULL},
        {"model_parallel", model_parallel, NULL},
        {"embedding on the host", embedding_on_the_host, NULL},
        {"pipeline by hand", pipeline_by_hand, NULL},
        {"pipeline by schedule", pipeline_by_schedule, NULL},
        {"pipelines of more stages", pipelines_of_more_stages, NULL},
        {"batch norm", batch_norm, NULL},
        {"DDP over pipelines", ddp_over_pipelines, NULL},
        {"bucket assignment", bucket_assignment, NULL},
        {"misuse names both numbers", misuse_names_both_numbers, NULL},
    };
    return UNIT_MAIN("strategies", tests);
}
