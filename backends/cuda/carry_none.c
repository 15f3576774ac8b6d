#include "backends/cuda/carry.h"

enum rh_status carry_by_mpi(const struct rank *self, void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
    return fail(RH_INVALID,
                "rank %d of %d: nothing carries NCCL's id to it: name a file in a folder that all "
                "ranks see in REHEARSE_RENDEZVOUS, or build with MPI (configure --with-mpi)",
                self->rank, self->ranks);
}
