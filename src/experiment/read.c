#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "experiment/experiment.h"

static enum rh_status read_stdin(cJSON **json)
{
    struct text text = {0};
    char line[4096];
    while (fgets(line, sizeof line, stdin))
        text_add(&text, "%s", line);
    enum rh_status status = json_read_text("standard input", text.data ? text.data : "", json);
    free(text.data);
    return status;
}

enum rh_status experiment_read(const char *path, const char *const *settings, int setting_count,
                               cJSON **json)
{
    enum rh_status status = strcmp(path, "-") == 0 ? read_stdin(json) : json_read_file(path, json);
    for (int i = 0; i < setting_count && status == RH_OK; i++)
        status = experiment_set(*json, settings[i]);
    if (status != RH_OK) {
        cJSON_Delete(*json);
        *json = NULL;
    }
    return status;
}

/* What a string stands for where an object is expected: "model": "resnet50" is {"name":
 * "resnet50"}. */
static const char *shorthand_key(const char *key)
{
    if (strcmp(key, "model") == 0)
        return "name";
    if (strcmp(key, "strategy") == 0 || strcmp(key, "optimizer") == 0 || strcmp(key, "loss") == 0)
        return "type";
    return NULL;
}

static cJSON *object_below(cJSON *object, const char *key)
{
    cJSON *child = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!child)
        return cJSON_AddObjectToObject(object, key);
    const char *inner = shorthand_key(key);
    if (cJSON_IsString(child) && inner) {
        cJSON *expanded = cJSON_CreateObject();
        cJSON_AddStringToObject(expanded, inner, child->valuestring);
        cJSON_ReplaceItemInObjectCaseSensitive(object, key, expanded);
        return expanded;
    }
    return cJSON_IsObject(child) ? child : NULL;
}

static void remove_rival(cJSON *object, const char *key)
{
    static const char *const rivals[] = {"batch", "batch_per_device"};
    for (int i = 0; i < 2; i++)
        if (strcmp(key, rivals[i]) == 0)
            cJSON_DeleteItemFromObjectCaseSensitive(object, rivals[1 - i]);
}

static enum rh_status set_at(cJSON *object, char *path, const char *value, const char *setting)
{
    char *dot;
    while ((dot = strchr(path, '.'))) {
        *dot = '\0';
        if (*path == '\0')
            break;
        object = object_below(object, path);
        if (!object)
            return fail(RH_INVALID, "--set %s: '%s' is not an object", setting, path);
        path = dot + 1;
    }
    if (*path == '\0')
        return fail(RH_INVALID, "--set %s: an empty key", setting);
    cJSON *parsed = cJSON_ParseWithOpts(value, NULL, true);
    if (!parsed)
        parsed = cJSON_CreateString(value);
    if (!cJSON_IsNull(parsed))
        remove_rival(object, path);
    cJSON_DeleteItemFromObjectCaseSensitive(object, path);
    if (cJSON_IsNull(parsed))
        cJSON_Delete(parsed);
    else
        cJSON_AddItemToObject(object, path, parsed);
    return RH_OK;
}

enum rh_status experiment_set(cJSON *json, const char *setting)
{
    const char *equals = strchr(setting, '=');
    if (!equals || equals == setting)
        return fail(RH_INVALID, "--set %s: expected key=value", setting);
    if (!cJSON_IsObject(json))
        return fail(RH_INVALID, "--set %s: the experiment is not an object", setting);
    char *path = text_copy(setting);
    path[equals - setting] = '\0';
    enum rh_status status = set_at(json, path, equals + 1, setting);
    free(path);
    return status;
}
