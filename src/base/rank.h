/* Which of several processes of one job this is: `rehearse launch`, mpirun and Slurm say so in the
 * environment. */
#ifndef REHEARSE_BASE_RANK_H
#define REHEARSE_BASE_RANK_H

#include "base/status.h"

struct rank {
    int rank, ranks; /* 0 of 1 where no launcher started this process */
    int local;       /* among the ranks of this machine: chooses the GPU */
};

/* REHEARSE_RANK/REHEARSE_RANKS, else OMPI_COMM_WORLD_*, PMI_*, SLURM_PROCID/SLURM_STEP_NUM_TASKS
 * (a step's; a batch script is one process). Fails (RH_INVALID) on what is no rank, and on half a
 * pair. Where nothing says the local rank, it is the rank. */
enum rh_status rank_read(struct rank *rank);
/* How long a rank waits for the others: REHEARSE_TIMEOUT, else 20. RH_INVALID where it is no number
 * of seconds above 0. */
enum rh_status rank_timeout(double *seconds);
/* Whether this process speaks for the job: prints, and writes files. A bad environment: yes. */
int rank_is_first(void);

#endif
