/* D19 … D66: what DDP does step by step. */
#include "base/json.h"
#include "cases/training.h"

#include <unistd.h>

static const char *const two = "\"devices\":2,\"strategy\":\"ddp\"";
static const char *const summed = "{\"type\":\"mse\",\"reduction\":\"sum\"}";

NOT_YET(D19, "find_unused: buckets in registration order, never rebuilt", "find_unused_parameters")
NOT_YET(D20, "a bucket that is ready early waits for those before it",
        "buckets whose order is not that of the gradients")

/* Ranks have 1 and 2, then 3 and 4; the targets make each gradient its x. */
static struct case_training two_passes(void)
{
    static const float x[] = {1, 2, 3, 4};
    static const float targets[] = {0.5f, 1.5f, 2.5f, 3.5f};
    return (struct case_training){.rest = two,
                                  .loss = summed,
                                  .train = ",\"accumulate\":2",
                                  .rows = 4,
                                  .batch = 2,
                                  .inputs = x,
                                  .targets = targets,
                                  .w = 1};
}

CASE(D22, "accumulation: the first pass stays local, then one all-reduce; gradient 5 on both ranks")
{
    struct case_training t = two_passes();
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(plan_count(plan, "accumulate_first", INSTRUCTION_COLLECT, "bucket") == 0);
    CHECK(plan_count(plan, "steady", INSTRUCTION_COLLECT, "bucket") == 1);
    struct live *live = live_open(&t);
    live_run(live);
    CHECK_NEAR(live_read(live, 0, USE_GRADIENT, 0, 0), 5, 1e-6);
    CHECK_NEAR(live_read(live, 1, USE_GRADIENT, 0, 0), 5, 1e-6);
}

DOES_NOT_APPLY(D23, "both passes synchronised: two all-reduces",
               "accumulation always reduces once, in its last pass")
DOES_NOT_APPLY(D24, "forward outside of no_sync, backward inside: synchronised",
               "there is no no_sync to stand outside of: a list is a whole pass")
DOES_NOT_APPLY(D25, "forward inside, backward outside: local",
               "there is no no_sync to stand outside of: a list is a whole pass")
DIFFERS(D26, "backward twice on one output: the second gradient stays local and ranks diverge",
        "cannot be said: a list has one backward for each forward")
DOES_NOT_APPLY(D26, "backward twice on one output", "a list has one backward for each forward")
DOES_NOT_APPLY(D27, "the inner module called directly: local gradients",
               "there is no module to call, only experiments")
DOES_NOT_APPLY(D28, "two outputs, two backward calls", "a model has one output")
DOES_NOT_APPLY(D29, "forwards without backward, then a normal step",
               "a list has one backward for each forward")

DIFFERS(D30,
        "a parameter that the loss does not use: gradients stay local, and the next forward fails",
        "refused with the model, before anything runs")
CASE(D30, "a parameter that the loss does not use")
{
    struct case_training t = {
        .model = "{\"name\":\"m\",\"input\":[1],\"layers\":[{\"name\":\"u\",\"op\":\"linear\","
                 "\"out\":1},{\"name\":\"w\",\"op\":\"linear\",\"input\":\"input\",\"out\":1}]}",
        .rest = two,
        .rows = 2,
        .inputs = VALUES(1, 2)};
    CHECK_NOT_TRAINED(&t, "no layer reads 'u'");
}

NOT_YET(D31, "detection on: ranks that use different parameters", "find_unused_parameters")
NOT_YET(D32, "the same with a static graph", "static_graph")
NOT_YET(D33, "detection on and a layer used outside forward: marked ready twice",
        "find_unused_parameters")
NOT_YET(D34, "a static graph whose use changes", "static_graph")
NOT_YET(D35, "a shared parameter: one gradient, one hook", "layers that share parameters")
NOT_YET(D36, "a frozen parameter: broadcast at the start, never reduced", "frozen parameters")
DOES_NOT_APPLY(D37, "a parameter replaced after wrapping is not reduced",
               "nothing can be replaced in a plan")

CASE(D38, "fp16, gradients of 32768 on both ranks: 32768, not infinite")
{
    /* w = 0.25, x = 256: y = 64, gradient 2 * 64 * 256 */
    struct case_training t = {.rest = two,
                              .loss = summed,
                              .train = ",\"precision\":\"fp16\",\"loss_scale\":1",
                              .rows = 2,
                              .inputs = VALUES(256, 256),
                              .w = 0.25f};
    struct live *live = live_open(&t);
    live_run(live);
    CHECK(live_read(live, 0, USE_GRADIENT, 0, 0) == 32768);
    CHECK(live_read(live, 1, USE_GRADIENT, 0, 0) == 32768);
}

