/* The processes of `rehearse launch`: started, watched, ended. */
#ifndef REHEARSE_CLI_JOB_H
#define REHEARSE_CLI_JOB_H

#include <stdbool.h>

#include "base/status.h"

struct job {
    int ranks, timeout;
    bool share_gpu; /* all ranks on one GPU */
    char **command; /* a command of this program with its arguments, NULL; [0] is its name */
};

/* Runs it until all ranks have ended. The first that fails ends the others, and so does one that
 * makes no progress; a signal is passed on to all, and who makes progress may end by itself. A
 * second signal ends all at once. Fails with the rank's exit code, and says why. */
enum rh_status job_run(const struct job *job);

#endif
