#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "data/images.h"

struct dataset {
    uint64_t seed;
    struct dataset_column columns[DATASET_COLUMNS];
    struct safetensors file;
    const struct named_tensor **batches[DATASET_COLUMNS]; /* of a file */
    int batch_count;                                      /* 0: synthetic */
    struct images *images;                                /* NULL: none */
};

static const char *const column_names[DATASET_COLUMNS] = {"input", "target"};

enum rh_status dataset_synthetic(uint64_t seed,
                                 const struct dataset_column columns[DATASET_COLUMNS],
                                 struct dataset **out)
{
    struct dataset *d = memory_new(sizeof *d);
    d->seed = seed;
    memcpy(d->columns, columns, sizeof d->columns);
    *out = d;
    return RH_OK;
}

static enum rh_status check_batch(const char *path, const struct named_tensor *tensor,
                                  const struct dataset_column *column)
{
    char got[64];
    char expected[64];
    struct shape sample = tensor->type.shape;
    if (sample.rank != column->sample.rank + 1 || tensor->type.dtype != column->dtype)
        return fail(RH_INVALID, "'%s': '%s' is %s %s; samples are %s %s", path, tensor->name,
                    dtype_name(tensor->type.dtype), shape_text(got, &tensor->type.shape),
                    dtype_name(column->dtype), shape_text(expected, &column->sample));
    sample.rank--;
    memmove(&sample.dim[0], &sample.dim[1], (size_t)sample.rank * sizeof sample.dim[0]);
    if (!shape_equal(&sample, &column->sample))
        return fail(RH_INVALID, "'%s': samples of '%s' are %s, the model wants %s", path,
                    tensor->name, shape_text(got, &sample), shape_text(expected, &column->sample));
    return RH_OK;
}

static enum rh_status find_batches(struct dataset *d, const char *path)
{
    for (int batch = 0;; batch++) {
        const struct named_tensor *found[DATASET_COLUMNS];
        for (int c = 0; c < DATASET_COLUMNS; c++) {
            char name[32];
            snprintf(name, sizeof name, "%s.%d", column_names[c], batch);
            found[c] = safetensors_find(&d->file, name);
        }
        if (!found[0] && !found[1])
            break;
        if (!found[0] || !found[1])
            return fail(RH_INVALID, "'%s': '%s.%d' has no '%s.%d'", path,
                        column_names[found[0] ? 0 : 1], batch, column_names[found[0] ? 1 : 0],
                        batch);
        for (int c = 0; c < DATASET_COLUMNS; c++) {
            RETURN_IF_FAILED(check_batch(path, found[c], &d->columns[c]));
            d->batches[c] = memory_resize(d->batches[c], (size_t)batch + 1, sizeof *d->batches[c]);
            d->batches[c][batch] = found[c];
        }
        if (found[0]->type.shape.dim[0] != found[1]->type.shape.dim[0])
            return fail(RH_INVALID, "'%s': '%s' has %lld rows, '%s' has %lld", path, found[0]->name,
                        (long long)found[0]->type.shape.dim[0], found[1]->name,
                        (long long)found[1]->type.shape.dim[0]);
        d->batch_count = batch + 1;
    }
    return d->batch_count ? RH_OK : fail(RH_INVALID, "'%s': no 'input.0' in the file", path);
}

enum rh_status dataset_from_file(const char *path,
                                 const struct dataset_column columns[DATASET_COLUMNS],
                                 struct dataset **out)
{
    struct dataset *d = memory_new(sizeof *d);
    memcpy(d->columns, columns, sizeof d->columns);
    enum rh_status status = safetensors_read(path, &d->file);
    if (status == RH_OK)
        status = find_batches(d, path);
    if (status != RH_OK) {
        dataset_free(d);
        d = NULL;
    }
    *out = d;
    return status;
}

const char *data_kind_name(enum data_kind kind)
{
    static const char *const names[DATA_KINDS] = {"synthetic", "batches", "idx", "cifar10"};
    return names[kind];
}

void data_source_free(struct data_source *source)
{
    for (int i = 0; i < source->file_count; i++)
        free(source->files[i]);
    free(source->files);
    *source = (struct data_source){0};
}

enum rh_status dataset_open(const struct data_source *source, uint64_t seed,
                            const struct dataset_column columns[DATASET_COLUMNS], int64_t batch,
                            struct dataset **out)
{
    if (source->kind == DATA_BATCHES)
        return dataset_from_file(source->files[0], columns, out);
    RETURN_IF_FAILED(dataset_synthetic(seed, columns, out));
    if (source->kind == DATA_SYNTHETIC)
        return RH_OK;
    enum rh_status status = images_open(source, seed, columns, batch, &(*out)->images);
    if (status != RH_OK) {
        dataset_free(*out);
        *out = NULL;
    }
    return status;
}

bool dataset_is_dealt(const struct dataset *d)
{
    return d->images;
}

void dataset_free(struct dataset *d)
{
    if (d->images)
        images_free(d->images);
    for (int c = 0; c < DATASET_COLUMNS; c++)
        free(d->batches[c]);
    safetensors_free(&d->file);
    free(d);
}

static void synthesize(const struct dataset *d, int column, int64_t sample, void *data)
{
    const struct dataset_column *c = &d->columns[column];
    int64_t elements = shape_elements(&c->sample);
    uint64_t stream = random_mix(random_mix(d->seed, (uint64_t)column), (uint64_t)sample);
    for (int64_t i = 0; i < elements; i++) {
        if (c->dtype == DTYPE_I64)
            ((int64_t *)data)[i] =
                (int64_t)(random_uniform(stream, (uint64_t)i) * (double)c->limit);
        else
            ((float *)data)[i] = (float)random_normal(stream, (uint64_t)i);
    }
}

enum rh_status dataset_rows(const struct dataset *d, int column, int64_t step, int64_t batch,
                            int64_t first, int64_t count, void *data)
{
    const struct dataset_column *c = &d->columns[column];
    size_t bytes = (size_t)shape_elements(&c->sample) * dtype_bytes(c->dtype);
    if (d->images) {
        images_rows(d->images, column, step, first, count, data);
        return RH_OK;
    }
    if (d->batch_count == 0) {
        for (int64_t i = 0; i < count; i++)
            synthesize(d, column, step * batch + first + i, (char *)data + (size_t)i * bytes);
        return RH_OK;
    }
    const struct named_tensor *source = d->batches[column][step % d->batch_count];
    if (source->type.shape.dim[0] < batch)
        return fail(RH_INVALID, "'%s' has %lld rows, a batch of %lld is asked for", source->name,
                    (long long)source->type.shape.dim[0], (long long)batch);
    memcpy(data, (const char *)source->data + (size_t)first * bytes, (size_t)count * bytes);
    return RH_OK;
}
