/* Ten training steps on PyTorch's own initial values and batches give PyTorch's losses and parameters:
 * within 4 times PyTorch's distance between fp32 and fp64, and at least 1e-6 relative. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "data/safetensors.h"
#include "rehearse.h"

static const double least_relative = 1e-6;

static double number(const cJSON *object, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static double item(const cJSON *object, const char *key, int index)
{
    return cJSON_GetNumberValue(
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, key), index));
}

/* The experiment that repeats a case; `model` is a JSON value, `optimizer` the golden file's. */
static char *experiment_text(const char *name, const char *model, const cJSON *golden,
                             const cJSON *optimizer, const char *saved)
{
    cJSON *copy = cJSON_Duplicate(optimizer, true);
    cJSON *type = cJSON_DetachItemFromObjectCaseSensitive(copy, "name");
    cJSON_AddItemToObject(copy, "type", type);
    char *printed = cJSON_PrintUnformatted(copy);
    char file[4096];
    snprintf(file, sizeof file, "%s/%s.safetensors", unit_source("tests/golden/models"), name);
    char *text = text_format(
        "{\"name\":\"%s\",\"model\":%s,\"data\":{\"batch\":%g,\"source\":{\"file\":\"%s\"}},"
        "\"train\":{\"loss\":\"%s\",\"optimizer\":%s,\"steps\":10,\"init\":\"%s\",\"save\":\"%s\"},"
        "\"cluster\":\"dgx-1v\",\"devices\":1,\"backend\":\"reference\"}",
        name, model, number(golden, "batch"), file,
        cJSON_GetObjectItemCaseSensitive(golden, "loss")->valuestring, printed, file, saved);
    free(printed);
    cJSON_Delete(copy);
    return text;
}

static void check_losses(const struct rh_result *result, const cJSON *golden_case)
{
    for (int step = 0; step < 10; step++) {
        double expected = item(golden_case, "losses_fp64", step);
        double most = fmax(4 * item(golden_case, "losses_distance", step),
                           least_relative * fabs(expected));
        double distance = fabs(rh_result_loss(result, step) - expected);
        CU_ASSERT_TRUE(distance <= most);
        if (!(distance <= most))
            fprintf(stderr, "    step %d: %.9g, torch %.9g, distance %.3g > %.3g\n", step,
                    rh_result_loss(result, step), expected, distance, most);
    }
}

/* Norms of the trained parameters and statistics against those of torch's fp64 run. */
static int check_tensors(const char *saved, const cJSON *expected)
{
    struct safetensors file;
    int checked = 0;
    CU_ASSERT_EQUAL_FATAL(safetensors_read(saved, &file), RH_OK);
    for (const cJSON *e = expected ? expected->child : NULL; e; e = e->next) {
        const struct named_tensor *tensor = safetensors_find(&file, e->string);
        CU_ASSERT_PTR_NOT_NULL_FATAL(tensor);
        double norm = 0;
        int64_t elements = shape_elements(&tensor->type.shape);
        for (int64_t i = 0; i < elements; i++) {
            double x = tensor->type.dtype == DTYPE_I64 ? (double)((int64_t *)tensor->data)[i]
                                                       : ((float *)tensor->data)[i];
            norm += x * x;
        }
        norm = sqrt(norm);
        double relative = fmax(4 * number(e, "relative_distance"), least_relative);
        double most = relative * fmax(number(e, "norm"), 1e-3);
        CU_ASSERT_TRUE(fabs(norm - number(e, "norm")) <= most);
        if (fabs(norm - number(e, "norm")) > most)
            fprintf(stderr, "    '%s': norm %.9g, torch %.9g\n", e->string, norm, number(e, "norm"));
        checked++;
    }
    safetensors_free(&file);
    return checked;
}

static void check_case(const char *name, const char *model, const cJSON *golden,
                       const cJSON *golden_case)
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    char saved[64];
    snprintf(saved, sizeof saved, "/tmp/rehearse-torch-%ld.safetensors", (long)getpid());
    char *text = experiment_text(name, model, golden,
                                 cJSON_GetObjectItemCaseSensitive(golden_case, "optimizer"), saved);
    CU_ASSERT_EQUAL(rh_experiment_open(text, &experiment), RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_run(experiment, RH_NUMBERS, &result), RH_OK);
    if (!result) {
        fprintf(stderr, "    %s: %s\n", name, rh_error());
    } else {
        check_losses(result, golden_case);
        CU_ASSERT_TRUE(
            check_tensors(saved, cJSON_GetObjectItemCaseSensitive(golden_case, "parameters")) > 0);
        check_tensors(saved, cJSON_GetObjectItemCaseSensitive(golden_case, "buffers"));
    }
    unlink(saved);
    rh_result_free(result);
    rh_experiment_close(experiment);
    free(text);
}

static void check_model(const char *name, const char *model)
{
    char path[4096];
    cJSON *golden = NULL;
    int cases = 0;
    snprintf(path, sizeof path, "%s/%s.json", unit_source("tests/golden/models"), name);
    CU_ASSERT_EQUAL_FATAL(json_read_file(path, &golden), RH_OK);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(golden, "cases");
    for (const cJSON *c = list->child; c; c = c->next, cases++)
        check_case(name, model, golden, c);
    CU_ASSERT_TRUE(cases >= 3);
    cJSON_Delete(golden);
}

static void toy(void)
{
    check_model("toy", "\"toy\"");
}

static void mlp(void)
{
    check_model("mlp", "{\"name\":\"mlp\",\"sizes\":[16,32,32,10]}");
}

static void small_resnet(void)
{
    char model[4200];
    snprintf(model, sizeof model, "{\"file\":\"%s\"}",
             unit_source("tests/golden/models/small-resnet-layers.json"));
    check_model("small-resnet", model);
}

static void embedding_linear(void)
{
    check_model("embedding-linear", "\"embedding-linear\"");
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"toy", toy, NULL},
        {"mlp", mlp, NULL},
        {"small ResNet with batch norm", small_resnet, NULL},
        {"embedding and linear", embedding_linear, NULL},
    };
    return UNIT_MAIN("torch", tests);
}
