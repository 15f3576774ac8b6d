/* Models as JSON: {"name": "net", "input": [3, 32, 32], "layers": [{"name": "c1", "op": "conv2d",
 * "out": 16, "kernel": 3, "padding": 1}, {"name": "s", "op": "add", "inputs": ["a", "b"]}, …]}.
 * `input` is one sample's shape; "index" is one whole number a sample (for an embedding). A layer
 * reads `input` (a layer's name, or "input" for the model's own), by default the layer before it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "model/builders.h"

/* One layer being read. */
struct reading {
    struct model *model;
    const cJSON *json;
    const char *where; /* "model 'net': layer 'c1'" */
    const char *name;
    int input, second; /* what it reads */
};

static enum rh_status integer(const struct reading *r, const char *key, int64_t least,
                              int64_t *value)
{
    return json_integer(r->json, r->where, key, least, INT32_MAX, value);
}

static enum rh_status read_linear(struct reading *r, int *layer)
{
    int64_t out = 0;
    bool bias = true;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input", "out", "bias"));
    RETURN_IF_FAILED(json_integer_required(r->json, r->where, "out", 1, INT32_MAX, &out));
    RETURN_IF_FAILED(json_bool(r->json, r->where, "bias", &bias));
    return model_linear(r->model, r->name, r->input, out, bias, layer);
}

static enum rh_status read_conv2d(struct reading *r, int *layer)
{
    int64_t out = 0, kernel = 0, stride = 1, padding = 0, groups = 1;
    bool bias = true;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input", "out", "kernel",
                                     "stride", "padding", "groups", "bias"));
    RETURN_IF_FAILED(json_integer_required(r->json, r->where, "out", 1, INT32_MAX, &out));
    RETURN_IF_FAILED(json_integer_required(r->json, r->where, "kernel", 1, 1024, &kernel));
    RETURN_IF_FAILED(integer(r, "stride", 1, &stride));
    RETURN_IF_FAILED(integer(r, "padding", 0, &padding));
    RETURN_IF_FAILED(integer(r, "groups", 1, &groups));
    RETURN_IF_FAILED(json_bool(r->json, r->where, "bias", &bias));
    struct conv_options options = {(int)kernel, (int)stride, (int)padding, (int)groups, bias};
    return model_conv2d(r->model, r->name, r->input, out, options, layer);
}

static enum rh_status read_max_pool2d(struct reading *r, int *layer)
{
    int64_t kernel = 0, stride = 0, padding = 0;
    RETURN_IF_FAILED(
        JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input", "kernel", "stride", "padding"));
    RETURN_IF_FAILED(json_integer_required(r->json, r->where, "kernel", 1, 1024, &kernel));
    stride = kernel;
    RETURN_IF_FAILED(integer(r, "stride", 1, &stride));
    RETURN_IF_FAILED(integer(r, "padding", 0, &padding));
    return model_max_pool2d(r->model, r->name, r->input, (int)kernel, (int)stride, (int)padding,
                            layer);
}

static enum rh_status read_avg_pool2d(struct reading *r, int *layer)
{
    static const char *const window_keys[] = {"stride", "padding"};
    int64_t kernel = 0, stride = 0, padding = 0, output = 0;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input", "kernel", "stride",
                                     "padding", "output"));
    RETURN_IF_FAILED(integer(r, "kernel", 1, &kernel));
    RETURN_IF_FAILED(integer(r, "output", 1, &output));
    if ((kernel > 0) == (output > 0))
        return fail(RH_INVALID, "%s: exactly one of 'kernel' and 'output' is expected", r->where);
    for (int i = 0; i < 2 && output > 0; i++)
        if (cJSON_HasObjectItem(r->json, window_keys[i]))
            return fail(RH_INVALID, "%s: '%s' goes with 'kernel', not with 'output'", r->where,
                        window_keys[i]);
    stride = kernel;
    RETURN_IF_FAILED(integer(r, "stride", 1, &stride));
    RETURN_IF_FAILED(integer(r, "padding", 0, &padding));
    return model_avg_pool2d(r->model, r->name, r->input, (int)kernel, (int)stride, (int)padding,
                            (int)output, layer);
}

