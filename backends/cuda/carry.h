/* NCCL's id from rank 0 to all: by files where REHEARSE_RENDEZVOUS names one, else by MPI. */
#ifndef REHEARSE_BACKENDS_CUDA_CARRY_H
#define REHEARSE_BACKENDS_CUDA_CARRY_H

#include <stddef.h>

#include "base/rank.h"

/* Every rank calls it; `data` is given by rank 0 and filled for the others. RH_INVALID where there
 * is no way, and where MPI does not see the ranks that the environment tells of. */
enum rh_status carry_share(const struct rank *self, double timeout_seconds, void *data,
                           size_t bytes);

/* carry_mpi.c or, in a build without MPI, carry_none.c. The first call starts MPI unless the
 * program has; then the end of the process ends it, or the whole job where this rank failed. */
enum rh_status carry_by_mpi(const struct rank *self, void *data, size_t bytes);

#endif
