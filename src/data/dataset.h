/* Where batches come from: synthetic samples that depend on (seed, sample) alone, a safetensors
 * file of batches, or labelled images that are shuffled by seed. Always the same global batch of a
 * step, however it is split over ranks and microbatches. */
#ifndef REHEARSE_DATA_DATASET_H
#define REHEARSE_DATA_DATASET_H

#include <stdbool.h>

#include "base/status.h"
#include "data/safetensors.h"
#include "op/type.h"

struct dataset;

enum data_kind { DATA_SYNTHETIC, DATA_BATCHES, DATA_IDX, DATA_CIFAR10, DATA_KINDS };
const char *data_kind_name(enum data_kind kind); /* "synthetic", "batches", "idx", "cifar10" */

enum { DATA_MOST_CHANNELS = 4 };
struct data_source {
    enum data_kind kind;
    char **files; /* BATCHES: one; IDX: images, labels; CIFAR10: at least one. Owned */
    int file_count, file_capacity;
    bool shuffle;
    int channels; /* of mean and deviation; 0: pixels are between 0 and 1 */
    double mean[DATA_MOST_CHANNELS], deviation[DATA_MOST_CHANNELS];
};
void data_source_free(struct data_source *source); /* the members */

/* What a column holds: fp32 is normal(0, 1); int64 is uniform in [0, limit). */
struct dataset_column {
    struct shape sample; /* without the batch dimension */
    enum dtype dtype;
    int64_t limit;
};
enum { DATASET_INPUT, DATASET_TARGET, DATASET_COLUMNS };

enum rh_status dataset_synthetic(uint64_t seed,
                                 const struct dataset_column columns[DATASET_COLUMNS],
                                 struct dataset **out);
/* "input.0", "target.0", "input.1", … one pair a step, in turn; shapes and types are checked
 * against the columns. */
enum rh_status dataset_from_file(const char *path,
                                 const struct dataset_column columns[DATASET_COLUMNS],
                                 struct dataset **out);
/* Any source. Images become fp32 between 0 and 1, less the mean, over the deviation of their
 * channel. An epoch has as many steps of `batch` rows as are full: what is left over is dropped, as
 * torch's drop_last does; each epoch has its own order if `shuffle`. Shape, classes, and a batch
 * that is larger than the set are checked. */
enum rh_status dataset_open(const struct data_source *source, uint64_t seed,
                            const struct dataset_column columns[DATASET_COLUMNS], int64_t batch,
                            struct dataset **out);
/* Ranks take turns, as in torch's DistributedSampler (rank r of R has rows r, r + R, …); of other
 * sources each has a block. */
bool dataset_is_dealt(const struct dataset *dataset);
void dataset_free(struct dataset *dataset);

/* Rows [first, first + count) of the batch of `step`, which has `batch` rows, as dense memory. */
enum rh_status dataset_rows(const struct dataset *dataset, int column, int64_t step, int64_t batch,
                            int64_t first, int64_t count, void *data);

#endif
