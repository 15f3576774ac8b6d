/* M1 … M12: layers placed by hand. */
#include "cases/training.h"
#include "experiment/place.h"

#include "base/json.h"

static const char *const halves =
    "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"w2\"]}";

/* w1 = 2 on the first GPU, relu, w2 = 3 on the second. */
static struct case_training two_weights(void)
{
    static const float w1[] = {2};
    static const float w2[] = {3};
    static const float x[] = {1};
    return (struct case_training){
        .model = "{\"name\":\"m\",\"input\":[1],\"layers\":[{\"name\":\"w1\",\"op\":\"linear\","
                 "\"out\":1,\"bias\":false},{\"name\":\"r\",\"op\":\"relu\"},{\"name\":\"w2\","
                 "\"op\":\"linear\",\"out\":1,\"bias\":false}]}",
        .rest = halves,
        .init = {{"w1.weight", 2, {1, 1}, w1}, {"w2.weight", 2, {1, 1}, w2}},
        .rows = 1,
        .inputs = x};
}

/* The device of a parameter's gradient. */
static int gradient_device(const struct strategy_plan *plan, int index)
{
    const struct role *role = &plan->plan->roles[0];
    for (int b = 0; b < role->buffer_count; b++)
        if (role->buffers[b].use == USE_GRADIENT && role->buffers[b].index == index)
            return role->buffers[b].device;
    return -1;
}

CASE(M1, "w1 = 2 and w2 = 3 on two GPUs, x = 1: loss 36, gradients 36 and 24, each on its GPU")
{
    struct case_training t = two_weights();
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(gradient_device(plan, 0) == 0 && gradient_device(plan, 1) == 1);
    struct live *live = live_open(&t);
    live_run(live);
    CHECK(live_read(live, 0, USE_LOSSES, -1, 0) == 36);
    CHECK(live_read(live, 0, USE_GRADIENT, 0, 0) == 36);
    CHECK(live_read(live, 0, USE_GRADIENT, 1, 0) == 24);
    t.optimizer = "{\"type\":\"sgd\",\"lr\":0.1}";
    const struct trained *trained = case_trained(&t);
    CHECK_NEAR(trained_value(trained, "w1.weight", 0), -1.6, 1e-6);
    CHECK_NEAR(trained_value(trained, "w2.weight", 0), 0.6, 1e-6);
}

CASE(T7, "y = 3 x on another GPU: the gradient of x comes back to its GPU, 3 times as large")
{
    struct case_training t = two_weights();
    t.loss = "{\"type\":\"mse\",\"reduction\":\"sum\"}";
    t.targets = VALUES(5.5f); /* y = 6: its gradient is 1 */
    struct live *live = live_open(&t);
    live_run(live);
    CHECK(live_read(live, 0, USE_GRADIENT, 0, 0) == 3);
    CHECK(gradient_device(case_plan(&t), 0) == 0);
}

CASE(M2, "toy model, batch 20: 800 bytes to the first GPU, 800 on, 800 back, 400 of labels")
{
    struct case_training t = {
        .model = "\"toy\"",
        .rest = "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"net2\"]}",
        .rows = 20};
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COPY, "input") == 800);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COPY, "relu") == 800);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COPY, "grad relu") == 800);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COPY, "target") == 400);
    CHECK(plan_count(plan, "steady", INSTRUCTION_COPY, "") == 4 + 2); /* and two controls */
}

DOES_NOT_APPLY(M3, "labels left on the host: device mismatch",
               "the strategy brings the labels to the loss")

static int64_t parameters_on(const struct strategy_plan *plan, int device, int *tensors)
{
    const struct role *role = &plan->plan->roles[0];
    int64_t elements = 0;
    for (int b = 0; b < role->buffer_count; b++) {
        const struct buffer *buffer = &role->buffers[b];
        if (buffer->use != USE_PARAMETER || buffer->device != device)
            continue;
        elements += shape_elements(&buffer->type.shape);
        ++*tensors;
    }
    return elements;
}

static struct case_training resnet_halves(const char *model, int64_t rows)
{
    return (struct case_training){
        .model = model,
        .rest =
            "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"layer3\"]}",
        .loss = "\"cross_entropy\"",
        .rows = rows};
}

CASE(M4, "ResNet-50 in halves: 1,444,928 and 24,112,104 parameters in 161 tensors")
{
    struct case_training t = resnet_halves("\"resnet50\"", 2);
    const struct strategy_plan *plan = case_plan(&t);
    int tensors = 0;
    CHECK(parameters_on(plan, 0, &tensors) == 1444928);
    CHECK(parameters_on(plan, 1, &tensors) == 24112104);
    CHECK(tensors == 161);
}

