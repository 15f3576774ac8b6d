/* rehearse-mpi: started by a rank of mpirun or Slurm, to be that rank to MPI. */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/mpi/mpi.h"

static bool get(void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(STDIN_FILENO, (char *)data + done, bytes - done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool put(const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(STDIN_FILENO, (const char *)data + done, bytes - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool share(uint64_t bytes)
{
    char *data = bytes > 0 && bytes <= INT_MAX ? malloc((size_t)bytes) : NULL;
    bool good = data && get(data, (size_t)bytes) &&
                MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS &&
                put(data, (size_t)bytes);
    free(data);
    return good;
}

int main(int argc, char **argv)
{
    int rank = 0;
    int ranks = 0;
    struct mpi_request request = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct mpi_greeting greeting = {rank, ranks};
    bool good = put(&greeting, sizeof greeting);
    while (good && (good = get(&request, sizeof request)) && request.wish == MPI_WISH_SHARE)
        good = share(request.bytes);
    if (!good || request.code != 0)
        MPI_Abort(MPI_COMM_WORLD, good ? request.code : 1);
    MPI_Finalize();
    return 0;
}
