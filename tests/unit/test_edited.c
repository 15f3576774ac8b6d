/* Plans written out and read back: the same plan for every strategy, the same losses; an edit is
 * checked, and what is wrong is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "experiment/experiment.h"
#include "plan/check.h"
#include "plan/import.h"
#include "tests/unit/unit.h"

static const char mlp[] = "{\"name\":\"mlp\",\"sizes\":[6,8,7,8,5]}";
static const char norm[] =
    "{\"name\":\"norm\",\"input\":[2,8,8],\"layers\":["
    "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n1\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"r1\",\"op\":\"relu\"},"
    "{\"name\":\"m\",\"op\":\"max_pool2d\",\"kernel\":2},"
    "{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1},"
    "{\"name\":\"f\",\"op\":\"flatten\"},"
    "{\"name\":\"fc\",\"op\":\"linear\",\"out\":5}]}";

static const struct {
    const char *model, *train, *rest;
} ways[] = {
    {mlp, "", "\"devices\":1,\"strategy\":\"single\""},
    {norm, ",\"memory_format\":\"channels_last\",\"fusion\":true,\"precision\":\"bf16\"",
     "\"devices\":1,\"strategy\":\"single\""},
    {norm, ",\"optimizer\":\"adamw\",\"accumulate\":2",
     "\"devices\":3,\"strategy\":\"data_parallel\""},
    {norm, ",\"precision\":\"fp16\",\"clip_grad_norm\":1",
     "\"devices\":2,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"bucket_cap_mb\":0.0002}}"},
    {mlp, "", "\"devices\":2,\"strategy\":\"model_parallel\""},
    {mlp, ",\"accumulate\":2",
     "\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":{\"type\":\"pipeline\"}"},
    {mlp, ",\"clip_grad_norm\":0.5",
     "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"zbv\",\"microbatches\":3}"},
};

static struct experiment *open_way(struct platform *platform, size_t w)
{
    struct experiment *experiment = NULL;
    cJSON *json = NULL;
    char *text = text_format(
        "{\"name\":\"e\",\"model\":%s,\"data\":{\"batch\":12},\"train\":{\"steps\":3%s},"
        "\"cluster\":\"dgx-1v\",\"backend\":\"reference\",%s}",
        ways[w].model, ways[w].train, ways[w].rest);
    CU_ASSERT_EQUAL_FATAL(json_read_text("test", text, &json), RH_OK);
    CU_ASSERT_EQUAL_FATAL(experiment_open(platform, json, &experiment), RH_OK);
    free(text);
    return experiment;
}

static cJSON *plan_json(const struct experiment *experiment)
{
    struct strategy_plan plan;
    CU_ASSERT_EQUAL_FATAL(experiment_plan(experiment, &plan), RH_OK);
    cJSON *json = plan_to_json(plan.plan);
    strategy_plan_free(&plan);
    return json;
}

static void come_back(void)
{
    struct platform *platform = NULL;
    CU_ASSERT_EQUAL_FATAL(platform_open(&platform), RH_OK);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct experiment *experiment = open_way(platform, w);
        struct plan *back = NULL;
        cJSON *json = plan_json(experiment);
        CU_ASSERT_EQUAL_FATAL(plan_from_json(json, "test", &back), RH_OK);
        CU_ASSERT_EQUAL(plan_check(back), RH_OK);
        cJSON *again = plan_to_json(back);
        CU_ASSERT_TRUE(cJSON_Compare(json, again, true));
        cJSON_Delete(json);
        cJSON_Delete(again);
        plan_free(back);
        experiment_close(experiment);
    }
    platform_close(platform);
}

static char *write_file(const cJSON *json)
{
    char path[] = "/tmp/rehearse-plan-XXXXXX";
    char *text = cJSON_PrintUnformatted(json);
    int file = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(file >= 0);
    CU_ASSERT_EQUAL(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    free(text);
    return text_copy(path);
}

static void run_like_before(void)
{
    struct platform *platform = NULL;
    struct run_options options = {.numbers = true};
    CU_ASSERT_EQUAL_FATAL(platform_open(&platform), RH_OK);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct experiment *experiment = open_way(platform, w);
        struct outcome plain, edited;
        cJSON *json = plan_json(experiment);
        CU_ASSERT_EQUAL_FATAL(experiment_run(experiment, &options, &plain), RH_OK);
        experiment->plan_path = write_file(json);
        CU_ASSERT_EQUAL_FATAL(experiment_run(experiment, &options, &edited), RH_OK);
        for (int i = 0; i < 3; i++)
            CU_ASSERT_EQUAL(plain.result.losses[i], edited.result.losses[i]);
        unlink(experiment->plan_path);
        outcome_free(&plain);
        outcome_free(&edited);
        cJSON_Delete(json);
        experiment_close(experiment);
    }
    platform_close(platform);
}

static cJSON *instructions(cJSON *plan)
{
    cJSON *role = cJSON_GetArrayItem(cJSON_GetObjectItem(plan, "roles"), 0);
    cJSON *list = cJSON_GetArrayItem(cJSON_GetObjectItem(role, "lists"), 0);
    return cJSON_GetObjectItem(list, "instructions");
}

static cJSON *first_of(cJSON *plan, const char *kind)
{
    cJSON *item = NULL;
    cJSON_ArrayForEach(item, instructions(plan))
    {
        if (strcmp(cJSON_GetObjectItem(item, "kind")->valuestring, kind) == 0)
            return item;
    }
    CU_FAIL_FATAL("no such instruction");
    return NULL;
}

static enum rh_status plan_of(struct experiment *experiment, const cJSON *json)
{
    struct strategy_plan plan;
    experiment->plan_path = write_file(json);
    enum rh_status status = experiment_plan(experiment, &plan);
    if (status == RH_OK)
        strategy_plan_free(&plan);
    unlink(experiment->plan_path);
    free(experiment->plan_path);
    experiment->plan_path = NULL;
    return status;
}

/* What each edit does to a DDP plan, and what is said. */
static void forget_a_wait(cJSON *plan)
{
    cJSON_Delete(cJSON_DetachItemViaPointer(instructions(plan), first_of(plan, "wait")));
}
static void unknown_op(cJSON *plan)
{
    cJSON_ReplaceItemInObject(first_of(plan, "compute"), "op", cJSON_CreateString("lineer"));
}
static void unknown_attribute(cJSON *plan)
{
    cJSON_AddTrueToObject(cJSON_GetObjectItem(first_of(plan, "compute"), "attributes"),
                          "acumulate");
}
static void wrong_stream(cJSON *plan)
{
    cJSON_ReplaceItemInObject(first_of(plan, "record"), "stream", cJSON_CreateNumber(17));
}
static void wrong_buffer(cJSON *plan)
{
    cJSON *view = cJSON_GetArrayItem(cJSON_GetObjectItem(first_of(plan, "compute"), "writes"), 0);
    cJSON_ReplaceItemInObject(view, "buffer", cJSON_CreateNumber(4000));
}
static void beyond_its_buffer(cJSON *plan)
{
    cJSON *view = cJSON_GetArrayItem(cJSON_GetObjectItem(first_of(plan, "compute"), "writes"), 0);
    cJSON_ReplaceItemInObject(view, "offset", cJSON_CreateNumber(1 << 20));
}
static void another_mesh(cJSON *plan)
{
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(plan, "mesh"), "dp", cJSON_CreateNumber(4));
}
static void another_list(cJSON *plan)
{
    cJSON *role = cJSON_GetArrayItem(cJSON_GetObjectItem(plan, "roles"), 0);
    cJSON *list = cJSON_GetArrayItem(cJSON_GetObjectItem(role, "lists"), 0);
    cJSON_ReplaceItemInObject(list, "name", cJSON_CreateString("frist"));
}
static void no_parameter(cJSON *plan)
{
    cJSON *role = cJSON_GetArrayItem(cJSON_GetObjectItem(plan, "roles"), 0);
    cJSON *buffer = NULL;
    cJSON_ArrayForEach(buffer, cJSON_GetObjectItem(role, "buffers"))
    {
        const cJSON *use = cJSON_GetObjectItem(buffer, "use");
        if (use && strcmp(use->valuestring, "parameter") == 0) {
            cJSON_DeleteItemFromObject(buffer, "use");
            return;
        }
    }
}
static void no_lists(cJSON *plan)
{
    cJSON_DeleteItemFromObject(cJSON_GetArrayItem(cJSON_GetObjectItem(plan, "roles"), 0), "lists");
}

