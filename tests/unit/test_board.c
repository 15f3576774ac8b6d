/* What ranks tell their launcher, and the step before which all of them stop. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/board.h"
#include "unit.h"

enum { RANKS = 4 };

static char path[64];

static struct board *make_board(int ranks)
{
    struct board *board = NULL;
    snprintf(path, sizeof path, "/tmp/test-board-%d", (int)getpid());
    unlink(path);
    CU_ASSERT_EQUAL_FATAL(board_create(path, ranks, &board), RH_OK);
    setenv("REHEARSE_BOARD", path, 1);
    return board;
}

static void drop_board(struct board *board)
{
    board_close(board);
    unlink(path);
    unsetenv("REHEARSE_BOARD");
}

static struct board *join_board(int rank, int ranks)
{
    struct rank self = {rank, ranks, rank};
    struct board *board = NULL;
    CU_ASSERT_EQUAL_FATAL(board_open(&self, &board), RH_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(board);
    return board;
}

static void test_places(void)
{
    struct board *board = make_board(RANKS);
    struct board *own = join_board(2, RANKS);
    struct board_place place;
    board_read(board, 2, &place);
    CU_ASSERT_EQUAL(place.phase, BOARD_STARTING);
    CU_ASSERT_EQUAL(place.step, 0);
    CU_ASSERT_EQUAL(place.beats, 0);
    board_tell_step(own, 5);
    board_tell_list(own, "steady");
    board_read(board, 2, &place);
    CU_ASSERT_EQUAL(place.phase, BOARD_RUNNING);
    CU_ASSERT_EQUAL(place.step, 5);
    CU_ASSERT_STRING_EQUAL(place.list, "steady");
    CU_ASSERT_FALSE(place.waits);
    CU_ASSERT_EQUAL(place.beats, 2);
    board_tell_wait(own);
    board_read(board, 2, &place);
    CU_ASSERT_TRUE(place.waits);
    CU_ASSERT_EQUAL(place.beats, 3);
    board_beat(own);
    board_tell_step(own, 6);
    board_read(board, 2, &place);
    CU_ASSERT_EQUAL(place.beats, 5);
    CU_ASSERT_STRING_EQUAL(place.list, "");
    CU_ASSERT_FALSE(place.waits);
    board_tell_list(own, "a list whose name is longer than the board has room for");
    board_read(board, 2, &place);
    CU_ASSERT_STRING_EQUAL(place.list, "a list whose name is longer than the bo");
    board_read(board, 1, &place);
    CU_ASSERT_EQUAL(place.phase, BOARD_STARTING);
    board_close(own);
    board_read(board, 2, &place);
    CU_ASSERT_EQUAL(place.phase, BOARD_ENDED);
    drop_board(board);
}

static void test_busy(void)
{
    struct board *board = make_board(RANKS);
    struct board *own = join_board(1, RANKS);
    struct board *other = join_board(3, RANKS);
    board_tell_step(own, 7);
    CU_ASSERT_FALSE(board_is_busy(other));
    board_tell_busy(own, "checkpoint");
    CU_ASSERT_TRUE(board_is_busy(other));
    struct board_place place;
    board_read(board, 1, &place);
    CU_ASSERT_EQUAL(place.phase, BOARD_BUSY);
    CU_ASSERT_EQUAL(place.step, 7);
    CU_ASSERT_STRING_EQUAL(place.list, "checkpoint");
    board_tell_step(own, 8);
    CU_ASSERT_FALSE(board_is_busy(other));
    board_close(own);
    board_close(other);
    drop_board(board);
}

static void test_nobody_looks(void)
{
    struct rank self = {0, 1, 0};
    struct board *board = NULL;
    unsetenv("REHEARSE_BOARD");
    CU_ASSERT_EQUAL(board_open(&self, &board), RH_OK);
    CU_ASSERT_PTR_NULL(board);
    board_tell_step(NULL, 1);
    board_tell_list(NULL, "steady");
    board_tell_busy(NULL, "checkpoint");
    board_tell_wait(NULL);
    board_beat(NULL);
    board_ask_stop(NULL, SIGTERM);
    CU_ASSERT_EQUAL(board_begin_step(NULL, 3), 0);
    CU_ASSERT_FALSE(board_is_busy(NULL));
    board_close(NULL);
}

static void refuse(int ranks, enum rh_status status, const char *words)
{
    struct rank self = {0, ranks, 0};
    struct board *board = (struct board *)path;
    CU_ASSERT_EQUAL(board_open(&self, &board), status);
    CU_ASSERT_PTR_NULL(board);
    UNIT_ASSERT_CONTAINS(fail_message(), words);
}

static void test_no_board(void)
{
    struct board *board = make_board(RANKS);
    struct board *again = NULL;
    refuse(RANKS + 1, RH_INVALID, "is no board of 5 ranks: ");
    CU_ASSERT_EQUAL(board_create(path, RANKS, &again), RH_FAILED);
    UNIT_ASSERT_CONTAINS(fail_message(), "File exists");
    FILE *file = fopen(path, "r+");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs("x", file);
    fclose(file);
    refuse(RANKS, RH_INVALID, "is no board of 4 ranks");
    drop_board(board);
    setenv("REHEARSE_BOARD", path, 1);
    refuse(RANKS, RH_FAILED, "No such file");
    unsetenv("REHEARSE_BOARD");
}

/* ---- stopping ---- */
static void test_stop_in_order(void)
{
    struct board *board = make_board(RANKS);
    CU_ASSERT_EQUAL(board_begin_step(board, 0), 0);
    CU_ASSERT_EQUAL(board_begin_step(board, 1), 0); /* one is ahead */
    CU_ASSERT_EQUAL(board_begin_step(board, 2), 0);
    CU_ASSERT_EQUAL(board_stop_signal(board), 0);
    board_ask_stop(board, SIGTERM);
    board_ask_stop(board, SIGINT);
    CU_ASSERT_EQUAL(board_stop_signal(board), SIGTERM);
    CU_ASSERT_EQUAL(board_begin_step(board, 1), 0); /* the others follow it */
    CU_ASSERT_EQUAL(board_begin_step(board, 2), 0);
    CU_ASSERT_EQUAL(board_begin_step(board, 3), SIGTERM);
    CU_ASSERT_EQUAL(board_begin_step(board, 3), SIGTERM);
    drop_board(board);
}

