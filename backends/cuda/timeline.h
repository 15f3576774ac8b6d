/* The timeline of a traced run, and NVTX ranges with launch eager: the hooks that issue, wrapped. A
 * traced instruction stands between two events on its stream; in a graph these are nodes of it. */
#ifndef REHEARSE_BACKENDS_CUDA_TIMELINE_H
#define REHEARSE_BACKENDS_CUDA_TIMELINE_H

#include "backends/cuda/session.h"
#include "plan/untimed.h"

/* Plans the spans of all lists and makes their events. Leaves session->timeline NULL where nobody
 * looks: launch graph, untraced. */
enum rh_status timeline_make(struct session *session);
void timeline_drop(struct session *session);

/* Hooks that issue by `inner`, which must outlive them; `inner` itself without a timeline. */
struct untimed_hooks timeline_wrap(struct session *session, int list,
                                   const struct untimed_hooks *inner);

/* What the list that began at `begin` and has ended measured, as spans of `step`; `offset_seconds`
 * is where the run's timeline stands at `begin`. Of several ranks all must call it. */
enum rh_status timeline_read(struct session *session, int list, int step, double offset_seconds,
                             cudaEvent_t begin, struct result *result);

#endif
