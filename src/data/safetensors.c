#include "data/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

static const struct {
    const char *name;
    enum dtype dtype;
} types[] = {
    {"F32", DTYPE_F32}, {"F16", DTYPE_F16}, {"BF16", DTYPE_BF16},
    {"I64", DTYPE_I64}, {"I32", DTYPE_I32},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

/* The format's own limit, so that a wrong length does not make a parser of gigabytes. */
static const uint64_t HEADER_MOST = 100000000;

static enum rh_status read_type(const char *path, const char *name, const cJSON *entry,
                                struct tensor_type *type)
{
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    int rank = cJSON_GetArraySize(shape);
    bool known = false;
    for (int i = 0; i < TYPE_COUNT && cJSON_IsString(dtype); i++)
        if (strcmp(types[i].name, dtype->valuestring) == 0) {
            type->dtype = types[i].dtype;
            known = true;
        }
    if (!known)
        return fail(RH_INVALID, "'%s': tensor '%s' has element type '%s', which is not read", path,
                    name, cJSON_IsString(dtype) ? dtype->valuestring : "(none)");
    if (!cJSON_IsArray(shape) || rank > MAX_RANK)
        return fail(RH_INVALID, "'%s': tensor '%s' has %d dimensions; at most %d", path, name, rank,
                    MAX_RANK);
    type->shape = (struct shape){.rank = rank};
    for (int i = 0; i < rank; i++) {
        const cJSON *dim = cJSON_GetArrayItem(shape, i);
        if (!cJSON_IsNumber(dim) || !(dim->valuedouble >= 0 && dim->valuedouble <= 0x1p40) ||
            dim->valuedouble != (double)(int64_t)dim->valuedouble)
            return fail(RH_INVALID, "'%s': tensor '%s': dimension %d is not a size", path, name, i);
        type->shape.dim[i] = (int64_t)dim->valuedouble;
    }
    return RH_OK;
}

/* One entry of the header: its range must lie in the data and be as long as its shape says. */
static enum rh_status read_entry(const char *path, const cJSON *entry, char *data,
                                 double data_bytes, struct named_tensor *tensor)
{
    RETURN_IF_FAILED(read_type(path, entry->string, entry, &tensor->type));
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    const cJSON *begin = cJSON_GetArrayItem(offsets, 0);
    const cJSON *end = cJSON_GetArrayItem(offsets, 1);
    double elements = 1;
    for (int i = 0; i < tensor->type.shape.rank; i++)
        elements *= (double)tensor->type.shape.dim[i];
    double bytes = elements * (double)dtype_bytes(tensor->type.dtype);
    if (cJSON_GetArraySize(offsets) != 2 || !cJSON_IsNumber(begin) || !cJSON_IsNumber(end))
        return fail(RH_INVALID, "'%s': tensor '%s' has no data_offsets", path, entry->string);
    double first = begin->valuedouble;
    double last = end->valuedouble;
    if (!(first >= 0 && first <= last && last <= data_bytes) || first != (double)(int64_t)first)
        return fail(RH_INVALID, "'%s': tensor '%s' lies at %.0f to %.0f of %.0f data bytes", path,
                    entry->string, first, last, data_bytes);
    if (last - first != bytes)
        return fail(RH_INVALID, "'%s': tensor '%s' has %.0f bytes; its shape needs %.0f", path,
                    entry->string, last - first, bytes);
    tensor->name = text_copy(entry->string);
    tensor->data = data + (int64_t)first;
    return RH_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct named_tensor *const *x = a;
    const struct named_tensor *const *y = b;
    const char *p = (*x)->data;
    const char *q = (*y)->data;
    if (p != q)
        return p < q ? -1 : 1;
    size_t n = type_bytes(&(*x)->type);
    size_t m = type_bytes(&(*y)->type);
    return n < m ? -1 : n > m;
}

/* The format wants the data covered: no byte in two tensors, none in no tensor. */
static enum rh_status check_ranges(const char *path, const struct safetensors *file,
                                   const char *data, size_t data_bytes)
{
    const struct named_tensor **order = memory_new_array((size_t)file->count, sizeof *order);
    enum rh_status status = RH_OK;
    size_t end = 0;
    for (int i = 0; i < file->count; i++)
        order[i] = &file->tensors[i];
    qsort(order, (size_t)file->count, sizeof *order, by_place);
    for (int i = 0; i < file->count && status == RH_OK; i++) {
        size_t first = (size_t)((const char *)order[i]->data - data);
        if (end > first)
            status = fail(RH_INVALID, "'%s': tensors '%s' and '%s' overlap by %zu bytes", path,
                          order[i - 1]->name, order[i]->name, end - first);
        else if (end < first)
            status =
                fail(RH_INVALID, "'%s': tensor '%s' starts at %zu; the data before it ends at %zu",
                     path, order[i]->name, first, end);
        end = first + type_bytes(&order[i]->type);
    }
    if (status == RH_OK && end != data_bytes)
        status = fail(RH_INVALID, "'%s' has %zu data bytes; the tensors take %zu", path, data_bytes,
                      end);
    free(order);
    return status;
}

static enum rh_status read_metadata(const char *path, const cJSON *metadata,
                                    struct safetensors *file)
{
    int capacity = 0;
    if (!cJSON_IsObject(metadata))
        return fail(RH_INVALID, "'%s': __metadata__ is not an object", path);
    for (const cJSON *item = metadata->child; item; item = item->next) {
        if (!cJSON_IsString(item))
            return fail(RH_INVALID, "'%s': '%s' in __metadata__ is not a string", path,
                        item->string);
        struct named_text *text = ARRAY_ADD(file->metadata, file->metadata_count, capacity);
        text->name = text_copy(item->string);
        text->text = text_copy(item->valuestring);
    }
    return RH_OK;
}

static enum rh_status read_entries(const char *path, const cJSON *json, char *data,
                                   size_t data_bytes, struct safetensors *file)
{
    int capacity = 0;
    if (!cJSON_IsObject(json))
        return fail(RH_INVALID, "'%s': the header is not an object", path);
    for (const cJSON *item = json->child; item; item = item->next) {
        if (strcmp(item->string, "__metadata__") == 0) {
            RETURN_IF_FAILED(read_metadata(path, item, file));
            continue;
        }
        struct named_tensor *tensor = ARRAY_ADD(file->tensors, file->count, capacity);
        RETURN_IF_FAILED(read_entry(path, item, data, (double)data_bytes, tensor));
    }
    return check_ranges(path, file, data, data_bytes);
}

static enum rh_status read_header(const char *path, char *memory, size_t bytes,
                                  struct safetensors *file)
{
    uint64_t header_bytes = 0;
    if (bytes < 8)
        return fail(RH_INVALID, "'%s' is no safetensors file: %zu bytes, at least 8 expected", path,
                    bytes);
    for (int i = 0; i < 8; i++)
        header_bytes |= (uint64_t)(unsigned char)memory[i] << (8 * i);
    if (header_bytes > bytes - 8)
        return fail(RH_INVALID,
                    "'%s' is cut off or no safetensors file: header of %llu bytes, %zu are there",
                    path, (unsigned long long)header_bytes, bytes - 8);
    if (header_bytes > HEADER_MOST)
        return fail(RH_INVALID, "'%s': header of %llu bytes; at most %llu", path,
                    (unsigned long long)header_bytes, (unsigned long long)HEADER_MOST);
    const char *nul = memchr(memory + 8, '\0', (size_t)header_bytes);
    if (nul)
        return fail(RH_INVALID, "'%s': the header has a NUL byte at %zu of its %llu", path,
                    (size_t)(nul - (memory + 8)), (unsigned long long)header_bytes);
    char *header = memory_new((size_t)header_bytes + 1);
    cJSON *json = NULL;
    memcpy(header, memory + 8, (size_t)header_bytes);
    enum rh_status status = json_read_text(path, header, &json);
    free(header);
    RETURN_IF_FAILED(status);
    status = read_entries(path, json, memory + 8 + header_bytes, bytes - 8 - header_bytes, file);
    cJSON_Delete(json);
    return status;
}

enum rh_status safetensors_read(const char *path, struct safetensors *file)
{
    size_t bytes = 0;
    *file = (struct safetensors){0};
    char *memory = text_read_file(path, &bytes);
    if (!memory)
        return RH_INVALID;
    file->memory = memory;
    enum rh_status status = read_header(path, memory, bytes, file);
    if (status != RH_OK)
        safetensors_free(file);
    return status;
}

void safetensors_free(struct safetensors *file)
{
    for (int i = 0; i < file->count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    for (int i = 0; i < file->metadata_count; i++) {
        free(file->metadata[i].name);
        free(file->metadata[i].text);
    }
    free(file->metadata);
    free(file->memory);
    *file = (struct safetensors){0};
}

const struct named_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *file, const char *name)
{
    for (int i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].name, name) == 0)
            return file->metadata[i].text;
    return NULL;
}

