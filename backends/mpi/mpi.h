/* What a rank and its rehearse-mpi say to each other, over a socket that is the latter's standard
 * input. MPI stands in a process of its own because libsimgrid, which the program links, has
 * functions of the same names. */
#ifndef REHEARSE_BACKENDS_MPI_MPI_H
#define REHEARSE_BACKENDS_MPI_MPI_H

#include <stdint.h>

/* rehearse-mpi, when MPI runs. */
struct mpi_greeting {
    int32_t rank, ranks;
};

/* The rank. SHARE: `bytes` follow, and come back as rank 0 has them. END: the process ends with
 * `code`; 0 waits for all ranks, another ends the job, as does the socket's end without a word. */
enum mpi_wish { MPI_WISH_SHARE = 1, MPI_WISH_END };
struct mpi_request {
    uint32_t wish;
    int32_t code;
    uint64_t bytes;
};

#endif
