/* NCCL's id from rank 0 to all: by files where REHEARSE_RENDEZVOUS names one, else by MPI. */
#ifndef REHEARSE_BACKENDS_CUDA_CARRY_H
#define REHEARSE_BACKENDS_CUDA_CARRY_H

#include <stddef.h>

#include "base/rank.h"

/* Every rank calls it, any number of times; `data` is given by rank 0 and filled for the others.
 * MPI is the program rehearse-mpi, started by the first call that needs it: REHEARSE_MPI, or beside
 * this program, or installed. When this process exits it ends with it, and with a failed process
 * the whole job. RH_INVALID where there is no such program, or where MPI does not see the ranks
 * that the environment tells of; RH_FAILED after `timeout_seconds` without an answer. */
enum rh_status carry_share(const struct rank *self, double timeout_seconds, void *data,
                           size_t bytes);

#endif
