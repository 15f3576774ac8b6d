/* Who this process is, from each launcher's environment. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rank.h"
#include "unit.h"

static const char *const known[] = {
    "REHEARSE_RANK",
    "REHEARSE_RANKS",
    "REHEARSE_LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_STEP_NUM_TASKS",
};

/* An environment with these alone: "NAME=value NAME=value". */
static void set(const char *pairs)
{
    char text[256];
    char *rest = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        unsetenv(known[i]);
    snprintf(text, sizeof text, "%s", pairs);
    for (char *pair = strtok_r(text, " ", &rest); pair; pair = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(pair, '=');
        *value = '\0';
        setenv(pair, value + 1, 1);
    }
}

static void expect(const char *pairs, int rank, int ranks, int local)
{
    struct rank got = {-1, -1, -1};
    set(pairs);
    CU_ASSERT_EQUAL(rank_read(&got), RH_OK);
    if (got.rank != rank || got.ranks != ranks || got.local != local)
        fprintf(stderr, "    %s: %d of %d, local %d\n", pairs, got.rank, got.ranks, got.local);
    CU_ASSERT_EQUAL(got.rank, rank);
    CU_ASSERT_EQUAL(got.ranks, ranks);
    CU_ASSERT_EQUAL(got.local, local);
    CU_ASSERT_EQUAL(rank_is_first(), rank == 0);
}

static void refuse(const char *pairs, const char *words)
{
    struct rank got;
    set(pairs);
    CU_ASSERT_EQUAL(rank_read(&got), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), words);
    CU_ASSERT_TRUE(rank_is_first());
}

static void test_alone(void)
{
    expect("", 0, 1, 0);
    expect("REHEARSE_LOCAL_RANK=3", 0, 1, 0);
}

static void test_each_launcher(void)
{
    expect("REHEARSE_RANK=5 REHEARSE_RANKS=8 REHEARSE_LOCAL_RANK=1", 5, 8, 1);
    expect("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1", 5, 8, 1);
    expect("PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=1", 5, 8, 1);
    expect("SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1", 5, 8, 1);
    expect("REHEARSE_RANK=0 REHEARSE_RANKS=1", 0, 1, 0);
}

static void test_local_rank(void)
{
    expect("REHEARSE_RANK=5 REHEARSE_RANKS=8", 5, 8, 5);
    expect("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8", 5, 8, 5);
    expect("PMI_RANK=5 PMI_SIZE=8", 5, 8, 5);
    expect("PMI_RANK=5 PMI_SIZE=8 SLURM_LOCALID=2", 5, 8, 2); /* srun --mpi=pmi2 */
    expect("PMI_RANK=5 PMI_SIZE=8 SLURM_LOCALID=2 MPI_LOCALRANKID=1", 5, 8, 1);
    expect("SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=8", 5, 8, 5);
    /* a rank of our own inside a batch script, whose local rank is 0 */
    expect("REHEARSE_RANK=5 REHEARSE_RANKS=8 SLURM_LOCALID=0", 5, 8, 5);
}

static void test_order(void)
{
    const char *slurm = "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0";
    char pairs[256];
    snprintf(pairs, sizeof pairs, "REHEARSE_RANK=3 REHEARSE_RANKS=4 %s", slurm);
    expect(pairs, 3, 4, 3);
    snprintf(pairs, sizeof pairs, "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 %s", slurm);
    expect(pairs, 3, 4, 3);
    snprintf(pairs, sizeof pairs, "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3 %s", slurm);
    expect(pairs, 3, 4, 3);
}

static void test_bad_values(void)
{
    refuse("REHEARSE_RANK=x REHEARSE_RANKS=4", "bad 'REHEARSE_RANK' in the environment: 'x'");
    refuse("REHEARSE_RANK= REHEARSE_RANKS=4", "bad 'REHEARSE_RANK' in the environment: ''");
    refuse("REHEARSE_RANK=-1 REHEARSE_RANKS=4", "a number from 0 is expected");
    refuse("REHEARSE_RANK=1.5 REHEARSE_RANKS=4", "'1.5'");
    refuse("REHEARSE_RANK=0 REHEARSE_RANKS=0", "bad 'REHEARSE_RANKS' in the environment: '0'");
    refuse("REHEARSE_RANK=0 REHEARSE_RANKS=99999999999", "'99999999999'");
    refuse("PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=a", "bad 'MPI_LOCALRANKID'");
    refuse("REHEARSE_RANK=4 REHEARSE_RANKS=4",
           "bad 'REHEARSE_RANK' in the environment: rank 4 of 4");
    refuse("OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=2", "rank 7 of 2");
}

static void test_half_a_pair(void)
{
    refuse("REHEARSE_RANK=1", "the environment has no 'REHEARSE_RANKS'");
    refuse("REHEARSE_RANKS=2", "the environment has no 'REHEARSE_RANK'");
    refuse("OMPI_COMM_WORLD_RANK=1", "no 'OMPI_COMM_WORLD_SIZE'");
    refuse("OMPI_COMM_WORLD_SIZE=2", "no 'OMPI_COMM_WORLD_RANK'");
    refuse("PMI_SIZE=2", "no 'PMI_RANK'");
    /* a batch script, and the shell of an allocation: one process */
    expect("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0", 0, 1, 0);
    expect("SLURM_NTASKS=4", 0, 1, 0);
    expect("SLURM_STEP_NUM_TASKS=4", 0, 1, 0);
}

static void expect_timeout(const char *text, double wanted)
{
    double seconds = -1;
    setenv("REHEARSE_TIMEOUT", text, 1);
    CU_ASSERT_EQUAL(rank_timeout(&seconds), wanted > 0 ? RH_OK : RH_INVALID);
    if (wanted > 0) {
        UNIT_ASSERT_NEAR(seconds, wanted, 0);
    } else {
        UNIT_ASSERT_CONTAINS(fail_message(), "bad 'REHEARSE_TIMEOUT' in the environment: '");
    }
}

static void test_timeout(void)
{
    double seconds = -1;
    unsetenv("REHEARSE_TIMEOUT");
    CU_ASSERT_EQUAL(rank_timeout(&seconds), RH_OK);
    UNIT_ASSERT_NEAR(seconds, 20, 0);
    expect_timeout("5", 5);
    expect_timeout("0.5", 0.5);
    expect_timeout("0", 0);
    expect_timeout("-3", 0);
    expect_timeout("", 0);
    expect_timeout("5s", 0);
    expect_timeout("nan", 0);
    unsetenv("REHEARSE_TIMEOUT");
}

int main(void)
{
    const struct unit_test tests[] = {
        {"alone", test_alone, NULL},           {"each launcher", test_each_launcher, NULL},
        {"local rank", test_local_rank, NULL}, {"which launcher is believed", test_order, NULL},
        {"bad values", test_bad_values, NULL}, {"half a pair", test_half_a_pair, NULL},
        {"time-out", test_timeout, NULL},
    };
    return UNIT_MAIN("rank", tests);
}
