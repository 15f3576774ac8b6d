/* What ranks.c and messages.c share: a session's communicators. */
#ifndef REHEARSE_BACKENDS_CUDA_COMMUNICATORS_H
#define REHEARSE_BACKENDS_CUDA_COMMUNICATORS_H

#include <nccl.h>

#include "backends/cuda/session.h"
#include "base/rank.h"
#include "plan/communicators.h"

struct ranks {
    struct rank self;
    double timeout_seconds;
    ncclComm_t world;
    struct communicator_use *uses;
    ncclComm_t *communicators; /* per use; NULL: this rank is in no instance, or alone */
    int count;
    void **scratch; /* per stream of this rank: messages whose bytes do not lie as they travel */
    size_t *scratch_bytes;
    int scratch_count;
};

/* "rank 2: what: the library's words". */
enum rh_status ranks_failed(const struct ranks *ranks, const char *what, ncclResult_t error);
#define NCCL_DO(ranks, call)                                                                       \
    do {                                                                                           \
        ncclResult_t error_ = (call);                                                              \
        if (error_ != ncclSuccess && error_ != ncclInProgress)                                     \
            return ranks_failed(ranks, #call, error_);                                             \
    } while (0)
/* Communicators do not block: waits until a call is done, or fails in time. */
enum rh_status ranks_settle(const struct ranks *ranks, ncclComm_t communicator, const char *what);
ncclComm_t ranks_find(const struct ranks *ranks, int group, const char *stream);

/* messages.c: scratch for the session's plan, at load; nothing where no message needs it. */
enum rh_status messages_make(struct session *session);
void messages_drop(struct session *session);

#endif