static enum rh_status read_embedding(struct reading *r, int *layer)
{
    int64_t vocabulary = 0, width = 0;
    RETURN_IF_FAILED(
        JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input", "vocabulary", "width"));
    RETURN_IF_FAILED(
        json_integer_required(r->json, r->where, "vocabulary", 1, INT32_MAX, &vocabulary));
    RETURN_IF_FAILED(json_integer_required(r->json, r->where, "width", 1, INT32_MAX, &width));
    return model_embedding(r->model, r->name, r->input, vocabulary, width, layer);
}

static enum rh_status read_add(struct reading *r, int *layer)
{
    RETURN_IF_FAILED(JSON_CHECK_KEYS(r->json, r->where, "name", "op", "inputs"));
    return model_add(r->model, r->name, r->input, r->second, layer);
}

static enum rh_status read_relu(struct reading *r, int *layer)
{
    RETURN_IF_FAILED(JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input"));
    return model_relu(r->model, r->name, r->input, layer);
}

static enum rh_status read_flatten(struct reading *r, int *layer)
{
    RETURN_IF_FAILED(JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input"));
    return model_flatten(r->model, r->name, r->input, layer);
}

static enum rh_status read_batch_norm2d(struct reading *r, int *layer)
{
    RETURN_IF_FAILED(JSON_CHECK_KEYS(r->json, r->where, "name", "op", "input"));
    return model_batch_norm2d(r->model, r->name, r->input, layer);
}

static const struct {
    const char *op;
    enum rh_status (*read)(struct reading *reading, int *layer);
} readers[] = {
    {"linear", read_linear},
    {"conv2d", read_conv2d},
    {"batch_norm2d", read_batch_norm2d},
    {"relu", read_relu},
    {"add", read_add},
    {"max_pool2d", read_max_pool2d},
    {"avg_pool2d", read_avg_pool2d},
    {"flatten", read_flatten},
    {"embedding", read_embedding},
};
enum { READER_COUNT = sizeof readers / sizeof *readers };

static enum rh_status find_input(const struct reading *r, const cJSON *name, int *input)
{
    if (!cJSON_IsString(name))
        return fail(RH_INVALID, "%s: an input must be a layer's name", r->where);
    *input = MODEL_INPUT;
    if (strcmp(name->valuestring, "input") == 0)
        return RH_OK;
    *input = model_find_layer(r->model, name->valuestring);
    if (*input < 0)
        return fail(RH_INVALID, "%s: it reads '%s', which is no layer before it", r->where,
                    name->valuestring);
    return RH_OK;
}

static enum rh_status read_inputs(struct reading *r, const char *op)
{
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(r->json, "input");
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(r->json, "inputs");
    r->input = r->model->layer_count - 1;
    if (strcmp(op, "add") == 0) {
        if (!cJSON_IsArray(inputs) || cJSON_GetArraySize(inputs) != 2)
            return fail(RH_INVALID, "%s: add needs 'inputs' with 2 names", r->where);
        RETURN_IF_FAILED(find_input(r, inputs->child, &r->input));
        return find_input(r, inputs->child->next, &r->second);
    }
    return input ? find_input(r, input, &r->input) : RH_OK;
}

static enum rh_status read_layer(struct model *m, const cJSON *json, const char *where)
{
    const char *name = NULL;
    const char *op = NULL;
    const char *ops[READER_COUNT];
    int index = 0;
    int layer = 0;
    char *place = text_format("%s: layer %d", where, m->layer_count);
    enum rh_status status = json_string_required(json, place, "name", &name);
    free(place);
    RETURN_IF_FAILED(status);
    for (int i = 0; i < READER_COUNT; i++)
        ops[i] = readers[i].op;
    char *here = text_format("%s: layer '%s'", where, name);
    struct reading reading = {.model = m, .json = json, .where = here, .name = name};
    status = json_string_required(json, here, "op", &op);
    if (status == RH_OK && json_choice("op", op, ops, READER_COUNT, &index) != RH_OK)
        status = fail_within(RH_INVALID, "%s", here);
    if (status == RH_OK)
        status = read_inputs(&reading, op);
    if (status == RH_OK)
        status = readers[index].read(&reading, &layer);
    free(here);
    return status;
}

static enum rh_status read_sample(const cJSON *json, const char *where, struct tensor_type *type)
{
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(json, "input");
    *type = (struct tensor_type){.dtype = DTYPE_F32};
    if (cJSON_IsString(input) && strcmp(input->valuestring, "index") == 0) {
        type->dtype = DTYPE_I64;
        return RH_OK;
    }
    int rank = cJSON_IsArray(input) ? cJSON_GetArraySize(input) : 0;
    if (rank < 1 || rank > MAX_RANK - 1)
        return fail(RH_INVALID, "%s: 'input' is one sample's shape (1 to %d sizes) or \"index\"",
                    where, MAX_RANK - 1);
    type->shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        const cJSON *item = cJSON_GetArrayItem(input, i);
        if (!cJSON_IsNumber(item) || item->valuedouble < 1 || item->valuedouble > INT32_MAX ||
            item->valuedouble != (double)(int64_t)item->valuedouble)
            return fail(RH_INVALID, "%s: 'input' size %d must be a whole number from 1", where, i);
        type->shape.dim[i] = (int64_t)item->valuedouble;
    }
    return RH_OK;
}

enum rh_status build_from_layers(const cJSON *json, const char *where, struct model **model)
{
    const char *name = "model";
    struct tensor_type input;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(json, where, "name", "input", "layers"));
    RETURN_IF_FAILED(json_string(json, where, "name", &name));
    RETURN_IF_FAILED(read_sample(json, where, &input));
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(json, "layers");
    if (!cJSON_IsArray(layers) || !layers->child)
        return fail(RH_INVALID, "%s: 'layers' must be a list of at least 1 layer", where);
    struct model *m = model_new(name, &input);
    enum rh_status status = RH_OK;
    for (const cJSON *item = layers->child; item && status == RH_OK; item = item->next)
        status = read_layer(m, item, where);
    if (status != RH_OK) {
        model_free(m);
        m = NULL;
    }
    *model = m;
    return status;
}
