/* P1 … P32: DataParallel. Without more words: y = w x, w = 2, mean squared error against 0; SGD
 * with lr 1 tells the gradient. */
#include "cases/training.h"

static const float one_to_six[] = {1, 2, 3, 4, 5, 6};

static struct case_training on(int64_t rows, const char *rest)
{
    return (struct case_training){.rows = rows, .inputs = one_to_six, .w = 2, .rest = rest};
}

static const char *const two = "\"devices\":2,\"strategy\":\"data_parallel\"";
static const char *const four = "\"devices\":4,\"strategy\":\"data_parallel\"";
static const char *const single = "\"devices\":1,\"strategy\":\"single\"";

static void loss_and_gradient(int64_t rows, const char *rest, double loss, double gradient)
{
    struct case_training t = on(rows, rest);
    const struct trained *trained = case_trained(&t);
    CHECK_NEAR(trained->losses[0], loss, 1e-6);
    CHECK_NEAR(2 - trained_w(trained), gradient, 1e-6);
}

/* Computes of the plan on a device. */
static int computes_on(const struct strategy_plan *plan, int device)
{
    const struct role *role = &plan->plan->roles[0];
    int count = 0;
    for (int l = 0; l < role->list_count; l++)
        for (int i = 0; i < role->lists[l].count; i++) {
            const struct instruction *in = &role->lists[l].instructions[i];
            count += in->kind == INSTRUCTION_COMPUTE && role->streams[in->stream].device == device;
        }
    return count;
}

CASE(P1, "x = [1, 2, 3, 4] on 2 GPUs: loss 30, gradient 30")
{
    loss_and_gradient(4, two, 30, 30);
}

CASE(P2, "x = [1, 2, 3] on 2: pieces of 2 and 1, gradient 18.6667 as on one GPU")
{
    loss_and_gradient(3, two, 56.0 / 3, 56.0 / 3);
    loss_and_gradient(3, single, 56.0 / 3, 56.0 / 3);
}

CASE(P3, "5 rows on 4 GPUs: pieces of 2, 2, 1, the fourth idle; loss and gradient 44")
{
    struct case_training t = on(5, four);
    const struct strategy_plan *plan = case_plan(&t);
    loss_and_gradient(5, four, 44, 44);
    CHECK(computes_on(plan, 2) > 0 && computes_on(plan, 3) == 0);
}

CASE(P4, "1 row on 4 GPUs: only the first works, nothing is replicated")
{
    struct case_training t = on(1, four);
    const struct strategy_plan *plan = case_plan(&t);
    loss_and_gradient(1, four, 4, 4);
    for (int device = 1; device < 4; device++)
        CHECK(computes_on(plan, device) == 0);
    CHECK(plan_count(plan, NULL, INSTRUCTION_COLLECT, "") == 0);
}

DOES_NOT_APPLY(P5, "a mean loss inside forward, pieces of 2 and 1: mean of means 23",
               "the loss is the experiment's, never a layer")
DOES_NOT_APPLY(P6, "a mean loss inside forward, equal pieces: 30",
               "the loss is the experiment's, never a layer")

CASE(P7, "a summed loss, however it is cut: as on one GPU")
{
    static const char *const ways[] = {single, two, four,
                                       "\"devices\":3,\"strategy\":\"data_parallel\""};
    for (int i = 0; i < 4; i++) {
        struct case_training t = on(5, ways[i]);
        t.loss = "{\"type\":\"mse\",\"reduction\":\"sum\"}";
        const struct trained *trained = case_trained(&t);
        CHECK_NEAR(trained->losses[0], 220, 1e-6);
        CHECK_NEAR(2 - trained_w(trained), 220, 1e-6);
    }
}

CASE(P8, "P1 with SGD of lr 0.1: w = -1")
{
    struct case_training t = on(4, two);
    t.optimizer = "{\"type\":\"sgd\",\"lr\":0.1}";
    CHECK_NEAR(trained_w(case_trained(&t)), -1, 1e-6);
}

CASE(P9, "devices [1, 0]: the first listed holds parameters, loss and optimizer")
{
    const char *rest = "\"devices\":[\"0:1\",\"0:0\"],\"strategy\":\"data_parallel\"";
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    loss_and_gradient(4, rest, 30, 30);
    CHECK_OK(rh_experiment_open("{\"model\":\"resnet50\",\"data\":{\"batch\":8},\"cluster\":"
                                "\"dgx-1v-32gb\",\"devices\":[\"0:1\",\"0:0\"],\"strategy\":"
                                "\"data_parallel\",\"backend\":\"reference\"}",
                                &experiment));
    enum rh_status status = rh_experiment_run(experiment, 0, &result);
    rh_experiment_close(experiment);
    CHECK_OK(status);
    char *json = rh_result_json(result);
    CHECK(rh_result_peak_bytes(result, 0) > rh_result_peak_bytes(result, 1));
    const char *first = strstr(json, "node0:gpu1");
    const char *second = strstr(json, "node0:gpu0");
    CHECK(first && second && first < second);
    free(json);
    rh_result_free(result);
}