NOT_YET(D41, "a hook registered twice; something that is no function", "communication hooks")
NOT_YET(D42, "PowerSGD of rank 1 keeps its error", "communication hooks")
NOT_YET(D43, "PowerSGD: which gradients are compressed", "communication hooks")
NOT_YET(D44, "PowerSGD: start_iter 1 with error feedback is refused", "communication hooks")

/* Batch norm over [1, 2] on rank 0 and [3, 4] on rank 1; running means of both after the steps. */
static void running_means(int steps, const char *ddp, double first, double second)
{
    static const float one[] = {1};
    static const float zero[] = {0};
    char rest[128];
    snprintf(rest, sizeof rest, "\"devices\":2,\"strategy\":{\"type\":\"ddp\",\"ddp\":{%s}}", ddp);
    struct case_training t = {
        .model = "{\"name\":\"bn\",\"input\":[1,1,1],\"layers\":[{\"name\":\"bn\",\"op\":"
                 "\"batch_norm2d\"},{\"name\":\"f\",\"op\":\"flatten\"}]}",
        .rest = rest,
        .init = {{"bn.weight", 1, {1}, one},
                 {"bn.bias", 1, {1}, zero},
                 {"bn.running_mean", 1, {1}, zero},
                 {"bn.running_var", 1, {1}, one}},
        .steps = steps,
        .rows = 4,
        .pictures = true,
        .inputs = VALUES(1, 2, 3, 4)};
    struct live *live = live_open(&t);
    live_run(live);
    CHECK_NEAR(live_read(live, 0, USE_STATE, 0, 0), first, 1e-6);
    CHECK_NEAR(live_read(live, 1, USE_STATE, 0, 0), second, 1e-6);
}

CASE(D45,
     "batch norm: means 0.15 and 0.35, then rank 0's for both before the next: 0.285 and 0.485")
{
    running_means(1, "", 0.15, 0.35);
    running_means(2, "", 0.285, 0.485);
}

NOT_YET(D46, "evaluation after training: buffers are broadcast at the first forward alone",
        "evaluation")

CASE(D47, "broadcast_buffers off: the ranks' means stay apart")
{
    running_means(1, "\"broadcast_buffers\":false", 0.15, 0.35);
    running_means(2, "\"broadcast_buffers\":false", 0.285, 0.665);
}

DOES_NOT_APPLY(D48, "two forwards before a backward: a buffer changed in place",
               "a list has one backward for each forward")
NOT_YET(D49, "join: the rank without data counts in the divisor, or not", "join")
NOT_YET(D50, "join, 3 and 5 steps", "join")
NOT_YET(D51, "join that throws: both stop after the same step", "join")
NOT_YET(D52, "after join all have the parameters of the last finisher", "join")
NOT_YET(D53, "join, a rank without any input", "join")
DIFFERS(D55,
        "what is left of an epoch is padded from its start: ranks get [0, 4, 8] [1, 5, 9] [2, 6, "
        "0] [3, 7, 1]",
        "what is left after the last full step is dropped, as with drop_last")
NOT_YET(D55, "10 samples, 4 ranks: padded from the start", "a sampler that pads")
/* Ten pictures of one pixel, 0 to 9, and labels 0, as IDX files. */
static void write_idx(const char *images, const char *labels)
{
    static const unsigned char heads[2][16] = {{0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 1, 0, 0, 0, 1},
                                               {0, 0, 8, 1, 0, 0, 0, 10}};
    const char *const paths[2] = {images, labels};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(paths[i], "wb");
        case_require(file != NULL, "a file of samples", __FILE__, __LINE__);
        fwrite(heads[i], 1, i ? 8 : 16, file);
        for (int n = 0; n < 10; n++)
            fputc(i ? 0 : n, file);
        fclose(file);
    }
}

/* The last sample that each of 4 ranks was dealt, after so many steps of 4. */
static void check_dealt(int steps, const int expected[4])
{
    char folder[] = "/tmp/rehearse-case-XXXXXX";
    char images[64];
    char labels[64];
    char source[256];
    static const float weights[2] = {1, 2};
    case_require(mkdtemp(folder) != NULL, "a scratch folder", __FILE__, __LINE__);
    snprintf(images, sizeof images, "%s/images", folder);
    snprintf(labels, sizeof labels, "%s/labels", folder);
    write_idx(images, labels);
    snprintf(source, sizeof source,
             "{\"kind\":\"idx\",\"images\":\"%s\",\"labels\":\"%s\",\"shuffle\":false}", images,
             labels);
    struct case_training t = {
        .model =
            "{\"name\":\"m\",\"input\":[1,1,1],\"layers\":[{\"name\":\"f\",\"op\":\"flatten\"},"
            "{\"name\":\"w\",\"op\":\"linear\",\"out\":2,\"bias\":false}]}",
        .rest = "\"devices\":4,\"strategy\":\"ddp\"",
        .loss = "\"cross_entropy\"",
        .init = {{"w.weight", 2, {2, 1}, weights}},
        .steps = steps,
        .rows = 4,
        .source = source};
    struct live *live = live_open(&t);
    live_run(live);
    unlink(images);
    unlink(labels);
    rmdir(folder);
    for (int rank = 0; rank < 4; rank++)
        CHECK_NEAR(255 * live_read(live, rank, USE_INPUT, -1, 0), expected[rank], 1e-6);
}

