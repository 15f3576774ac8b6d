/* Checkpoints: what a training needs to go on as if it had never stopped, in one safetensors file.
 * Tensors by the names of stored.h; in the metadata what kind of file it is, the steps done, the
 * optimizer, and what decides the data: its source, its seed and the samples of a step. */
#ifndef REHEARSE_EXPERIMENT_CHECKPOINT_H
#define REHEARSE_EXPERIMENT_CHECKPOINT_H

#include "experiment/experiment.h"
#include "experiment/stored.h"

struct checkpoint {
    struct safetensors file; /* memory NULL: none, the training begins */
    int step;                /* steps done */
};

/* Reads and checks train.resume against the experiment: model, optimizer, data, steps. Without the
 * key an empty checkpoint. */
enum rh_status checkpoint_open(const struct experiment *experiment,
                               const struct strategy_plan *plan, struct checkpoint *checkpoint);
void checkpoint_close(struct checkpoint *checkpoint);

/* Tensors of a training after `step` steps to train.save: whole or not at all. */
enum rh_status checkpoint_write(const struct experiment *experiment, int step,
                                const struct named_tensor *tensors, int count);

#endif
