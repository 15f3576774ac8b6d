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

/* A path of the file is relative to the file's folder. */
static void move_path(cJSON *parent, cJSON *item, const char *folder)
{
    if (!cJSON_IsString(item) || item->valuestring[0] == '/' || item->valuestring[0] == '\0')
        return;
    char *path = text_format("%s%s", folder, item->valuestring);
    cJSON *moved = cJSON_CreateString(path);
    free(path);
    if (cJSON_IsArray(parent)) {
        cJSON_ReplaceItemViaPointer(parent, item, moved);
        return;
    }
    char *key = text_copy(item->string);
    cJSON_ReplaceItemInObjectCaseSensitive(parent, key, moved);
    free(key);
}

static void move_paths(cJSON *json, const char *path)
{
    static const char *const of_train[] = {"init", "resume", "save"};
    static const char *const of_source[] = {"file", "images", "labels"};
    const char *slash = strrchr(path, '/');
    if (!slash)
        return;
    char *folder = text_format("%.*s", (int)(slash - path) + 1, path);
    cJSON *train = cJSON_GetObjectItemCaseSensitive(json, "train");
    cJSON *source =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(json, "data"), "source");
    cJSON *files = cJSON_GetObjectItemCaseSensitive(source, "files");
    cJSON *strategy = cJSON_GetObjectItemCaseSensitive(json, "strategy");
    cJSON *pipeline = cJSON_GetObjectItemCaseSensitive(strategy, "pipeline");
    move_path(strategy, cJSON_GetObjectItemCaseSensitive(strategy, "schedule_file"), folder);
    move_path(pipeline, cJSON_GetObjectItemCaseSensitive(pipeline, "schedule_file"), folder);
    for (int i = 0; i < 3; i++) {
        move_path(train, cJSON_GetObjectItemCaseSensitive(train, of_train[i]), folder);
        move_path(source, cJSON_GetObjectItemCaseSensitive(source, of_source[i]), folder);
    }
    for (int i = 0; cJSON_IsArray(files) && i < cJSON_GetArraySize(files); i++)
        move_path(files, cJSON_GetArrayItem(files, i), folder);
    free(folder);
}

enum rh_status experiment_read(const char *path, const char *const *settings, int setting_count,
                               cJSON **json)
{
    enum rh_status status = strcmp(path, "-") == 0 ? read_stdin(json) : json_read_file(path, json);
    if (status == RH_OK && strcmp(path, "-") != 0)
        move_paths(*json, path);
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
