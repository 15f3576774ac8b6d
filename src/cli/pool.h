/* Cases in processes of their own (a simulation engine lives once a process), as many at a time as
 * there are cores, each answering with JSON over a pipe. */
#ifndef REHEARSE_CLI_POOL_H
#define REHEARSE_CLI_POOL_H

#include <cjson/cJSON.h>

#include "base/status.h"

struct pool {
    int cases, jobs;
    const void *context;
    /* In the child: the answer of case `index`; freed by the pool. */
    cJSON *(*answer)(const void *context, int index);
    /* In the parent, after each end; NULL: no progress wanted. */
    void (*progress)(int done, int cases);
};

/* Fills answers[cases]; NULL where the process died. The caller frees them. */
enum rh_status pool_run(const struct pool *pool, cJSON **answers);

#endif
