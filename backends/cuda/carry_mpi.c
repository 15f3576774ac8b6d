#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/cuda/carry.h"

/* A rank that failed does not wait for the others, which may wait for it. A child of the process
 * that calls exit has no part in it. */
static void end_mpi(int code, void *process)
{
    int ended = 0;
    if ((intptr_t)process != (intptr_t)getpid() || MPI_Finalized(&ended) != MPI_SUCCESS || ended)
        return;
    if (code == 0)
        MPI_Finalize();
    else
        MPI_Abort(MPI_COMM_WORLD, code);
}

static enum rh_status start_mpi(const struct rank *self)
{
    int running = 0;
    int level = 0;
    MPI_Initialized(&running);
    if (running)
        return RH_OK;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return fail(RH_FAILED, "rank %d: MPI does not start", self->rank);
    on_exit(end_mpi, (void *)(intptr_t)getpid());
    return RH_OK;
}

enum rh_status carry_by_mpi(const struct rank *self, void *data, size_t bytes)
{
    int rank = -1;
    int ranks = -1;
    RETURN_IF_FAILED(start_mpi(self));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank != self->rank || ranks != self->ranks)
        return fail(
            RH_INVALID,
            "rank %d of %d: MPI takes it for %d of %d: start it by the mpirun of the MPI of "
            "this build (srun: --mpi), or name a file in REHEARSE_RENDEZVOUS",
            self->rank, self->ranks, rank, ranks);
    if (bytes > INT_MAX || MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
        return fail(RH_FAILED, "rank %d: MPI does not carry %zu bytes", self->rank, bytes);
    return RH_OK;
}
