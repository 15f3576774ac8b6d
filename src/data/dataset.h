/* Where batches come from: synthetic samples that depend on (seed, sample) alone, so that every
 * split over ranks and microbatches sees the same global batch; or a safetensors file of batches.
 */
#ifndef REHEARSE_DATA_DATASET_H
#define REHEARSE_DATA_DATASET_H

#include "base/status.h"
#include "data/safetensors.h"
#include "op/type.h"

struct dataset;

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
void dataset_free(struct dataset *dataset);

/* Rows [first, first + count) of the batch of `step`, which has `batch` rows, as dense memory. */
enum rh_status dataset_rows(const struct dataset *dataset, int column, int64_t step, int64_t batch,
                            int64_t first, int64_t count, void *data);

#endif