CASE(D56, "10 samples, 4 ranks, drop_last: ranks take turns, 0 and 4, 1 and 5, 2 and 6, 3 and 7")
{
    check_dealt(1, (const int[]){0, 1, 2, 3});
    check_dealt(2, (const int[]){4, 5, 6, 7});
    check_dealt(3, (const int[]){0, 1, 2, 3}); /* 8 and 9 are dropped */
}
NOT_YET(D57, "2 samples, 5 ranks", "a sampler that pads")
DOES_NOT_APPLY(D58, "ranks with other parameters, sizes or strides",
               "all ranks have one plan, made from one experiment")
DOES_NOT_APPLY(D59, "device ids that do not fit the module",
               "the experiment lists the devices, and the strategy places the layers")
DOES_NOT_APPLY(D60, "a parameter of size (0, 10) is accepted", "a layer has at least one output")

CASE(D62, "parameters that lie in another order in memory: the right average")
{
    static const char *const formats[] = {",\"memory_format\":\"contiguous\"",
                                          ",\"memory_format\":\"channels_last\""};
    const struct trained *trained[2];
    float inputs[4 * 8];
    float weight[2 * 2 * 9];
    for (int i = 0; i < 32; i++)
        inputs[i] = sinf((float)i);
    for (int i = 0; i < 36; i++)
        weight[i] = cosf((float)i);
    for (int f = 0; f < 2; f++) {
        struct case_training t = {
            .model = "{\"name\":\"c\",\"input\":[8,1,1],\"layers\":[{\"name\":\"c\",\"op\":"
                     "\"conv2d\",\"out\":4,\"kernel\":1,\"bias\":false},{\"name\":\"f\",\"op\":"
                     "\"flatten\"}]}",
            .rest = two,
            .train = formats[f],
            .init = {{"c.weight", 4, {4, 8, 1, 1}, weight}},
            .rows = 4,
            .columns = 8,
            .target_columns = 4,
            .pictures = true,
            .inputs = inputs};
        trained[f] = case_trained(&t);
    }
    for (int i = 0; i < 32; i++) {
        CHECK(trained_value(trained[0], "c.weight", i) == trained_value(trained[1], "c.weight", i));
        CHECK(trained_value(trained[0], "c.weight", i) != weight[i]);
    }
}

CASE(D63, "after 100 steps the ranks' parameters are equal, bit by bit")
{
    static const int elements[] = {6 * 5, 5, 5 * 3, 3};
    float inputs[4 * 6];
    float targets[4 * 3];
    float weights[30];
    for (int i = 0; i < 24; i++)
        inputs[i] = sinf(3.1f * (float)i);
    for (int i = 0; i < 12; i++)
        targets[i] = cosf(1.7f * (float)i);
    for (int i = 0; i < 30; i++)
        weights[i] = sinf((float)i);
    struct case_training t = {
        .model = "{\"name\":\"m\",\"input\":[6],\"layers\":[{\"name\":\"a\",\"op\":\"linear\","
                 "\"out\":5},{\"name\":\"r\",\"op\":\"relu\"},{\"name\":\"b\",\"op\":\"linear\","
                 "\"out\":3}]}",
        .rest = "\"devices\":4,\"strategy\":\"ddp\"",
        .optimizer = "{\"type\":\"sgd\",\"lr\":0.05,\"momentum\":0.9}",
        .init = {{"a.weight", 2, {5, 6}, weights},
                 {"a.bias", 1, {5}, weights},
                 {"b.weight", 2, {3, 5}, weights},
                 {"b.bias", 1, {3}, weights}},
        .steps = 100,
        .rows = 4,
        .columns = 6,
        .target_columns = 3,
        .inputs = inputs,
        .targets = targets};
    struct live *live = live_open(&t);
    int changed = 0;
    live_run(live);
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < elements[p]; i++) {
            double first = live_read(live, 0, USE_PARAMETER, p, i);
            CHECK(isfinite(first));
            changed += first != weights[i];
            for (int rank = 1; rank < 4; rank++)
                CHECK(live_read(live, rank, USE_PARAMETER, p, i) == first);
        }
    CHECK(changed > 20);
}

