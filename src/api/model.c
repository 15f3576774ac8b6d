/* A model in the public API is the JSON that an experiment's `model` would hold: built layer by
 * layer here, read by the one reader in model/. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "model/model.h"

struct rh_model {
    cJSON *json;
    cJSON *layers; /* inside json; NULL for builders */
};

const cJSON *api_model_json(const struct rh_model *model)
{
    return model->json;
}

static enum rh_status check(const struct rh_model *model)
{
    struct model *built = NULL;
    RETURN_IF_FAILED(model_from_json(model->json, "model", &built));
    model_free(built);
    return RH_OK;
}

enum rh_status rh_model_new(const char *name_or_json, struct rh_model **out)
{
    struct rh_model *model = memory_new(sizeof *model);
    enum rh_status status = RH_OK;
    *out = NULL;
    if (name_or_json[0] == '{')
        status = json_read_text("model", name_or_json, &model->json);
    else
        model->json = cJSON_CreateString(name_or_json);
    if (status == RH_OK)
        status = check(model);
    if (status != RH_OK) {
        rh_model_free(model);
        return status;
    }
    *out = model;
    return RH_OK;
}

enum rh_status rh_model_begin(const char *name, int rank, const int64_t *dims,
                              struct rh_model **out)
{
    *out = NULL;
    if (rank < 1 || rank > RH_MAX_DIMS - 1)
        return fail(RH_INVALID, "model '%s': a sample has 1 to %d dimensions, not %d", name,
                    RH_MAX_DIMS - 1, rank);
    struct rh_model *model = memory_new(sizeof *model);
    model->json = cJSON_CreateObject();
    cJSON_AddStringToObject(model->json, "name", name);
    cJSON *input = cJSON_AddArrayToObject(model->json, "input");
    for (int i = 0; i < rank; i++)
        cJSON_AddItemToArray(input, cJSON_CreateNumber((double)dims[i]));
    model->layers = cJSON_AddArrayToObject(model->json, "layers");
    *out = model;
    return RH_OK;
}

static enum rh_status add_input(const struct rh_model *model, cJSON *layer, const char *key,
                                int input)
{
    int count = cJSON_GetArraySize(model->layers);
    if (input == RH_PREVIOUS)
        input = count - 1;
    if (input < RH_INPUT || input >= count)
        return fail(RH_INVALID, "layer '%s' reads layer %d; there are %d",
                    cJSON_GetObjectItemCaseSensitive(layer, "name")->valuestring, input, count);
    const char *name = "input";
    if (input >= 0)
        name = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(model->layers, input), "name")
                   ->valuestring;
    cJSON *list = cJSON_GetObjectItemCaseSensitive(layer, "inputs");
    if (strcmp(key, "inputs") != 0)
        cJSON_AddStringToObject(layer, key, name);
    else
        cJSON_AddItemToArray(list ? list : cJSON_AddArrayToObject(layer, "inputs"),
                             cJSON_CreateString(name));
    return RH_OK;
}

/* Adds a layer and lets the reader judge it; a refused layer leaves the model as it was. */
static enum rh_status add(struct rh_model *model, cJSON *layer, int *number)
{
    if (!model->layers) {
        cJSON_Delete(layer);
        return fail(RH_INVALID, "a model from rh_model_new takes no further layers");
    }
    cJSON_AddItemToArray(model->layers, layer);
    int count = cJSON_GetArraySize(model->layers);
    enum rh_status status = check(model);
    if (status != RH_OK) {
        cJSON_DeleteItemFromArray(model->layers, count - 1);
        return status;
    }
    if (number)
        *number = count - 1;
    return RH_OK;
}

static cJSON *new_layer(const char *name, const char *op)
{
    cJSON *layer = cJSON_CreateObject();
    cJSON_AddStringToObject(layer, "name", name);
    cJSON_AddStringToObject(layer, "op", op);
    return layer;
}

static enum rh_status add_simple(struct rh_model *model, cJSON *layer, int input, int *number)
{
    enum rh_status status = model->layers ? add_input(model, layer, "input", input) : RH_OK;
    if (status != RH_OK) {
        cJSON_Delete(layer);
        return status;
    }
    return add(model, layer, number);
}

enum rh_status rh_model_linear(struct rh_model *model, const char *name, int input, int64_t out,
                               int bias, int *layer)
{
    cJSON *json = new_layer(name, "linear");
    cJSON_AddNumberToObject(json, "out", (double)out);
    cJSON_AddBoolToObject(json, "bias", bias);
    return add_simple(model, json, input, layer);
}

enum rh_status rh_model_conv2d(struct rh_model *model, const char *name, int input, int64_t out,
                               int kernel, int stride, int padding, int groups, int bias,
                               int *layer)
{
    cJSON *json = new_layer(name, "conv2d");
    cJSON_AddNumberToObject(json, "out", (double)out);
    cJSON_AddNumberToObject(json, "kernel", kernel);
    cJSON_AddNumberToObject(json, "stride", stride);
    cJSON_AddNumberToObject(json, "padding", padding);
    cJSON_AddNumberToObject(json, "groups", groups);
    cJSON_AddBoolToObject(json, "bias", bias);
    return add_simple(model, json, input, layer);
}

enum rh_status rh_model_batch_norm2d(struct rh_model *model, const char *name, int input,
                                     int *layer)
{
    return add_simple(model, new_layer(name, "batch_norm2d"), input, layer);
}

enum rh_status rh_model_relu(struct rh_model *model, const char *name, int input, int *layer)
{
    return add_simple(model, new_layer(name, "relu"), input, layer);
}

enum rh_status rh_model_flatten(struct rh_model *model, const char *name, int input, int *layer)
{
    return add_simple(model, new_layer(name, "flatten"), input, layer);
}

enum rh_status rh_model_max_pool2d(struct rh_model *model, const char *name, int input, int kernel,
                                   int stride, int padding, int *layer)
{
    cJSON *json = new_layer(name, "max_pool2d");
    cJSON_AddNumberToObject(json, "kernel", kernel);
    cJSON_AddNumberToObject(json, "stride", stride);
    cJSON_AddNumberToObject(json, "padding", padding);
    return add_simple(model, json, input, layer);
}

enum rh_status rh_model_global_average(struct rh_model *model, const char *name, int input,
                                       int *layer)
{
    cJSON *json = new_layer(name, "avg_pool2d");
    cJSON_AddNumberToObject(json, "output", 1);
    return add_simple(model, json, input, layer);
}

enum rh_status rh_model_add(struct rh_model *model, const char *name, int a, int b, int *layer)
{
    cJSON *json = new_layer(name, "add");
    enum rh_status status = RH_OK;
    if (model->layers) {
        status = add_input(model, json, "inputs", a);
        if (status == RH_OK)
            status = add_input(model, json, "inputs", b);
    }
    if (status != RH_OK) {
        cJSON_Delete(json);
        return status;
    }
    return add(model, json, layer);
}

int64_t rh_model_parameters(const struct rh_model *model)
{
    struct model *built = NULL;
    if (model_from_json(model->json, "model", &built) != RH_OK)
        return 0;
    int64_t elements = model_parameter_elements(built);
    model_free(built);
    return elements;
}

void rh_model_free(struct rh_model *model)
{
    if (!model)
        return;
    cJSON_Delete(model->json);
    free(model);
}
