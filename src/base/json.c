#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static enum rh_status check_duplicates(const cJSON *value, const char *name)
{
    for (const cJSON *item = value->child; item; item = item->next) {
        if (cJSON_IsObject(value)) {
            for (const cJSON *other = item->next; other; other = other->next)
                if (strcmp(item->string, other->string) == 0)
                    return fail(RH_INVALID, "'%s': key '%s' is given twice", name, item->string);
        }
        RETURN_IF_FAILED(check_duplicates(item, name));
    }
    return RH_OK;
}

enum rh_status json_read_text(const char *name, const char *text, cJSON **root)
{
    const char *end = NULL;
    *root = cJSON_ParseWithOpts(text, &end, true);
    if (!*root) {
        int line = 1;
        for (const char *c = text; end && c < end && *c; c++)
            line += *c == '\n';
        return fail(RH_INVALID, "'%s' is not JSON: line %d, near \"%.20s\"", name, line,
                    end && *end ? end : "end of file");
    }
    enum rh_status status = check_duplicates(*root, name);
    if (status != RH_OK) {
        cJSON_Delete(*root);
        *root = NULL;
    }
    return status;
}

enum rh_status json_read_file(const char *path, cJSON **root)
{
    *root = NULL;
    char *text = text_read_file(path, NULL);
    if (!text)
        return RH_INVALID;
    enum rh_status status = json_read_text(path, text, root);
    free(text);
    return status;
}

enum rh_status json_check_keys(const cJSON *object, const char *where, const char *const *keys,
                               int count)
{
    if (!cJSON_IsObject(object))
        return fail(RH_INVALID, "%s: an object is expected", where);
    for (const cJSON *item = object->child; item; item = item->next) {
        bool known = false;
        for (int i = 0; i < count && !known; i++)
            known = strcmp(item->string, keys[i]) == 0;
        if (known)
            continue;
        const char *nearest = text_nearest(item->string, keys, count);
        if (nearest)
            return fail(RH_INVALID, "%s: unknown key '%s'; did you mean '%s'?", where, item->string,
                        nearest);
        struct text list = {0};
        for (int i = 0; i < count; i++)
            text_add(&list, "%s%s", i ? ", " : "", keys[i]);
        fail(RH_INVALID, "%s: unknown key '%s'; known: %s", where, item->string, list.data);
        free(list.data);
        return RH_INVALID;
    }
    return RH_OK;
}

static enum rh_status require(const cJSON *object, const char *where, const char *key)
{
    if (!cJSON_GetObjectItemCaseSensitive(object, key))
        return fail(RH_INVALID, "%s: key '%s' is missing", where, key);
    return RH_OK;
}

enum rh_status json_number(const cJSON *object, const char *where, const char *key, double least,
                           double most, double *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item)
        return RH_OK;
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return fail(RH_INVALID, "%s: '%s' must be a number", where, key);
    if (item->valuedouble < least || item->valuedouble > most)
        return fail(RH_INVALID, "%s: '%s' is %g; it must be between %g and %g", where, key,
                    item->valuedouble, least, most);
    *value = item->valuedouble;
    return RH_OK;
}

enum rh_status json_integer(const cJSON *object, const char *where, const char *key, int64_t least,
                            int64_t most, int64_t *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item)
        return RH_OK;
    if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble))
        return fail(RH_INVALID, "%s: '%s' must be a whole number", where, key);
    if (item->valuedouble < (double)least || item->valuedouble > (double)most)
        return fail(RH_INVALID, "%s: '%s' is %.0f; it must be between %lld and %lld", where, key,
                    item->valuedouble, (long long)least, (long long)most);
    *value = (int64_t)item->valuedouble;
    return RH_OK;
}

enum rh_status json_bool(const cJSON *object, const char *where, const char *key, bool *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item)
        return RH_OK;
    if (!cJSON_IsBool(item))
        return fail(RH_INVALID, "%s: '%s' must be true or false", where, key);
    *value = cJSON_IsTrue(item);
    return RH_OK;
}

enum rh_status json_string(const cJSON *object, const char *where, const char *key,
                           const char **value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item)
        return RH_OK;
    if (!cJSON_IsString(item))
        return fail(RH_INVALID, "%s: '%s' must be a string", where, key);
    *value = item->valuestring;
    return RH_OK;
}

enum rh_status json_number_required(const cJSON *object, const char *where, const char *key,
                                    double least, double most, double *value)
{
    RETURN_IF_FAILED(require(object, where, key));
    return json_number(object, where, key, least, most, value);
}

enum rh_status json_integer_required(const cJSON *object, const char *where, const char *key,
                                     int64_t least, int64_t most, int64_t *value)
{
    RETURN_IF_FAILED(require(object, where, key));
    return json_integer(object, where, key, least, most, value);
}

enum rh_status json_string_required(const cJSON *object, const char *where, const char *key,
                                    const char **value)
{
    RETURN_IF_FAILED(require(object, where, key));
    return json_string(object, where, key, value);
}

enum rh_status json_choice(const char *what, const char *word, const char *const *names, int count,
                           int *index)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(word, names[i]) == 0) {
            *index = i;
            return RH_OK;
        }
    }
    const char *nearest = text_nearest(word, names, count);
    if (nearest)
        return fail(RH_INVALID, "unknown %s '%s'; did you mean '%s'?", what, word, nearest);
    struct text list = {0};
    for (int i = 0; i < count; i++)
        text_add(&list, "%s%s", i ? ", " : "", names[i]);
    fail(RH_INVALID, "unknown %s '%s'; known: %s", what, word, list.data);
    free(list.data);
    return RH_INVALID;
}
