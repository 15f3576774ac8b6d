/* The numbers that go into a run and come out: initial values, batches, learning rate, checkpoints.
 */
#ifndef REHEARSE_EXPERIMENT_VALUES_H
#define REHEARSE_EXPERIMENT_VALUES_H

#include "data/dataset.h"
#include "data/safetensors.h"
#include "experiment/checkpoint.h"
#include "experiment/experiment.h"
#include "experiment/stop.h"

struct values {
    const struct experiment *experiment;
    const struct strategy_plan *plan;
    const struct checkpoint *checkpoint; /* NULL: none */
    struct stored_list stored;
    struct dataset *dataset;
    struct safetensors init; /* tensors NULL: none */
    int first_step;          /* steps done before this run */
    int begun;               /* the last step of this run that began; -1 */
    struct session *session; /* set by the caller before the run */
    struct stop *stop;       /* NULL: signals act as ever */
};

enum rh_status values_open(struct values *values, const struct experiment *experiment,
                           const struct strategy_plan *plan, const struct checkpoint *checkpoint);
void values_close(struct values *values);
/* Parameters, statistics and the optimizer's tensors to all workers that hold them. */
enum rh_status values_write(struct values *values, struct session *session);
/* The same of the first worker that holds each, after `step` steps, to train.save. */
enum rh_status values_save(struct values *values, struct session *session, int step);
/* backend_feed.fill; the context is a struct values. A step's first call saves what is due and
 * fails if a signal asks for the end. */
enum rh_status values_fill(void *context, int worker, int step, int pass,
                           const struct buffer *buffer, const int coordinate[MESH_MAX_AXES],
                           void *data);
/* After the last step: what the scaler came to, the checkpoint, and the signal that came in it. */
enum rh_status values_finish(struct values *values, struct result *result);

#endif