static char *make_header(const struct named_text *metadata, int metadata_count,
                         const struct named_tensor *tensors, int count)
{
    cJSON *json = cJSON_CreateObject();
    double at = 0;
    cJSON *texts = metadata_count ? cJSON_AddObjectToObject(json, "__metadata__") : NULL;
    for (int i = 0; i < metadata_count; i++)
        cJSON_AddStringToObject(texts, metadata[i].name, metadata[i].text);
    for (int i = 0; i < count; i++) {
        const struct tensor_type *type = &tensors[i].type;
        cJSON *entry = cJSON_AddObjectToObject(json, tensors[i].name);
        /* tf32 is a way to compute, stored as fp32 */
        enum dtype stored = type->dtype == DTYPE_TF32 ? DTYPE_F32 : type->dtype;
        for (int t = 0; t < TYPE_COUNT; t++)
            if (types[t].dtype == stored)
                cJSON_AddStringToObject(entry, "dtype", types[t].name);
        cJSON *shape = cJSON_AddArrayToObject(entry, "shape");
        for (int d = 0; d < type->shape.rank; d++)
            cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)type->shape.dim[d]));
        cJSON *offsets = cJSON_AddArrayToObject(entry, "data_offsets");
        cJSON_AddItemToArray(offsets, cJSON_CreateNumber(at));
        at += (double)type_bytes(type);
        cJSON_AddItemToArray(offsets, cJSON_CreateNumber(at));
    }
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