DOES_NOT_APPLY(P10, "devices [1, 0] and the module on 0: module on the wrong device",
               "the strategy places the parameters; nobody can put them elsewhere before")

CASE(P11, "one device: no collective, nothing leaves it")
{
    struct case_training t = on(4, "\"devices\":1,\"strategy\":\"data_parallel\"");
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(plan_count(plan, NULL, INSTRUCTION_COLLECT, "") == 0);
    CHECK(plan->plan->roles[0].gpus == 1);
    loss_and_gradient(4, t.rest, 30, 30);
}

static const char *const norm_model =
    "{\"name\":\"bn\",\"input\":[1,1,1],\"layers\":[{\"name\":\"bn\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"f\",\"op\":\"flatten\"}]}";

/* Batch norm on the column [1, 2, 3, 4]; the targets are what it must put out, so the loss is 0. */
static const struct trained *norm(const char *rest, const float *outputs)
{
    static const float one[] = {1};
    static const float zero[] = {0};
    struct case_training t = {.model = norm_model,
                              .rest = rest,
                              .init = {{"bn.weight", 1, {1}, one},
                                       {"bn.bias", 1, {1}, zero},
                                       {"bn.running_mean", 1, {1}, zero},
                                       {"bn.running_var", 1, {1}, one}},
                              .rows = 4,
                              .inputs = one_to_six,
                              .targets = outputs,
                              .pictures = true};
    return case_trained(&t);
}

CASE(P12, "batch norm on [1, 2, 3, 4], 2 GPUs: each piece by itself, statistics of the first alone")
{
    const struct trained *t = norm(two, VALUES(-0.99998f, 0.99998f, -0.99998f, 0.99998f));
    CHECK(t->losses[0] < 1e-9);
    CHECK_NEAR(trained_value(t, "bn.running_mean", 0), 0.15, 1e-6);
    CHECK_NEAR(trained_value(t, "bn.running_var", 0), 0.95, 1e-6);
    CHECK(trained_value(t, "bn.num_batches_tracked", 0) == 1);
}

CASE(P13, "the same on one GPU: 0.25 and 1.066667")
{
    const struct trained *t = norm(single, VALUES(-1.34164f, -0.44721f, 0.44721f, 1.34164f));
    CHECK(t->losses[0] < 1e-9);
    CHECK_NEAR(trained_value(t, "bn.running_mean", 0), 0.25, 1e-6);
    CHECK_NEAR(trained_value(t, "bn.running_var", 0), 1.0666667, 1e-6);
    CHECK(trained_value(t, "bn.num_batches_tracked", 0) == 1);
}

DOES_NOT_APPLY(P14, "an attribute that a module changes in forward is lost",
               "layers have no code and no attributes")
DIFFERS(P15, "batch tensors of different length: the longer one silently loses its rows", "refused")
CASE(P15, "a batch of 4 rows and targets of 2")
{
    struct case_training t = on(4, four);
    t.target_rows = 2;
    CHECK_NOT_TRAINED(&t, "'input.0' has 4 rows, 'target.0' has 2");
}

DIFFERS(P16, "one row and a keyword on 2 GPUs: the second replica fails for want of an argument",
        "one device is used")
CASE(P16, "one row on 2 GPUs: one device is used")
{
    struct case_training t = on(1, two);
    const struct strategy_plan *plan = case_plan(&t);
    loss_and_gradient(1, two, 4, 4);
    CHECK(computes_on(plan, 1) == 0);
}
/* An index that the table does not have, in the rows of these replicas. */
static void fail_replicas(const int64_t indices[6], const char *part)
{
    static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct case_training t = {
        .model = "{\"name\":\"e\",\"input\":\"index\",\"layers\":[{\"name\":\"e\",\"op\":"
                 "\"embedding\",\"vocabulary\":4,\"width\":2}]}",
        .rest = "\"devices\":3,\"strategy\":\"data_parallel\"",
        .init = {{"e.weight", 2, {4, 2}, ones}},
        .rows = 6,
        .target_columns = 2,
        .indices = indices};
    CHECK_NOT_TRAINED(&t, part);
}

CASE(P17, "a replica that fails ends the run with an error of its kind, which names the device")
{
    fail_replicas((const int64_t[]){0, 1, 2, 9, 3, 0}, "device 1");
}

CASE(P18, "of two replicas that fail one is named, and nothing else runs on")
{
    fail_replicas((const int64_t[]){0, 1, 2, 9, 8, 0}, "device");
}

NOT_YET(P19, "gradients off: the same values, no backward", "evaluation")

static void refuse_unused(const char *rest)
{
    struct case_training t = on(4, rest);
    t.model =
        "{\"name\":\"m\",\"input\":[1],\"layers\":[{\"name\":\"u\",\"op\":\"linear\",\"out\":1,"
        "\"bias\":false},{\"name\":\"w\",\"op\":\"linear\",\"input\":\"input\",\"out\":1,"
        "\"bias\":false}]}";
    CHECK_NOT_TRAINED(&t, "no layer reads 'u'");
}