static void edits_are_checked(void)
{
    static const struct {
        void (*edit)(cJSON *plan);
        const char *message;
    } edits[] = {
        {forget_a_wait, "neither waits"},
        {unknown_op, "did you mean 'linear'"},
        {unknown_attribute, "did you mean 'accumulate'"},
        {wrong_stream, "17"},
        {wrong_buffer, "4000"},
        {beyond_its_buffer, "1048576"},
        {another_mesh, "dp = 4, the strategy's is dp = 2"},
        {another_list, "is 'frist', the strategy's is 'first'"},
        {no_parameter, "stands for"},
        {no_lists, "'lists' is no list"},
    };
    struct platform *platform = NULL;
    CU_ASSERT_EQUAL_FATAL(platform_open(&platform), RH_OK);
    struct experiment *experiment = open_way(platform, 3);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        cJSON *json = plan_json(experiment);
        edits[i].edit(json);
        CU_ASSERT_EQUAL(plan_of(experiment, json), RH_INVALID);
        UNIT_ASSERT_CONTAINS(fail_message(), edits[i].message);
        cJSON_Delete(json);
    }
    cJSON *json = plan_json(experiment);
    CU_ASSERT_EQUAL(plan_of(experiment, json), RH_OK);
    cJSON_Delete(json);
    experiment_close(experiment);
    platform_close(platform);
}

