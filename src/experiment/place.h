/* From an experiment to a checked, placed plan, and which device of the cluster is behind each of
 * its local devices. */
#ifndef REHEARSE_EXPERIMENT_PLACE_H
#define REHEARSE_EXPERIMENT_PLACE_H

#include "experiment/experiment.h"

/* Plan built, checked and placed, memory not looked at. */
enum rh_status place_build(const struct experiment *experiment, struct strategy_plan *plan);
/* RH_OUT_OF_MEMORY where a GPU or a node's host does not hold its share, with what it asks and what
 * there is. */
struct shortage {
    double asked_bytes, available_bytes;
};
enum rh_status place_fits(const struct experiment *experiment, const struct plan *plan,
                          struct shortage *shortage);
/* Global number of a worker's local device (gpus: the host of its first GPU's node). */
int place_worker_device(const struct experiment *experiment, const struct plan *plan, int worker,
                        int local);
/* Context, libraries and communicators on a device. */
double place_runtime_bytes(const struct experiment *experiment, const struct plan *plan, int role,
                           int device);

#endif