CASE(M5, "what crosses: 62,914,560 bytes for 120 pictures of 128 x 128, 1,605,632 for one of 224")
{
    struct case_training small = resnet_halves("{\"name\":\"resnet50\",\"image\":128}", 120);
    struct case_training large = resnet_halves("\"resnet50\"", 1);
    CHECK(plan_bytes(case_plan(&small), "steady", INSTRUCTION_COPY, "layer2.3.relu3") == 62914560);
    CHECK(plan_bytes(case_plan(&small), "steady", INSTRUCTION_COPY, "sum of grad") == 62914560);
    CHECK(plan_count(case_plan(&small), "steady", INSTRUCTION_COPY, "grad") == 0); /* only once */
    CHECK(plan_bytes(case_plan(&large), "steady", INSTRUCTION_COPY, "layer2.3.relu3") == 1605632);
}

CASE(M6, "embedding on the host, indices 1, 2, 1: gradient rows 2, 1, the others 0")
{
    static const float table[8] = {0};
    static const float identity[4] = {1, 0, 0, 1};
    static const float below[6] = {-0.5f, -0.5f, -0.5f, -0.5f, -0.5f, -0.5f};
    struct case_training t = {
        .model = "{\"name\":\"m\",\"input\":\"index\",\"layers\":[{\"name\":\"e\",\"op\":"
                 "\"embedding\",\"vocabulary\":4,\"width\":2},{\"name\":\"l\",\"op\":\"linear\","
                 "\"out\":2,\"bias\":false}]}",
        .rest = "\"devices\":1,\"strategy\":{\"type\":\"model_parallel\",\"placement\":{\"e\":"
                "\"host\",\"l\":0}}",
        .loss = "{\"type\":\"mse\",\"reduction\":\"sum\"}",
        .init = {{"e.weight", 2, {4, 2}, table}, {"l.weight", 2, {2, 2}, identity}},
        .rows = 3,
        .target_columns = 2,
        .indices = (const int64_t[]){1, 2, 1},
        .targets = below};
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(gradient_device(plan, 0) == 1); /* one GPU: 1 is the host */
    struct live *live = live_open(&t);
    live_run(live);
    for (int i = 0; i < 8; i++)
        CHECK(live_read(live, 0, USE_GRADIENT, 0, i) == (i / 2 == 1 ? 2 : i / 2 == 2 ? 1 : 0));
}

CASE(M7, "embedding(1000, 10) on the host, 16 indices: 640 bytes up, 640 down")
{
    struct case_training t = {
        .model = "\"embedding-linear\"",
        .rest = "\"devices\":1,\"strategy\":{\"type\":\"model_parallel\",\"placement\":{"
                "\"embedding\":\"host\",\"linear\":0}}",
        .rows = 16};
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COPY, "embedding") == 640);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COPY, "grad embedding") == 640);
}

/* a, relu, b, relu, c: three linear layers of 4. */
static struct case_training three_layers(const char *rest)
{
    static float weights[16];
    static float inputs[8 * 4];
    static float targets[8 * 4];
    for (int i = 0; i < 16; i++)
        weights[i] = sinf(1.3f * (float)i + 0.4f);
    for (int i = 0; i < 32; i++) {
        inputs[i] = sinf(2.1f * (float)i);
        targets[i] = cosf(1.1f * (float)i);
    }
    return (struct case_training){
        .model = "{\"name\":\"m\",\"input\":[4],\"layers\":["
                 "{\"name\":\"a\",\"op\":\"linear\",\"out\":4,\"bias\":false},"
                 "{\"name\":\"r\",\"op\":\"relu\"},"
                 "{\"name\":\"b\",\"op\":\"linear\",\"out\":4,\"bias\":false},"
                 "{\"name\":\"s\",\"op\":\"relu\"},"
                 "{\"name\":\"c\",\"op\":\"linear\",\"out\":4,\"bias\":false}]}",
        .rest = rest,
        .optimizer = "{\"type\":\"sgd\",\"lr\":0.1}",
        .init = {{"a.weight", 2, {4, 4}, weights},
                 {"b.weight", 2, {4, 4}, weights},
                 {"c.weight", 2, {4, 4}, weights}},
        .steps = 3,
        .rows = 8,
        .columns = 4,
        .target_columns = 4,
        .inputs = inputs,
        .targets = targets};
}

static void check_same(const struct trained *got, const struct trained *expected)
{
    static const char *const names[] = {"a.weight", "b.weight", "c.weight"};
    for (int step = 0; step < 3; step++)
        CHECK_NEAR(got->losses[step], expected->losses[step], 1e-6);
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < 16; i++)
            CHECK(fabs(trained_value(got, names[n], i) - trained_value(expected, names[n], i)) <
                  1e-6);
}

