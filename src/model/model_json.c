#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "model/builders.h"

struct builder {
    const char *name;
    enum rh_status (*build)(const struct builder_options *options, struct model **model);
};

static const struct builder builders[] = {
    {"toy", build_toy},
    {"mlp", build_mlp},
    {"embedding-linear", build_embedding_linear},
    {"resnet18", build_resnet},
    {"resnet34", build_resnet},
    {"resnet50", build_resnet},
    {"resnet101", build_resnet},
    {"resnet152", build_resnet},
    {"resnext50_32x4d", build_resnet},
    {"resnext101_32x8d", build_resnet},
    {"vgg11", build_vgg},
    {"vgg11_bn", build_vgg},
    {"vgg13", build_vgg},
    {"vgg13_bn", build_vgg},
    {"vgg16", build_vgg},
    {"vgg16_bn", build_vgg},
    {"vgg19", build_vgg},
    {"vgg19_bn", build_vgg},
    {"alexnet", build_alexnet},
};
enum { BUILDER_COUNT = sizeof builders / sizeof *builders };

const char *model_builder_name(int index)
{
    return index >= 0 && index < BUILDER_COUNT ? builders[index].name : NULL;
}

static enum rh_status build_by_name(const cJSON *object, const char *name, const char *where,
                                    struct model **model)
{
    const char *names[BUILDER_COUNT];
    int index = 0;
    struct builder_options options = {name, where, 224, 1000, NULL};
    for (int i = 0; i < BUILDER_COUNT; i++)
        names[i] = builders[i].name;
    if (json_choice("model", name, names, BUILDER_COUNT, &index) != RH_OK)
        return fail_within(RH_INVALID, "%s", where);
    bool picture = builders[index].build != build_toy && builders[index].build != build_mlp &&
                   builders[index].build != build_embedding_linear;
    if (object && picture) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "name", "image", "classes"));
        RETURN_IF_FAILED(json_integer(object, where, "image", 1, 1 << 16, &options.image));
        RETURN_IF_FAILED(json_integer(object, where, "classes", 1, 1 << 30, &options.classes));
    } else if (object && builders[index].build == build_mlp) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "name", "sizes"));
        options.sizes = cJSON_GetObjectItemCaseSensitive(object, "sizes");
    } else if (object) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "name"));
    }
    enum rh_status status = builders[index].build(&options, model);
    return status == RH_OK ? status : fail_within(status, "%s", where);
}

static enum rh_status build_from_file(const char *path, const char *where, struct model **model)
{
    cJSON *json = NULL;
    RETURN_IF_FAILED(json_read_file(path, &json));
    enum rh_status status = build_from_layers(json, path, model);
    cJSON_Delete(json);
    return status == RH_OK ? status : fail_within(status, "%s", where);
}

enum rh_status model_from_json(const cJSON *json, const char *where, struct model **model)
{
    const char *text = NULL;
    *model = NULL;
    if (cJSON_IsString(json))
        return build_by_name(NULL, json->valuestring, where, model);
    if (!cJSON_IsObject(json))
        return fail(RH_INVALID, "%s: 'model' must be a name or an object", where);
    if (cJSON_HasObjectItem(json, "layers"))
        return build_from_layers(json, where, model);
    if (cJSON_HasObjectItem(json, "file")) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(json, where, "file"));
        RETURN_IF_FAILED(json_string_required(json, where, "file", &text));
        return build_from_file(text, where, model);
    }
    RETURN_IF_FAILED(json_string_required(json, where, "name", &text));
    return build_by_name(json, text, where, model);
}
