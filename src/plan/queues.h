/* The instructions of a list sorted into the queues of the streams that they occupy. */
#ifndef REHEARSE_PLAN_QUEUES_H
#define REHEARSE_PLAN_QUEUES_H

#include "plan/plan.h"

struct queues {
    int **items; /* per stream: instruction indices in order */
    int *count;
};

void queues_fill(struct queues *queues, const struct role *role, int list);
void queues_free(struct queues *queues, const struct role *role);

#endif
