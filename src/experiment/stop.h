/* Ending a training at a step's end when SIGTERM or SIGINT asks for it. A second signal ends it at
 * once. */
#ifndef REHEARSE_EXPERIMENT_STOP_H
#define REHEARSE_EXPERIMENT_STOP_H

#include <signal.h>
#include <stdbool.h>

enum { STOP_SIGNALS = 2 };

struct stop {
    bool armed;
    bool held[STOP_SIGNALS]; /* what the process ignores stays ignored */
    struct sigaction before[STOP_SIGNALS];
};

/* From here on a first signal is only noted. */
void stop_arm(struct stop *stop);
/* The signal that came since, or 0; never waits. 0 where not armed. */
int stop_asked(const struct stop *stop);
/* Signals act as before. */
void stop_release(struct stop *stop);

#endif
