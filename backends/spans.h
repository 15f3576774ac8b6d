/* Which spans a list has in a timeline, without times: what the simulator draws, for a backend that
 * measures. Planned before anything runs, in the order of the untimed engine's calls, so that who
 * issues by it meets them in this order. */
#ifndef REHEARSE_BACKENDS_SPANS_H
#define REHEARSE_BACKENDS_SPANS_H

#include "backends/backend.h"
#include "plan/untimed.h"

struct planned_span {
    struct span span;   /* without step and times */
    int worker, stream; /* of the worker's role */
    int view;           /* of a message; -1 elsewhere */
    int first, count;   /* spans [first, first + count) meet, and start when the last of them can */
};

/* One for each COMPUTE, COPY and BEGIN, one for each member of a collective, two for each message:
 * from, to. Freed by spans_free. */
struct planned_spans {
    struct planned_span *items;
    int count, capacity;
};

enum rh_status spans_plan(const struct plan *plan, const struct backend_options *options, int list,
                          struct planned_spans *spans);
void spans_free(struct planned_spans *spans);

/* Global number of a worker's local device; its node's host is the last. */
int spans_device(const struct plan *plan, const struct backend_options *options, int worker,
                 int local);

/* A way along the planned spans. A range is taken at BEGIN and found again at END. */
struct span_walk {
    const struct planned_spans *spans;
    int next;
    int *open; /* ranges, the last begun last */
    int open_count, open_capacity;
};

void span_walk_start(struct span_walk *walk, const struct planned_spans *spans);
int span_walk_take(struct span_walk *walk, int count); /* the first of the next `count` */
int span_walk_begin(struct span_walk *walk);
int span_walk_end(struct span_walk *walk, int worker, int stream); /* -1: none is open there */
void span_walk_free(struct span_walk *walk);

#endif
