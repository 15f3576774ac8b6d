/* Labelled images as rows of a batch: shuffled, scaled, normalized. */
#ifndef REHEARSE_DATA_IMAGES_H
#define REHEARSE_DATA_IMAGES_H

#include "data/dataset.h"

struct images;

/* See dataset_open. */
enum rh_status images_open(const struct data_source *source, uint64_t seed,
                           const struct dataset_column columns[DATASET_COLUMNS], int64_t batch,
                           struct images **out);
void images_free(struct images *images);
/* Rows [first, first + count) of the batch of `step`: fp32 images, int64 labels. */
void images_rows(const struct images *images, int column, int64_t step, int64_t first,
                 int64_t count, void *data);

#endif