/* A number or word anywhere in a plan may be wrong: an error or a plan, never worse. */
static int spoil(cJSON *item, int number, int *at)
{
    static const double wrong[3] = {-1, 1e15, 3};
    for (cJSON *child = item->child; child; child = child->next)
        if (spoil(child, number, at))
            return 1;
    if (item->child || (*at)++ != number)
        return 0;
    if (cJSON_IsNumber(item))
        cJSON_SetNumberValue(item, wrong[number % 3]);
    else if (cJSON_IsString(item))
        cJSON_SetValuestring(item, "");
    else
        item->type = cJSON_Number;
    return 1;
}

static void any_spoilt_value(void)
{
    struct platform *platform = NULL;
    int refused = 0;
    int accepted = 0;
    CU_ASSERT_EQUAL_FATAL(platform_open(&platform), RH_OK);
    struct experiment *experiment = open_way(platform, 3);
    cJSON *json = plan_json(experiment);
    for (int number = 0;; number += 7) {
        struct plan *plan = NULL;
        cJSON *copy = cJSON_Duplicate(json, true);
        int at = 0;
        int any = spoil(copy, number, &at);
        if (any && plan_from_json(copy, "test", &plan) == RH_OK)
            accepted += plan_check(plan) == RH_OK;
        refused += any && !plan;
        plan_free(plan);
        cJSON_Delete(copy);
        if (!any)
            break;
    }
    CU_ASSERT_TRUE(refused > 100 && accepted > 0);
    cJSON_Delete(json);
    experiment_close(experiment);
    platform_close(platform);
}

static const struct unit_test tests[] = {
    {"plans come back", come_back, NULL},
    {"plans that came back run alike", run_like_before, NULL},
    {"edits are checked", edits_are_checked, NULL},
    {"any spoilt value", any_spoilt_value, NULL},
};

int main(void)
{
    return UNIT_MAIN("edited", tests);
}