CASE(D64, "4 ranks in a ring, ResNet-50: each sends 153,342,192 bytes a step")
{
    struct platform *platform = NULL;
    struct experiment *experiment = NULL;
    struct outcome outcome;
    struct run_options options = {0};
    cJSON *json = NULL;
    if (!case_has_times())
        case_skip("needs the simulator");
    CHECK_OK(json_read_text("case",
                            "{\"model\":\"resnet50\",\"data\":{\"batch\":8,\"resident\":true},"
                            "\"cluster\":\"dgx-1v-32gb\",\"devices\":4,\"strategy\":{\"type\":"
                            "\"ddp\",\"ddp\":{\"broadcast_buffers\":false}}}",
                            &json));
    CHECK_OK(platform_open(&platform));
    CHECK_OK(experiment_open(platform, json, &experiment));
    CHECK_OK(experiment_run(experiment, &options, &outcome));
    double bytes = 0;
    for (int i = 0; i < LINK_CLASS_COUNT; i++)
        bytes += outcome.result.link_class_bytes[i];
    CHECK_NEAR(bytes / 4, 153342192, 1e-9);
    outcome_free(&outcome);
    experiment_close(experiment);
    platform_close(platform);
}

NOT_YET(D65, "ranks that count 1 and 3 tokens: average of means, or corrected", "ignored targets")

CASE(D66, "a GPU shared by two ranks is refused")
{
    struct case_training t = {.rest = "\"devices\":[\"0:3\",\"0:3\"],\"strategy\":\"ddp\"",
                              .rows = 2,
                              .inputs = VALUES(1, 2)};
    CHECK_NOT_TRAINED(&t, "device '0:3' is listed twice");
}

/* The average of the gradients g0 and g1 of two ranks under a hook: w = 0, x = 1, targets -g / 2.
 */
static double hooked(const char *hook, float g0, float g1)
{
    const float x[] = {1, 1};
    const float targets[] = {-g0 / 2, -g1 / 2};
    char rest[128];
    snprintf(rest, sizeof rest,
             "\"devices\":2,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"comm_hook\":\"%s\"}}", hook);
    struct case_training t = {
        .rest = rest, .loss = summed, .rows = 2, .inputs = x, .targets = targets};
    struct live *live = live_open(&t);
    live_run(live);
    double average = live_read(live, 0, USE_GRADIENT, 0, 0);
    CHECK(live_read(live, 1, USE_GRADIENT, 0, 0) == average);
    return average;
}

CASE(D9, "the all-reduce hook: the same as without")
{
    CHECK(hooked("allreduce", 1, 2) == 1.5);
}

CASE(D39, "the fp16 hook: rounded to halves, infinite above 65504, 0 for what is too small")
{
    CHECK(hooked("fp16_compress", 0.1f, 0.1f) == 0.0999755859375);
    CHECK(hooked("fp16_compress", 0.1f, 0.3f) == 0.199951171875);
    CHECK(isinf(hooked("fp16_compress", 70000, 0)));
    CHECK(hooked("fp16_compress", 4e-8f, 4e-8f) == 0);
}

CASE(D40, "the bf16 hook, 0.1 and 0.1: 0.10009765625")
{
    CHECK(hooked("bf16_compress", 0.1f, 0.1f) == 0.10009765625);
}

static double gradient_bytes(const struct strategy_plan *plan)
{
    const struct role *role = &plan->plan->roles[0];
    double bytes = 0;
    for (int b = 0; b < role->buffer_count; b++)
        if (role->buffers[b].purpose == PURPOSE_GRADIENTS ||
            (role->buffers[b].purpose == PURPOSE_COMMUNICATION && role->buffers[b].list == 0))
            bytes += (double)role->buffers[b].bytes;
    return bytes;
}

CASE(D61, "gradients that lie in their bucket: the values of D2, P bytes less")
{
    static const float x[] = {1, 2};
    static const float targets[] = {0.5f, 1.5f};
    struct case_training t = {
        .rest = two, .loss = summed, .rows = 2, .inputs = x, .targets = targets, .w = 1};
    double before = gradient_bytes(case_plan(&t));
    t.rest =
        "\"devices\":2,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"gradient_as_bucket_view\":true}}";
    CHECK(before - gradient_bytes(case_plan(&t)) == 4);
    CHECK(trained_w(case_trained(&t)) == 1 - 1.5);
}
