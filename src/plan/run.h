/* The order in which the lists of a plan run: an argument of a backend's `run`, given by a strategy. */
#ifndef REHEARSE_PLAN_RUN_H
#define REHEARSE_PLAN_RUN_H

#include <stdbool.h>

/* `list` runs `repeat` times; each is a pass of the current step, the last of them ends it where
 * `ends_step` (then repeat is 1). */
struct run_entry {
    int list;
    int repeat;
    bool ends_step; /* false: passes of the step that a later entry ends (accumulation) */
};

/* The entries run in order; those from `loop_first` on are one step that repeats until `steps` steps
 * have ended. Example, DDP with 4 accumulation passes: {accumulate_first,1} {accumulate,2}
 * {first,1,ends} | {accumulate_first,1} {accumulate,2} {steady,1,ends}, loop_first 3. */
struct run_order {
    const struct run_entry *entries;
    int count, loop_first;
    int steps;
};

#endif
