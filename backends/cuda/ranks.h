/* Several processes, one a worker, joined by NCCL. With one process (ranks NULL) nothing here is
 * called, and a kernel of ours does the collectives. */
#ifndef REHEARSE_BACKENDS_CUDA_RANKS_H
#define REHEARSE_BACKENDS_CUDA_RANKS_H

#include "backends/cuda/session.h"
#include "plan/untimed.h"

/* Chooses this process's GPU: the local rank modulo the GPUs that are here. */
enum rh_status ranks_set_device(void);
int ranks_nccl_version(void); /* 22803: 2.28.3 */
/* Joins all ranks and makes the communicators of the session's plan, in the plan's order. Leaves
 * session->ranks NULL for one process, and for a plan of one worker, which each rank runs for
 * itself. RH_INVALID where workers and ranks are not as many; RH_FAILED names the rank. */
enum rh_status ranks_join(struct session *session);
void ranks_leave(struct session *session);                  /* after its graphs are gone */
bool ranks_owns(const struct session *session, int worker); /* always true of one process */
int ranks_communicators(const struct session *session); /* that this rank is in; 0 of one process */

/* This rank's part of a collective or message; nothing where it has none. */
enum rh_status ranks_collect(struct session *session, const struct untimed_member *members,
                             int count, int root);
enum rh_status ranks_transfer(struct session *session, const struct untimed_end *from,
                              const struct untimed_end *to);

/* Waits for the event; an asynchronous error of NCCL, or REHEARSE_TIMEOUT seconds (20), aborts the
 * communicators and fails. */
enum rh_status ranks_wait(struct session *session, cudaEvent_t event);
/* In place, over all ranks: every rank calls it with as many values. */
enum rh_status ranks_sum(struct session *session, double *values, int count, bool maximum);
/* Host bytes of one rank's buffer to all. */
enum rh_status ranks_share(struct session *session, int owner, void *data, size_t bytes);

#endif