DIFFERS(P20, "a parameter that no replica uses gets a gradient of zeros",
        "a layer whose output nothing reads is refused with the model")
CASE(P20, "a parameter that no replica uses")
{
    refuse_unused(two);
}

DIFFERS(P21, "so weight decay and momentum act on it, unlike on one GPU",
        "refused with every strategy, so nothing differs")
CASE(P21, "the same with weight decay, and on one GPU")
{
    refuse_unused(two);
    refuse_unused(single);
}

DIFFERS(P22, "a batch of no rows: each device gets an empty piece and runs", "refused")
CASE(P22, "a batch of no rows")
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    CHECK_OK(
        rh_experiment_open("{\"model\":\"toy\",\"data\":{\"batch\":0},\"cluster\":\"dgx-1v-32gb\","
                           "\"devices\":2,\"strategy\":\"data_parallel\"}",
                           &experiment));
    CHECK_REFUSED(rh_experiment_run(experiment, 0, &result), "batch");
    rh_experiment_close(experiment);
}

DOES_NOT_APPLY(P23, "outputs nested in lists and dictionaries are gathered as such",
               "a model has one output tensor")
DOES_NOT_APPLY(P24, "dictionaries with 1 and 2 keys cannot be gathered",
               "a model has one output tensor")
DOES_NOT_APPLY(P25, "a scalar argument cannot be cut", "every input has a row for each sample")
DOES_NOT_APPLY(P26, "replica outputs of different width cannot be gathered",
               "an output's shape does not depend on the piece")

CASE(P27, "a batch on the host or on the first GPU: the same result")
{
    for (int resident = 0; resident < 2; resident++) {
        struct case_training t = on(4, two);
        t.resident = resident;
        const struct trained *trained = case_trained(&t);
        CHECK_NEAR(trained->losses[0], 30, 1e-6);
        CHECK_NEAR(2 - trained_w(trained), 30, 1e-6);
    }
}

DIFFERS(P28, "a GPU listed twice works (by copies), to no purpose", "refused")
CASE(P28, "one GPU listed twice")
{
    struct case_training t = on(4, "\"devices\":[\"0:0\",\"0:0\"],\"strategy\":\"data_parallel\"");
    CHECK_NOT_TRAINED(&t, "device '0:0' is listed twice");
}

CASE(P29, "k GPUs: P (k - 1) bytes of parameters go out, as many of gradients come back")
{
    struct case_training t = {
        .model = "\"resnet50\"", .rest = four, .rows = 8, .loss = "\"cross_entropy\""};
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COLLECT, "broadcast chunk") == 102228128);
    CHECK(plan_bytes(plan, "steady", INSTRUCTION_COLLECT, "reduce chunk") == 102228128);
    CHECK(plan_count(plan, "steady", INSTRUCTION_COLLECT, "broadcast chunk") == 9);
    CHECK(plan_count(plan, "steady", INSTRUCTION_COLLECT, "reduce chunk") == 13);
}

CASE(P30, "linear and mean squared error, 17 rows on 1 to 4 GPUs: as on one within 1e-6")
{
    static const char *const model = "{\"name\":\"l\",\"input\":[3],\"layers\":[{\"name\":\"l\","
                                     "\"op\":\"linear\",\"out\":2}]}";
    float inputs[51];
    float targets[34];
    float weight[6];
    static const float bias[2] = {0.25f, -0.5f};
    for (int i = 0; i < 51; i++)
        inputs[i] = sinf((float)i * 1.7f);
    for (int i = 0; i < 34; i++)
        targets[i] = cosf((float)i * 2.3f);
    for (int i = 0; i < 6; i++)
        weight[i] = sinf((float)i + 0.5f);
    struct case_training t = {.model = model,
                              .init = {{"l.weight", 2, {2, 3}, weight}, {"l.bias", 1, {2}, bias}},
                              .rows = 17,
                              .columns = 3,
                              .target_columns = 2,
                              .inputs = inputs,
                              .targets = targets,
                              .rest = single};
    const struct trained *expected = case_trained(&t);
    for (int k = 1; k <= 4; k++) {
        char rest[64];
        snprintf(rest, sizeof rest, "\"devices\":%d,\"strategy\":\"data_parallel\"", k);
        t.rest = rest;
        const struct trained *got = case_trained(&t);
        CHECK_NEAR(got->losses[0], expected->losses[0], 1e-6);
        for (int i = 0; i < 6; i++)
            CHECK_NEAR(trained_value(got, "l.weight", i), trained_value(expected, "l.weight", i),
                       1e-6);
        for (int i = 0; i < 2; i++)
            CHECK_NEAR(trained_value(got, "l.bias", i), trained_value(expected, "l.bias", i), 1e-6);
    }
}

DOES_NOT_APPLY(P31, "a module without inputs runs once, on the first device",
               "every model has an input")
NOT_YET(P32, "an input that needs a gradient, on the host", "gradients of the input")
