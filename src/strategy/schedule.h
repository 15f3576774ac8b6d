/* Pipeline schedules as data: the actions of each stage in the order in which it takes them
 * (torch-semantics.md section 8.3; GPipe arXiv 1811.06965, 1F1B arXiv 2104.04473). */
#ifndef REHEARSE_STRATEGY_SCHEDULE_H
#define REHEARSE_STRATEGY_SCHEDULE_H

#include "base/status.h"

enum action_kind { ACTION_FORWARD, ACTION_BACKWARD };

struct action {
    enum action_kind kind;
    int microbatch;
};

struct schedule {
    const char *name; /* "gpipe", "1f1b" */
    /* Writes the 2 * microbatches actions of `stage` of `stages`. */
    void (*actions)(int stage, int stages, int microbatches, struct action *actions);
    int microbatches_per_stage; /* at least this many times `stages` microbatches; 0: any number */
};

enum rh_status schedule_find(const char *name, const struct schedule **schedule);

#endif
