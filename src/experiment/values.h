/* The numbers that go into a run and come out: initial values, batches, learning rate, saved
 * results. */
#ifndef REHEARSE_EXPERIMENT_VALUES_H
#define REHEARSE_EXPERIMENT_VALUES_H

#include "data/dataset.h"
#include "data/safetensors.h"
#include "experiment/experiment.h"

struct values {
    const struct experiment *experiment;
    const struct strategy_plan *plan;
    struct dataset *dataset;
    struct safetensors init; /* tensors NULL: none */
};

enum rh_status values_open(struct values *values, const struct experiment *experiment,
                           const struct strategy_plan *plan);
void values_close(struct values *values);
/* Parameters and statistics to all workers that hold them. */
enum rh_status values_write(struct values *values, struct session *session);
/* Parameters and statistics of the first worker that holds them, to experiment->save_path. */
enum rh_status values_save(struct values *values, struct session *session);
/* backend_feed.fill; the context is a struct values. */
enum rh_status values_fill(void *context, int worker, int step, int pass,
                           const struct buffer *buffer, const int coordinate[MESH_MAX_AXES],
                           void *data);

#endif