static void test_stop_before_any(void)
{
    struct board *board = make_board(RANKS);
    board_ask_stop(board, SIGINT);
    CU_ASSERT_EQUAL(board_begin_step(board, 0), SIGINT);
    drop_board(board);
}

/* Ranks that wait for one another as collectives make them: nobody is more than two steps ahead.
 * If they did not stop at the same step, those that went on would wait for ever; then the alarm
 * ends this program. */
enum { STEPS = 1000000 };

static int run_steps(struct board *board, int rank, atomic_int *begun, int ask_at)
{
    for (int step = 0; step < STEPS; step++) {
        if (rank == 1 && step == ask_at)
            board_ask_stop(board, SIGTERM);
        if (board_begin_step(board, step))
            return step;
        begun[rank] = step;
        for (int r = 0; r < RANKS; r++)
            while (begun[r] < step - 2)
                sched_yield();
    }
    return board_begin_step(board, STEPS) ? STEPS : -1;
}

struct runner {
    struct board *board;
    atomic_int *begun;
    int rank, ask_at, stopped_at;
    pthread_t thread;
};

static void *run_runner(void *context)
{
    struct runner *r = context;
    r->stopped_at = run_steps(r->board, r->rank, r->begun, r->ask_at);
    return NULL;
}

/* In every other round somebody who makes no steps asks, as the launcher does. */
static void test_threads_agree(void)
{
    alarm(120);
    for (int round = 0; round < 40; round++) {
        struct board *board = make_board(RANKS);
        struct runner runners[RANKS];
        atomic_int begun[RANKS];
        for (int r = 0; r < RANKS; r++)
            begun[r] = -1;
        for (int r = 0; r < RANKS; r++) {
            runners[r] = (struct runner){board, begun, r, round % 2 ? -1 : round, -2, 0};
            pthread_create(&runners[r].thread, NULL, run_runner, &runners[r]);
        }
        for (int i = 0; round % 2 && i < 10 * round; i++)
            sched_yield();
        if (round % 2)
            board_ask_stop(board, SIGTERM);
        for (int r = 0; r < RANKS; r++)
            pthread_join(runners[r].thread, NULL);
        for (int r = 0; r < RANKS; r++)
            CU_ASSERT_EQUAL(runners[r].stopped_at, runners[0].stopped_at);
        CU_ASSERT_TRUE(runners[0].stopped_at >= (round % 2 ? 0 : round));
        drop_board(board);
    }
    alarm(0);
}

