#include "base/rank.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* `local` in order of preference. A launcher whose `ranks` stands alone may be no launcher: the
 * shell of an allocation has Slurm's numbers too. */
struct names {
    const char *rank, *ranks, *local[2];
    bool stands_alone;
};

/* REHEARSE_* are asked first: the processes of `rehearse launch` may stand inside a Slurm job; PMI
 * before Slurm, which starts the daemons of other launchers. Of Slurm's numbers those of a step: a
 * batch script has SLURM_PROCID 0 and the SLURM_NTASKS of the whole job, but is one process. */
static const struct names launchers[] = {
    {"REHEARSE_RANK", "REHEARSE_RANKS", {"REHEARSE_LOCAL_RANK"}, false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"OMPI_COMM_WORLD_LOCAL_RANK"}, false},
    {"PMI_RANK", "PMI_SIZE", {"MPI_LOCALRANKID", "SLURM_LOCALID"}, false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_LOCALID"}, true},
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

static enum rh_status read_launcher(const struct names *names, struct rank *rank)
{
    RETURN_IF_FAILED(read_number(names->rank, 0, &rank->rank));
    RETURN_IF_FAILED(read_number(names->ranks, 1, &rank->ranks));
    if (rank->rank >= rank->ranks)
        return fail(RH_INVALID, "bad '%s' in the environment: rank %d of %d", names->rank,
                    rank->rank, rank->ranks);
    rank->local = rank->rank;
    for (int i = 0; i < 2 && names->local[i]; i++)
        if (getenv(names->local[i]))
            return read_number(names->local[i], 0, &rank->local);
    return RH_OK;
}

enum rh_status rank_read(struct rank *rank)
{
    *rank = (struct rank){0, 1, 0};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct names *names = &launchers[i];
        bool has_rank = getenv(names->rank) != NULL;
        bool has_ranks = getenv(names->ranks) != NULL;
        if (names->stands_alone ? has_rank && has_ranks : has_rank || has_ranks)
            return read_launcher(names, rank);
    }
    return RH_OK;
}

enum rh_status rank_timeout(double *seconds)
{
    const char *text = getenv("REHEARSE_TIMEOUT");
    char *end = NULL;
    *seconds = 20;
    if (!text)
        return RH_OK;
    double value = strtod(text, &end);
    if (end == text || *end || !(value > 0 && value < 1e6))
        return fail(RH_INVALID,
                    "bad 'REHEARSE_TIMEOUT' in the environment: '%s'; seconds above 0 are expected",
                    text);
    *seconds = value;
    return RH_OK;
}

int rank_is_first(void)
{
    struct rank rank;
    return rank_read(&rank) != RH_OK || rank.rank == 0;
}
