#include "base/rank.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

struct names {
    const char *rank, *ranks, *local;
};

/* REHEARSE_* are asked first: the processes of `rehearse launch` may stand inside a Slurm job. */
static const struct names launchers[] = {
    {"REHEARSE_RANK", "REHEARSE_RANKS", "REHEARSE_LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

static enum rh_status read_number(const char *name, int least, int *number)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text)
        return fail(RH_INVALID, "the environment has no '%s'", name);
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > INT_MAX)
        return fail(RH_INVALID, "bad '%s' in the environment: '%s'; a number from %d is expected",
                    name, text, least);
    *number = (int)value;
    return RH_OK;
}

enum rh_status rank_read(struct rank *rank)
{
    *rank = (struct rank){0, 1, 0};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct names *names = &launchers[i];
        if (!getenv(names->rank))
            continue;
        RETURN_IF_FAILED(read_number(names->rank, 0, &rank->rank));
        RETURN_IF_FAILED(read_number(names->ranks, 1, &rank->ranks));
        rank->local = rank->rank;
        if (getenv(names->local))
            RETURN_IF_FAILED(read_number(names->local, 0, &rank->local));
        if (rank->rank >= rank->ranks)
            return fail(RH_INVALID, "bad '%s' in the environment: rank %d of %d", names->rank,
                        rank->rank, rank->ranks);
        return RH_OK;
    }
    return RH_OK;
}

int rank_is_first(void)
{
    struct rank rank;
    return rank_read(&rank) != RH_OK || rank.rank == 0;
}
