/* Predicting measurements that others published: compute anchored on a model's own single-GPU row,
 * one constant fitted on one row, every other row predicted and compared. */
#ifndef REHEARSE_CALIBRATE_PUBLISHED_H
#define REHEARSE_CALIBRATE_PUBLISHED_H

#include <cjson/cJSON.h>

#include "experiment/experiment.h"

struct published_row {
    const char *model, *name; /* inside the JSON */
    int gpus;
    bool ddp;    /* false: the single-GPU loop, the anchor of its model */
    bool fitted; /* the constant was fitted on it: not counted */
    double measured_seconds, predicted_seconds, anchor_seconds;
};

struct published {
    cJSON *json; /* owned */
    const char *source;
    struct published_row *rows;
    int count, capacity;
    double bucket_tensor_seconds; /* the fitted constant: device seconds a parameter tensor */
};

/* Reads {"source", "experiment", "fit": {"model", "row"}, "measured": [{"model", "row", "gpus",
 * "ddp", "seconds"}]}; experiments/published holds one. */
enum rh_status published_read(const char *path, struct published *published);
void published_free(struct published *published);

/* Fits the constant and fills predicted_seconds of all DDP rows. */
enum rh_status published_predict(struct platform *platform, struct published *published);

/* Mean and worst |error| over the rows that were not fitted, of a model that says
 * `anchor * factor` (factor 0: of the prediction). */
struct published_error {
    int rows;
    double mean, worst, bias; /* relative */
    const struct published_row *worst_row;
};
struct published_error published_error(const struct published *published, double factor);

#endif
