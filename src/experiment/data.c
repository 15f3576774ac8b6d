/* The `data` section. */
#include <string.h>

#include "base/memory.h"
#include "experiment/sections.h"

static void add_file(struct data_source *source, const char *path)
{
    *ARRAY_ADD(source->files, source->file_count, source->file_capacity) = text_copy(path);
}

static enum rh_status read_list(const cJSON *list, const char *where, const char *key, double least,
                                int *count, double values[DATA_MOST_CHANNELS])
{
    int length = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || length < 1 || length > DATA_MOST_CHANNELS)
        return fail(RH_INVALID, "%s: data.source.normalize.%s has %d numbers, 1 to %d are expected",
                    where, key, length, DATA_MOST_CHANNELS);
    for (int i = 0; i < length; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= least && item->valuedouble <= 1e6))
            return fail(RH_INVALID,
                        "%s: number %d in data.source.normalize.%s must be between %g and %g",
                        where, i, key, least, 1e6);
        values[i] = item->valuedouble;
    }
    *count = length;
    return RH_OK;
}

static enum rh_status read_normalize(struct data_source *source, const cJSON *object,
                                     const char *where)
{
    int deviations = 0;
    if (!object)
        return RH_OK;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "mean", "std"));
    RETURN_IF_FAILED(read_list(cJSON_GetObjectItemCaseSensitive(object, "mean"), where, "mean",
                               -1e6, &source->channels, source->mean));
    RETURN_IF_FAILED(read_list(cJSON_GetObjectItemCaseSensitive(object, "std"), where, "std", 1e-6,
                               &deviations, source->deviation));
    if (deviations != source->channels)
        return fail(RH_INVALID, "%s: data.source.normalize has %d means and %d deviations", where,
                    source->channels, deviations);
    return RH_OK;
}

static enum rh_status read_idx(struct data_source *source, const cJSON *object, const char *where)
{
    const char *images = NULL;
    const char *labels = NULL;
    RETURN_IF_FAILED(
        JSON_CHECK_KEYS(object, where, "kind", "images", "labels", "normalize", "shuffle"));
    RETURN_IF_FAILED(json_string_required(object, where, "images", &images));
    RETURN_IF_FAILED(json_string_required(object, where, "labels", &labels));
    add_file(source, images);
    add_file(source, labels);
    return RH_OK;
}

static enum rh_status read_cifar10(struct data_source *source, const cJSON *object,
                                   const char *where)
{
    RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "kind", "files", "normalize", "shuffle"));
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(object, "files");
    if (!cJSON_IsArray(files) || cJSON_GetArraySize(files) < 1)
        return fail(RH_INVALID, "%s: data.source.files must be a list of paths", where);
    for (const cJSON *file = files->child; file; file = file->next) {
        if (!cJSON_IsString(file))
            return fail(RH_INVALID, "%s: path %d in data.source.files is not a string", where,
                        source->file_count);
        add_file(source, file->valuestring);
    }
    return RH_OK;
}

static enum rh_status read_kind(struct data_source *source, const cJSON *object, const char *where)
{
    static const char *const kinds[] = {"synthetic", "batches", "idx", "cifar10"};
    const char *word = "batches"; /* {"file": path} is short for it */
    const char *path = NULL;
    int index = 0;
    RETURN_IF_FAILED(json_string(object, where, "kind", &word));
    RETURN_IF_FAILED(json_choice("data.source.kind", word, kinds, DATA_KINDS, &index));
    source->kind = (enum data_kind)index;
    source->shuffle = true;
    switch (source->kind) {
    case DATA_SYNTHETIC: return JSON_CHECK_KEYS(object, where, "kind");
    case DATA_BATCHES:
        RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "kind", "file"));
        RETURN_IF_FAILED(json_string_required(object, where, "file", &path));
        add_file(source, path);
        return RH_OK;
    case DATA_IDX: RETURN_IF_FAILED(read_idx(source, object, where)); break;
    default: RETURN_IF_FAILED(read_cifar10(source, object, where)); break;
    }
    RETURN_IF_FAILED(json_bool(object, where, "shuffle", &source->shuffle));
    return read_normalize(source, cJSON_GetObjectItemCaseSensitive(object, "normalize"), where);
}

enum rh_status section_data(struct experiment *e, const char *where)
{
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(e->json, "data");
    int64_t seed = 0;
    if (!data)
        return fail(RH_INVALID, "%s: key 'data' is missing (data.batch or data.batch_per_device)",
                    where);
    RETURN_IF_FAILED(
        JSON_CHECK_KEYS(data, where, "batch", "batch_per_device", "source", "seed", "resident"));
    bool whole = cJSON_HasObjectItem(data, "batch");
    bool share = cJSON_HasObjectItem(data, "batch_per_device");
    if (whole == share)
        return fail(RH_INVALID, "%s: data needs exactly one of 'batch' and 'batch_per_device'; %s",
                    where, whole ? "both are given" : "neither is given");
    e->batch_per_device = share;
    RETURN_IF_FAILED(json_integer_required(data, where, share ? "batch_per_device" : "batch", 1,
                                           INT64_C(1) << 40, &e->batch_given));
    RETURN_IF_FAILED(json_integer(data, where, "seed", 0, INT64_C(1) << 53, &seed));
    RETURN_IF_FAILED(json_bool(data, where, "resident", &e->resident));
    e->seed = (uint64_t)seed;
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(data, "source");
    if (cJSON_IsObject(source))
        return read_kind(&e->source, source, where);
    if (source && (!cJSON_IsString(source) || strcmp(source->valuestring, "synthetic") != 0))
        return fail(RH_INVALID,
                    "%s: data.source is \"synthetic\", {\"file\": PATH}, or an object with 'kind'",
                    where);
    return RH_OK;
}
