/* Experiments: settings on the command line, keys that are not there, batches, devices. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "experiment/experiment.h"

static cJSON *parse(const char *text)
{
    cJSON *json = NULL;
    if (json_read_text("test", text, &json) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    return json;
}

/* `text` after one setting, as compact JSON; the caller frees it. */
static char *set(const char *text, const char *setting)
{
    cJSON *json = parse(text);
    if (experiment_set(json, setting) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    char *after = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return after;
}

static void assert_set(const char *text, const char *setting, const char *expected)
{
    char *after = set(text, setting);
    if (strcmp(after, expected) != 0)
        fprintf(stderr, "    %s gives %s, not %s\n", setting, after, expected);
    CU_ASSERT_STRING_EQUAL(after, expected);
    free(after);
}

static void test_set_values(void)
{
    assert_set("{}", "launch=graph", "{\"launch\":\"graph\"}");
    assert_set("{}", "devices=8", "{\"devices\":8}");
    assert_set("{}", "devices=[\"0:1\",\"1:0\"]", "{\"devices\":[\"0:1\",\"1:0\"]}");
    assert_set("{}", "data.resident=true", "{\"data\":{\"resident\":true}}");
    assert_set("{}", "name=a=b", "{\"name\":\"a=b\"}");
    assert_set("{}", "name=", "{\"name\":\"\"}");
    assert_set("{}", "name=8 GPUs", "{\"name\":\"8 GPUs\"}");
    assert_set("{\"a\":1,\"devices\":4}", "devices=8", "{\"a\":1,\"devices\":8}");
    assert_set("{\"train\":{\"steps\":1}}", "train.accumulate=2",
               "{\"train\":{\"steps\":1,\"accumulate\":2}}");
    assert_set("{}", "strategy={\"type\":\"ddp\"}", "{\"strategy\":{\"type\":\"ddp\"}}");
}

static void test_set_null_removes(void)
{
    assert_set("{\"a\":1,\"launch\":\"graph\"}", "launch=null", "{\"a\":1}");
    assert_set("{\"train\":{\"steps\":1,\"save\":\"x\"}}", "train.save=null",
               "{\"train\":{\"steps\":1}}");
    assert_set("{}", "launch=null", "{}");
}

/* What may be a plain name becomes an object when a key below it is set. */
static void test_set_expands_shorthand(void)
{
    assert_set("{\"model\":\"resnet50\"}", "model.image=64",
               "{\"model\":{\"name\":\"resnet50\",\"image\":64}}");
    assert_set("{\"strategy\":\"ddp\"}", "strategy.bucket_mb=25",
               "{\"strategy\":{\"type\":\"ddp\",\"bucket_mb\":25}}");
    assert_set("{\"train\":{\"optimizer\":\"sgd\"}}", "train.optimizer.lr=0.5",
               "{\"train\":{\"optimizer\":{\"type\":\"sgd\",\"lr\":0.5}}}");
    assert_set("{\"train\":{\"loss\":\"mse\"}}", "train.loss.reduction=sum",
               "{\"train\":{\"loss\":{\"type\":\"mse\",\"reduction\":\"sum\"}}}");
    /* and back to a name */
    assert_set("{\"strategy\":{\"type\":\"ddp\",\"x\":1}}", "strategy=single",
               "{\"strategy\":\"single\"}");
}

static void test_set_batch_rivals(void)
{
    assert_set("{\"data\":{\"batch\":256,\"seed\":1}}", "data.batch_per_device=32",
               "{\"data\":{\"seed\":1,\"batch_per_device\":32}}");
    assert_set("{\"data\":{\"batch_per_device\":32}}", "data.batch=64",
               "{\"data\":{\"batch\":64}}");
    /* removing the one that is not there leaves the other */
    assert_set("{\"data\":{\"batch\":256}}", "data.batch_per_device=null",
               "{\"data\":{\"batch\":256}}");
}

static void test_set_errors(void)
{
    static const struct {
        const char *setting, *message;
    } cases[] = {{"devices", "--set devices: expected key=value"},
                 {"=8", "--set =8: expected key=value"},
                 {"data.=8", "an empty key"},
                 {".batch=8", "an empty key"},
                 {"data..batch=8", "an empty key"},
                 {"devices.gpu=8", "'devices' is not an object"},
                 {"name.x=8", "'name' is not an object"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cJSON *json = parse("{\"name\":\"n\",\"devices\":4,\"data\":{\"batch\":1}}");
        CU_ASSERT_EQUAL(experiment_set(json, cases[i].setting), RH_INVALID);
        UNIT_ASSERT_CONTAINS(fail_message(), cases[i].message);
        cJSON_Delete(json);
    }
    cJSON *list = parse("[]");
    CU_ASSERT_EQUAL(experiment_set(list, "devices=8"), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "the experiment is not an object");
    cJSON_Delete(list);
}

static void test_read_file(void)
{
    static const char *const settings[] = {"data.batch=64", "model.image=64", "strategy=single"};
    static const char *const wrong[] = {"devices"};
    const char *path = unit_source("experiments/resnet50-8xv100.json");
    cJSON *json = NULL;
    CU_ASSERT_EQUAL_FATAL(experiment_read(path, settings, 3, &json), RH_OK);
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(json, "data");
    CU_ASSERT_EQUAL(cJSON_GetObjectItemCaseSensitive(data, "batch")->valueint, 64);
    cJSON_Delete(json);
    CU_ASSERT_EQUAL(experiment_read(path, wrong, 1, &json), RH_INVALID);
    CU_ASSERT_PTR_NULL(json);
    CU_ASSERT_EQUAL(experiment_read("no/such.json", NULL, 0, &json), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "no/such.json");
}

/* ---- opening --------------------------------------------------------------------------------- */

static const char good[] =
    "{\"name\":\"good\",\"model\":\"toy\",\"data\":{\"batch\":24},\"train\":{\"loss\":\"mse\"},"
    "\"cluster\":\"dgx-1v\",\"devices\":4,\"strategy\":\"ddp\",\"backend\":\"reference\"}";

struct opened {
    struct platform *platform;
    struct experiment *experiment;
    enum rh_status status;
};

/* The good experiment after settings, up to NULL. */
static struct opened open_with(const char *const *settings)
{
    struct opened o = {0};
    cJSON *json = parse(good);
    for (; *settings; settings++)
        CU_ASSERT_EQUAL(experiment_set(json, *settings), RH_OK);
    CU_ASSERT_EQUAL_FATAL(platform_open(&o.platform), RH_OK);
    o.status = experiment_open(o.platform, json, &o.experiment);
    CU_ASSERT_EQUAL(o.status == RH_OK, o.experiment != NULL);
    return o;
}
#define OPEN(...) open_with((const char *const[]){__VA_ARGS__, NULL})

static void close_opened(struct opened *o)
{
    if (o->experiment)
        experiment_close(o->experiment);
    platform_close(o->platform);
}

/* The good experiment after one setting must be refused with these words. */
static void assert_refused(const char *setting, const char *message)
{
    struct opened o = OPEN(setting);
    if (o.status != RH_INVALID)
        fprintf(stderr, "    %s is accepted\n", setting);
    CU_ASSERT_EQUAL(o.status, RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), message);
    close_opened(&o);
}

static void test_defaults(void)
{
    struct opened o = OPEN("name=other");
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    const struct experiment *e = o.experiment;
    CU_ASSERT_STRING_EQUAL(e->name, "other");
    CU_ASSERT_STRING_EQUAL(e->strategy->name, "ddp");
    CU_ASSERT_STRING_EQUAL(e->backend->name, "reference");
    CU_ASSERT_EQUAL(e->launch, LAUNCH_EAGER);
    CU_ASSERT_EQUAL(e->batch, 24);
    CU_ASSERT_FALSE(e->batch_per_device);
    CU_ASSERT_EQUAL(e->device_count, 4);
    CU_ASSERT_EQUAL(e->devices[3], 3);
    CU_ASSERT_EQUAL(e->training.steps, 4);
    CU_ASSERT_EQUAL(e->training.accumulate, 1);
    CU_ASSERT_EQUAL(e->training.precision, DTYPE_F32);
    CU_ASSERT_EQUAL(e->training.loss, LOSS_MSE);
    CU_ASSERT_EQUAL(e->training.learning_rate, 0.01);
    CU_ASSERT_EQUAL(e->seed, 0);
    CU_ASSERT_FALSE(e->resident);
    CU_ASSERT_EQUAL(e->anchor_seconds, 0);
    CU_ASSERT_TRUE(e->bucket_tensor_seconds < 0);
    close_opened(&o);
}

static void test_training(void)
{
    struct opened o = OPEN("train.optimizer={\"type\":\"adamw\",\"beta1\":0.8}", "train.steps=7",
                           "train.precision=bf16", "train.accumulate=3", "launch=graph",
                           "anchor.single_step_seconds=0.097", "data.seed=9", "data.resident=true");
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    const struct training *t = &o.experiment->training;
    CU_ASSERT_EQUAL(t->optimizer, OPTIMIZER_ADAMW);
    CU_ASSERT_EQUAL(t->learning_rate, 1e-3);
    CU_ASSERT_EQUAL(t->beta1, 0.8);
    CU_ASSERT_EQUAL(t->beta2, 0.999);
    CU_ASSERT_EQUAL(t->weight_decay, 0.01);
    CU_ASSERT_EQUAL(t->steps, 7);
    CU_ASSERT_EQUAL(t->accumulate, 3);
    CU_ASSERT_EQUAL(t->precision, DTYPE_BF16);
    CU_ASSERT_EQUAL(o.experiment->launch, LAUNCH_GRAPH);
    CU_ASSERT_EQUAL(o.experiment->anchor_seconds, 0.097);
    CU_ASSERT_EQUAL(o.experiment->seed, 9);
    CU_ASSERT_TRUE(o.experiment->resident);
    close_opened(&o);
}

/* batch_per_device is times the shares of the batch: ranks, or DataParallel's GPUs. */
static void test_batch_per_device(void)
{
    static const struct {
        const char *strategy, *mesh;
        int64_t batch;
    } cases[] = {{"strategy=ddp", "mesh=null", 32},
                 {"strategy=data_parallel", "mesh=null", 32},
                 {"strategy=single", "mesh=null", 8},
                 {"strategy=model_parallel", "mesh=null", 8},
                 {"strategy=pipeline", "mesh={\"dp\":2,\"pp\":2}", 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o = OPEN(cases[i].strategy, cases[i].mesh, "data.batch_per_device=8");
        CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
        CU_ASSERT_EQUAL(o.experiment->batch, cases[i].batch);
        CU_ASSERT_EQUAL(o.experiment->batch_given, 8);
        CU_ASSERT_TRUE(o.experiment->batch_per_device);
        close_opened(&o);
    }
}

static void test_unknown_keys(void)
{
    static const struct {
        const char *setting, *message;
    } cases[] = {
        {"devics=4", "unknown key 'devics'; did you mean 'devices'?"},
        {"data.sede=4", "unknown key 'sede'; did you mean 'seed'?"},
        {"data.source={\"fiel\":\"x\"}", "unknown key 'fiel'; did you mean 'file'?"},
        {"train.stesp=4", "unknown key 'stesp'; did you mean 'steps'?"},
        {"train.optimizer={\"type\":\"sgd\",\"momentun\":0.9}", "did you mean 'momentum'?"},
        {"train.optimizer={\"type\":\"adam\",\"momentum\":0.9}", "unknown key 'momentum'"},
        {"train.loss={\"type\":\"mse\",\"reductoin\":\"sum\"}", "did you mean 'reduction'?"},
        {"model.siz=4", "unknown key 'siz'"},
        {"mesh={\"dq\":4}", "unknown key 'dq'"},
        {"anchor={\"single_step_second\":4}", "did you mean 'single_step_seconds'?"},
        {"cluster={\"node\":\"dgx-1v-32gb\",\"fabrik\":\"none\"}", "did you mean 'fabric'?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].setting, cases[i].message);
}

/* Keys of a strategy are known only to the strategy: checked with the plan at the latest. */
static void test_unknown_strategy_key(void)
{
    struct opened o = OPEN("strategy.fnid_unused=true");
    enum rh_status status = o.status;
    if (status == RH_OK) {
        struct strategy_plan plan = {0};
        status = experiment_plan(o.experiment, &plan);
    }
    CU_ASSERT_EQUAL(status, RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "unknown key 'fnid_unused'");
    close_opened(&o);
}

static void test_unknown_words(void)
{
    static const struct {
        const char *setting, *message;
    } cases[] = {
        {"model=tooy", "unknown model 'tooy'; did you mean 'toy'?"},
        {"strategy=dpp", "did you mean 'ddp'?"},
        {"train.loss=cross_entropi", "did you mean 'cross_entropy'?"},
        {"train.optimizer=adamx", "unknown optimizer 'adamx'; did you mean 'adam"},
        {"train.precision=fp23", "did you mean 'fp32'?"},
        {"launch=eagre", "did you mean 'eager'?"},
        {"fidelity=flow", "did you mean 'flows'?"},
        {"backend=simgird", "did you mean 'simgrid'?"},
        {"cluster=dgx-1w", "dgx-1v"},
        {"data.source=random", "data.source is \"synthetic\", {\"file\": PATH}, or"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].setting, cases[i].message);
}

static void test_wrong_values(void)
{
    static const struct {
        const char *setting, *message;
    } cases[] = {
        {"model=null", "key 'model' is missing"},
        {"data=null", "key 'data' is missing"},
        {"cluster=null", "key 'cluster' is missing"},
        {"data={}", "exactly one of 'batch' and 'batch_per_device'; neither is given"},
        {"data={\"batch\":8,\"batch_per_device\":8}", "both are given"},
        {"data.batch=0", "'batch' is 0; it must be between 1 and"},
        {"data.batch=1.5", "'batch' must be a whole number"},
        {"data.batch=many", "'batch' must be a whole number"},
        {"data.seed=-1", "'seed' is -1; it must be between 0 and"},
        {"train.steps=0", "'steps' is 0; it must be between 1 and 1000000"},
        {"train.optimizer={\"type\":\"sgd\",\"momentum\":2}", "'momentum' is 2"},
        {"train.optimizer={\"type\":\"sgd\",\"nesterov\":true}",
         "nesterov needs momentum > 0 and dampening 0; they are 0 and 0"},
        {"train.optimizer={\"lr\":2}", "key 'type' is missing"},
        {"train.optimizer=[]", "'optimizer' must be a name or an object with 'type'"},
        {"train.save=no/such/folder/x.safetensors", "cannot write 'no/such/folder/x.safetensors'"},
        {"strategy=7", "'strategy' must be a name or an object with 'type'"},
        {"strategy={\"x\":1}", "key 'type' is missing"},
        {"anchor.single_step_seconds=0", "'single_step_seconds' is 0"},
        {"mesh={\"dp\":0}", "'dp' is 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].setting, cases[i].message);
}

static void test_devices(void)
{
    struct opened o = OPEN("devices=[\"0:3\",\"node0:gpu1\",\"1:7\"]");
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    CU_ASSERT_EQUAL(o.experiment->device_count, 3);
    CU_ASSERT_EQUAL(o.experiment->devices[0], 3);
    CU_ASSERT_EQUAL(o.experiment->devices[1], 1);
    CU_ASSERT_EQUAL(o.experiment->devices[2], 15);
    CU_ASSERT_EQUAL(o.experiment->cluster->node_count, 2); /* as many as the list needs */
    close_opened(&o);
    o = OPEN("devices=20");
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    CU_ASSERT_EQUAL(o.experiment->device_count, 20);
    CU_ASSERT_EQUAL(o.experiment->cluster->node_count, 3);
    close_opened(&o);
    o = OPEN("devices=4", "strategy=single");
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    CU_ASSERT_EQUAL(o.experiment->device_count, 1);
    close_opened(&o);
    o = OPEN("devices=null", "cluster=dgx-1v-32gb");
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    CU_ASSERT_EQUAL(o.experiment->device_count, 8); /* all there are */
    close_opened(&o);
}

static void test_devices_errors(void)
{
    static const struct {
        const char *setting, *message;
    } cases[] = {
        {"devices=0", "'devices' is a count from 1 or a list"},
        {"devices=2.5", "'devices' is a count from 1 or a list"},
        {"devices={}", "'devices' is a count from 1 or a list"},
        {"devices=[]", "the list of devices is empty"},
        {"devices=[\"0:1\",\"0:1\"]", "device '0:1' is listed twice"},
        {"devices=[\"0:1\",\"node0:gpu1\"]", "device 'node0:gpu1' is listed twice"},
        {"devices=[\"0:8\"]", "device '0:8': node 0 has 8 GPUs"},
        {"devices=[\"-1:0\"]", "device '-1:0'"},
        {"devices=[\"0:-1\"]", "device '0:-1': node 0 has 8 GPUs"},
        {"devices=[\"gpu3\"]", "a device is \"node:gpu\""},
        {"devices=[\"0:3x\"]", "a device is \"node:gpu\""},
        {"devices=[3]", "a device is \"node:gpu\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i].setting, cases[i].message);
    struct opened o = OPEN("cluster={\"node\":\"dgx-1v-32gb\",\"nodes\":2}", "devices=[\"5:0\"]");
    CU_ASSERT_EQUAL(o.status, RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "device '5:0': the cluster has 2 nodes");
    close_opened(&o);
    o = OPEN("cluster={\"node\":\"dgx-1v-32gb\",\"nodes\":2}", "devices=17");
    CU_ASSERT_EQUAL(o.status, RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "17 devices are asked for");
    UNIT_ASSERT_CONTAINS(fail_message(), "16");
    close_opened(&o);
}

/* Keys of other strategies stand under their names and are ignored; those of this one move up. */
static void test_keys_of_strategies(void)
{
    struct opened o = OPEN("strategy={\"type\":\"pipeline\",\"pipeline\":{\"microbatches\":6},"
                           "\"ddp\":{\"gradient_as_bucket_view\":true},"
                           "\"model_parallel\":{\"whatever\":1}}");
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    const cJSON *keys = o.experiment->strategy_keys;
    const cJSON *microbatches = cJSON_GetObjectItemCaseSensitive(keys, "microbatches");
    CU_ASSERT_PTR_NOT_NULL_FATAL(microbatches);
    CU_ASSERT_EQUAL(microbatches->valueint, 6);
    CU_ASSERT_PTR_NULL(cJSON_GetObjectItemCaseSensitive(keys, "pipeline"));
    CU_ASSERT_PTR_NULL(cJSON_GetObjectItemCaseSensitive(keys, "model_parallel"));
    close_opened(&o);
}

/* Too large for the devices: asked, available and what is largest, before anything runs. */
static void test_out_of_memory(void)
{
    struct opened o = OPEN("model=resnet50", "train.loss=cross_entropy", "data.batch=8192");
    struct strategy_plan plan = {0};
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    CU_ASSERT_EQUAL(experiment_plan(o.experiment, &plan), RH_OUT_OF_MEMORY);
    UNIT_ASSERT_CONTAINS(fail_message(), "GiB");
    close_opened(&o);
}

/* The switch of tests/parity/memory. It is not for `plan`. */
static void test_unchecked_memory(void)
{
    struct opened o = OPEN("model=resnet50", "train.loss=cross_entropy", "data.batch=8192",
                           "train.steps=1", "strategy=single");
    struct run_options options = {0};
    struct outcome outcome = {0};
    struct strategy_plan plan = {0};
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    CU_ASSERT_EQUAL(experiment_run(o.experiment, &options, &outcome), RH_OUT_OF_MEMORY);
    CU_ASSERT_TRUE(outcome.asked_bytes > outcome.available_bytes);
    setenv("REHEARSE_UNCHECKED_MEMORY", "1", 1);
    CU_ASSERT_EQUAL(experiment_run(o.experiment, &options, &outcome), RH_OK);
    CU_ASSERT_TRUE(outcome.result.devices[0].peak_bytes[PURPOSE_ACTIVATIONS] >
                   outcome.result.devices[0].capacity_bytes);
    CU_ASSERT_EQUAL(experiment_plan(o.experiment, &plan), RH_OUT_OF_MEMORY);
    unsetenv("REHEARSE_UNCHECKED_MEMORY");
    outcome_free(&outcome);
    close_opened(&o);
}

static void test_run(void)
{
    struct opened o = OPEN("train.steps=3");
    struct run_options options = {.numbers = true};
    struct outcome outcome = {0};
    CU_ASSERT_EQUAL_FATAL(o.status, RH_OK);
    CU_ASSERT_EQUAL_FATAL(experiment_run(o.experiment, &options, &outcome), RH_OK);
    CU_ASSERT_EQUAL(outcome.result.step_count, 3);
    CU_ASSERT_TRUE(outcome.result.losses[2] < outcome.result.losses[0]);
    outcome_free(&outcome);
    close_opened(&o);
}

static const struct unit_test tests[] = {
    {"set values", test_set_values, NULL},
    {"set null removes", test_set_null_removes, NULL},
    {"set expands shorthand", test_set_expands_shorthand, NULL},
    {"set batch rivals", test_set_batch_rivals, NULL},
    {"set errors", test_set_errors, NULL},
    {"read file", test_read_file, NULL},
    {"defaults", test_defaults, NULL},
    {"training", test_training, NULL},
    {"batch per device", test_batch_per_device, NULL},
    {"unknown keys", test_unknown_keys, NULL},
    {"unknown strategy key", test_unknown_strategy_key, NULL},
    {"unknown words", test_unknown_words, NULL},
    {"wrong values", test_wrong_values, NULL},
    {"devices", test_devices, NULL},
    {"devices errors", test_devices_errors, NULL},
    {"keys of strategies", test_keys_of_strategies, NULL},
    {"out of memory", test_out_of_memory, NULL},
    {"unchecked memory", test_unchecked_memory, NULL},
    {"run", test_run, NULL},
};

int main(void)
{
    setenv("REHEARSE_PLATFORMS", unit_source("platforms"), 1);
    return UNIT_MAIN("experiment", tests);
}