CASE(M8, "any split gives the numbers of one GPU")
{
    static const char *const names[] = {"r", "b", "s", "c"};
    struct case_training t = three_layers("\"devices\":1,\"strategy\":\"single\"");
    const struct trained *expected = case_trained(&t);
    for (int i = 0; i < 4; i++) {
        char rest[128];
        snprintf(rest, sizeof rest,
                 "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"%s\"]}",
                 names[i]);
        t.rest = rest;
        check_same(case_trained(&t), expected);
    }
    t.rest = "\"devices\":3,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"b\",\"c\"]}";
    check_same(case_trained(&t), expected);
}

CASE(M9, "two equal halves without pipelining: each GPU works less than half of the time")
{
    struct platform *platform = NULL;
    struct experiment *experiment = NULL;
    struct outcome outcome;
    struct run_options options = {0};
    cJSON *json = NULL;
    if (!case_has_times())
        case_skip("needs the simulator");
    CHECK_OK(json_read_text(
        "case",
        "{\"model\":{\"name\":\"mlp\",\"sizes\":[8192,8192,8192,8192,8192]},\"data\":{\"batch\":"
        "4096,"
        "\"resident\":true},\"train\":{\"loss\":\"mse\"},\"cluster\":\"dgx-1v-32gb\",\"devices\":2,"
        "\"launch\":\"graph\",\"strategy\":\"model_parallel\"}",
        &json));
    CHECK_OK(platform_open(&platform));
    CHECK_OK(experiment_open(platform, json, &experiment));
    CHECK_OK(experiment_run(experiment, &options, &outcome));
    for (int i = 0; i < 2; i++) {
        double share = outcome.result.devices[i].busy_seconds / outcome.result.median_step_seconds;
        CHECK(share > 0.4 && share < 0.55);
    }
    CHECK(outcome.result.devices[0].busy_seconds + outcome.result.devices[1].busy_seconds <
          1.06 * outcome.result.median_step_seconds); /* the optimizers overlap */
    outcome_free(&outcome);
    experiment_close(experiment);
    platform_close(platform);
}

CASE(M10, "DDP over two-GPU models: buckets for each GPU, gradients averaged on both")
{
    struct case_training t = three_layers("\"devices\":1,\"strategy\":\"single\"");
    const struct trained *expected = case_trained(&t);
    t.rest = "\"devices\":4,\"mesh\":{\"dp\":2},\"strategy\":{\"type\":\"model_parallel\","
             "\"split_at\":[\"b\"]}";
    check_same(case_trained(&t), expected);
    const struct strategy_plan *plan = case_plan(&t);
    const struct role *role = &plan->plan->roles[0];
    int buckets[3] = {0};
    for (int l = 0; l < role->list_count; l++)
        for (int i = 0; strcmp(role->lists[l].name, "steady") == 0 && i < role->lists[l].count;
             i++) {
            const struct instruction *in = &role->lists[l].instructions[i];
            if (in->kind == INSTRUCTION_COLLECT && strncmp(in->name, "bucket", 6) == 0)
                buckets[role->streams[in->stream].device]++;
        }
    CHECK(buckets[0] == 1 && buckets[1] == 1);
}

CASE(M11, "DataParallel over a model on several GPUs is refused")
{
    struct case_training t =
        three_layers("\"devices\":4,\"mesh\":{\"pp\":2},\"strategy\":\"data_parallel\"");
    CHECK_NOT_TRAINED(&t, "data_parallel is one worker; mesh asks for 2");
}

CASE(M12, "worker r has GPUs 2r and 2r + 1; a GPU given to two workers is refused")
{
    struct platform *platform = NULL;
    struct experiment *experiment = NULL;
    struct strategy_plan plan;
    cJSON *json = NULL;
    CHECK_OK(
        json_read_text("case",
                       "{\"model\":\"toy\",\"data\":{\"batch\":8},\"train\":{\"loss\":\"mse\"},"
                       "\"cluster\":\"dgx-1v-32gb\",\"devices\":8,\"mesh\":{\"dp\":4},"
                       "\"strategy\":\"model_parallel\"}",
                       &json));
    CHECK_OK(platform_open(&platform));
    CHECK_OK(experiment_open(platform, json, &experiment));
    CHECK_OK(experiment_plan(experiment, &plan));
    for (int rank = 0; rank < 4; rank++)
        for (int local = 0; local < 2; local++)
            CHECK(place_worker_device(experiment, plan.plan, rank, local) == 2 * rank + local);
    strategy_plan_free(&plan);
    experiment_close(experiment);
    platform_close(platform);
    struct case_training t = three_layers(
        "\"devices\":[\"0:0\",\"0:1\",\"0:2\",\"0:3\",\"0:0\",\"0:1\",\"0:2\",\"0:3\"],"
        "\"mesh\":{\"dp\":4},\"strategy\":\"model_parallel\"");
    CHECK_NOT_TRAINED(&t, "device '0:0' is listed twice");
}