static bool write_all(FILE *file, const char *header, const struct named_tensor *tensors, int count)
{
    size_t length = strlen(header);
    size_t padded = (length + 7) / 8 * 8; /* data aligned to 8 bytes, as the format asks for */
    unsigned char prefix[8];
    bool fine = true;
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)(padded >> (8 * i));
    fine = fwrite(prefix, 1, 8, file) == 8 && fwrite(header, 1, length, file) == length;
    for (size_t i = length; i < padded && fine; i++)
        fine = fputc(' ', file) != EOF;
    for (int i = 0; i < count && fine; i++) {
        size_t bytes = type_bytes(&tensors[i].type);
        fine = bytes == 0 || fwrite(tensors[i].data, 1, bytes, file) == bytes;
    }
    return fine && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

/* A rename lasts only once its folder is on the disk. */
static bool sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? text_format("%.*s", (int)(slash - path) + 1, path) : text_copy(".");
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool fine = file >= 0 && (fsync(file) == 0 || errno == EINVAL); /* some systems cannot */
    if (file >= 0)
        close(file);
    free(folder);
    return fine;
}

enum rh_status safetensors_write_with(const char *path, const struct named_text *metadata,
                                      int metadata_count, const struct named_tensor *tensors,
                                      int count)
{
    char *temporary = text_format("%s.%ld.tmp", path, (long)getpid());
    char *header = make_header(metadata, metadata_count, tensors, count);
    FILE *file = fopen(temporary, "wb");
    bool fine = file && write_all(file, header, tensors, count);
    int error = errno;
    if (file && fclose(file) != 0 && fine) {
        fine = false;
        error = errno;
    }
    if (fine && !(fine = rename(temporary, path) == 0 && sync_folder(path)))
        error = errno;
    if (!fine && file)
        unlink(temporary);
    free(header);
    free(temporary);
    return fine ? RH_OK : fail(RH_FAILED, "cannot write '%s': %s", path, strerror(error));
}

enum rh_status safetensors_write(const char *path, const struct named_tensor *tensors, int count)
{
    return safetensors_write_with(path, NULL, 0, tensors, count);
}
