/* How the learning rate changes from step to step: torch.optim.lr_scheduler's rules, in closed form,
 * with a step of the optimizer as their unit. */
#ifndef REHEARSE_EXPERIMENT_LEARNING_RATE_H
#define REHEARSE_EXPERIMENT_LEARNING_RATE_H

#include <cjson/cJSON.h>

#include "base/status.h"

enum schedule_kind {
    SCHEDULE_CONSTANT,
    SCHEDULE_STEP,        /* StepLR: times gamma every step_size steps */
    SCHEDULE_MULTI_STEP,  /* MultiStepLR: times gamma at each milestone */
    SCHEDULE_EXPONENTIAL, /* ExponentialLR: times gamma every step */
    SCHEDULE_COSINE,      /* CosineAnnealingLR: from lr down to eta_min in t_max steps, and up again */
    SCHEDULE_LINEAR,      /* LinearLR: the factor goes from start_factor to end_factor */
};
enum { SCHEDULE_MILESTONES = 16 };

struct rate_schedule {
    enum schedule_kind kind;
    int step_size;
    int milestones[SCHEDULE_MILESTONES], milestone_count; /* ascending */
    double gamma;
    int t_max;
    double eta_min;
    double start_factor, end_factor;
    int total_iters;
    int warmup_steps; /* before all others: the rate of step k is times (k + 1) / (warmup_steps + 1);
                         the schedule begins behind it */
};

/* `train.lr_schedule`: a name, or an object with `type`; absent: constant. */
enum rh_status rate_schedule_read(const cJSON *train, const char *where,
                                  struct rate_schedule *schedule);
/* The rate of step 0, 1, …, where `rate` is the optimizer's `lr`. */
double rate_schedule_at(const struct rate_schedule *schedule, double rate, int step);

#endif
