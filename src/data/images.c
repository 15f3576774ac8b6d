#include "data/images.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "data/records.h"

/* The order of one epoch, made when it is first asked for. */
struct order {
    int64_t epoch; /* -1: none yet */
    int64_t *record;
};

struct images {
    struct records records;
    uint64_t seed;
    bool shuffle;
    int64_t batch;
    float value[DATA_MOST_CHANNELS][256]; /* of a pixel */
    struct order *order;
};

/* The model may leave out a single channel, or take the pixels as one row. */
static bool shape_fits(const struct shape *image, const struct shape *sample)
{
    if (shape_elements(image) != shape_elements(sample))
        return false;
    return sample->rank == 1 || shape_equal(image, sample) ||
           (image->dim[0] == 1 && sample->rank == 2 && sample->dim[0] == image->dim[1]);
}

static enum rh_status check_columns(const struct images *m, const struct data_source *source,
                                    const struct dataset_column columns[DATASET_COLUMNS])
{
    char got[64];
    char expected[64];
    const char *path = source->files[0];
    const struct dataset_column *input = &columns[DATASET_INPUT];
    const struct dataset_column *target = &columns[DATASET_TARGET];
    const struct records *r = &m->records;
    if (input->dtype != DTYPE_F32 || !shape_fits(&r->image, &input->sample))
        return fail(RH_INVALID, "'%s': images are fp32 %s, the model wants %s %s", path,
                    shape_text(got, &r->image), dtype_name(input->dtype),
                    shape_text(expected, &input->sample));
    if (target->dtype != DTYPE_I64 || target->sample.rank != 0)
        return fail(RH_INVALID, "'%s': labels are class numbers, the loss wants %s %s", path,
                    dtype_name(target->dtype), shape_text(expected, &target->sample));
    for (int64_t i = 0; i < r->count; i++)
        if (r->labels[(size_t)i * r->label_stride] >= target->limit)
            return fail(RH_INVALID, "'%s': record %lld has label %d, the model has %lld classes",
                        source->files[source->kind == DATA_IDX], (long long)i,
                        r->labels[(size_t)i * r->label_stride], (long long)target->limit);
    if (source->channels && source->channels != r->image.dim[0])
        return fail(RH_INVALID, "'%s': %lld channels, mean and std are given for %d", path,
                    (long long)r->image.dim[0], source->channels);
    return RH_OK;
}

static void make_values(struct images *m, const struct data_source *source)
{
    for (int c = 0; c < DATA_MOST_CHANNELS; c++)
        for (int pixel = 0; pixel < 256; pixel++) {
            double value = pixel / 255.0;
            if (c < source->channels)
                value = (value - source->mean[c]) / source->deviation[c];
            m->value[c][pixel] = (float)value;
        }
}

enum rh_status images_open(const struct data_source *source, uint64_t seed,
                           const struct dataset_column columns[DATASET_COLUMNS], int64_t batch,
                           struct images **out)
{
    struct images *m = memory_new(sizeof *m);
    *m = (struct images){.seed = seed, .shuffle = source->shuffle, .batch = batch};
    m->order = memory_new(sizeof *m->order);
    m->order->epoch = -1;
    enum rh_status status =
        source->kind == DATA_IDX
            ? records_read_idx(source->files[0], source->files[1], &m->records)
            : records_read_cifar10(source->files, source->file_count, &m->records);
    if (status == RH_OK)
        status = check_columns(m, source, columns);
    if (status == RH_OK && batch > m->records.count)
        status = fail(RH_INVALID, "'%s': a step takes %lld samples, the set has %lld",
                      source->files[0], (long long)batch, (long long)m->records.count);
    if (status != RH_OK) {
        images_free(m);
        m = NULL;
    } else {
        make_values(m, source);
    }
    *out = m;
    return status;
}

void images_free(struct images *m)
{
    records_free(&m->records);
    free(m->order->record);
    free(m->order);
    free(m);
}

/* Fisher-Yates; the order depends on the seed and the epoch alone. */
static void shuffle(const struct images *m, int64_t epoch)
{
    struct order *order = m->order;
    int64_t count = m->records.count;
    uint64_t stream = random_mix(random_mix(m->seed, UINT64_C(0x73687566)), (uint64_t)epoch);
    if (!order->record)
        order->record = memory_new_array((size_t)count, sizeof *order->record);
    for (int64_t i = 0; i < count; i++)
        order->record[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t other = (int64_t)(random_bits(stream, (uint64_t)i) % (uint64_t)(i + 1));
        int64_t kept = order->record[i];
        order->record[i] = order->record[other];
        order->record[other] = kept;
    }
    order->epoch = epoch;
}

static int64_t record_of(const struct images *m, int64_t step, int64_t row)
{
    int64_t steps = m->records.count / m->batch; /* of an epoch */
    int64_t at = step % steps * m->batch + row;
    if (!m->shuffle)
        return at;
    if (m->order->epoch != step / steps)
        shuffle(m, step / steps);
    return m->order->record[at];
}

void images_rows(const struct images *m, int column, int64_t step, int64_t first, int64_t count,
                 void *data)
{
    const struct records *r = &m->records;
    size_t plane = (size_t)(r->image.dim[1] * r->image.dim[2]);
    size_t channels = (size_t)r->image.dim[0];
    for (int64_t i = 0; i < count; i++) {
        size_t record = (size_t)record_of(m, step, first + i);
        if (column == DATASET_TARGET) {
            ((int64_t *)data)[i] = r->labels[record * r->label_stride];
            continue;
        }
        float *to = (float *)data + (size_t)i * channels * plane;
        const unsigned char *from = r->pixels + record * r->pixel_stride;
        for (size_t c = 0; c < channels; c++)
            for (size_t p = 0; p < plane; p++)
                to[c * plane + p] = m->value[c][from[c * plane + p]];
    }
}
