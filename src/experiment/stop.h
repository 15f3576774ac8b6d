/* Ending a training at a step's end when SIGTERM or SIGINT asks for it: the signals are blocked and
 * looked for between steps, so that no handler is needed. */
#ifndef REHEARSE_EXPERIMENT_STOP_H
#define REHEARSE_EXPERIMENT_STOP_H

#include <signal.h>
#include <stdbool.h>

struct stop {
    bool armed;
    sigset_t before; /* the mask to go back to */
};

/* From here on the signals wait. Threads made before keep their own mask. */
void stop_arm(struct stop *stop);
/* The signal that came since, or 0; never waits. 0 where not armed. */
int stop_asked(const struct stop *stop);
/* Signals act again, those that still wait at once. */
void stop_release(struct stop *stop);

#endif