static void run_process(int rank, atomic_int *begun, int ask_at, int out)
{
    struct board *board = join_board(rank, RANKS);
    int stopped_at = run_steps(board, rank, begun, ask_at);
    board_close(board);
    _exit(write(out, &stopped_at, sizeof stopped_at) == sizeof stopped_at ? 0 : 1);
}

static void test_processes_agree(void)
{
    atomic_int *begun = mmap(NULL, RANKS * sizeof *begun, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL(begun, MAP_FAILED);
    alarm(120);
    for (int round = 0; round < 10; round++) {
        struct board *board = make_board(RANKS);
        int ends[2];
        int first = -1;
        CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
        for (int r = 0; r < RANKS; r++)
            begun[r] = -1;
        for (int r = 0; r < RANKS; r++)
            if (fork() == 0)
                run_process(r, begun, 10 * round, ends[1]);
        for (int r = 0; r < RANKS; r++) {
            int stopped_at = -2;
            CU_ASSERT_EQUAL(read(ends[0], &stopped_at, sizeof stopped_at), sizeof stopped_at);
            if (r == 0)
                first = stopped_at;
            CU_ASSERT_EQUAL(stopped_at, first);
        }
        CU_ASSERT_TRUE(first >= 10 * round);
        for (int r = 0; r < RANKS; r++)
            wait(NULL);
        close(ends[0]);
        close(ends[1]);
        drop_board(board);
    }
    alarm(0);
    munmap(begun, RANKS * sizeof *begun);
}

/* A reader sees a place as it was told, never parts of two. */
static void test_places_are_whole(void)
{
    struct board *board = make_board(1);
    int wrong = 0;
    pid_t writer = fork();
    if (writer == 0) {
        struct board *own = join_board(0, 1);
        for (;;) {
            board_tell_list(own, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
            board_tell_list(own, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
        }
    }
    alarm(120);
    for (int whole = 0; whole < 300;) {
        struct board_place place;
        if (!board_read(board, 0, &place) || !place.list[0]) {
            sched_yield();
            continue;
        }
        whole++;
        wrong += place.list[0] != place.list[35] || place.list[36];
    }
    alarm(0);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    CU_ASSERT_EQUAL(wrong, 0);
    drop_board(board);
}

int main(void)
{
    const struct unit_test tests[] = {
        {"places", test_places, NULL},
        {"busy", test_busy, NULL},
        {"nobody looks", test_nobody_looks, NULL},
        {"no board", test_no_board, NULL},
        {"stop in order", test_stop_in_order, NULL},
        {"stop before any step", test_stop_before_any, NULL},
        {"threads agree", test_threads_agree, NULL},
        {"processes agree", test_processes_agree, NULL},
        {"places are whole", test_places_are_whole, NULL},
    };
    return UNIT_MAIN("board", tests);
}
