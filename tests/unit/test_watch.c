/* Who is named when ranks make no progress. Time is the test's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/watch.h"
#include "unit.h"

enum { RANKS = 4 };

static char path[64];
static struct board *board, *ranks[RANKS];
static struct watch *watch;
static double now;

/* All make step 5; the time-out is 20 s. */
static void begin(void)
{
    snprintf(path, sizeof path, "/tmp/test-watch-%d", (int)getpid());
    unlink(path);
    CU_ASSERT_EQUAL_FATAL(board_create(path, RANKS, &board), RH_OK);
    setenv("REHEARSE_BOARD", path, 1);
    for (int r = 0; r < RANKS; r++) {
        struct rank self = {r, RANKS, r};
        CU_ASSERT_EQUAL_FATAL(board_open(&self, &ranks[r]), RH_OK);
    }
    now = 1000;
    watch = watch_new(board, RANKS, 20, now);
    for (int r = 0; r < RANKS; r++) {
        board_tell_step(ranks[r], 5);
        board_tell_list(ranks[r], "steady");
    }
    watch_look(watch, now);
}

static void finish(void)
{
    for (int r = 0; r < RANKS; r++)
        board_close(ranks[r]);
    watch_free(watch);
    board_close(board);
    unlink(path);
    unsetenv("REHEARSE_BOARD");
}

static void go_on(int rank, int step)
{
    board_tell_wait(ranks[rank]);
    board_tell_step(ranks[rank], step);
    board_tell_list(ranks[rank], "steady");
    watch_look(watch, now);
}

static void pass(int seconds)
{
    for (int i = 0; i < seconds; i++)
        watch_look(watch, now += 1);
}

static void expect_blame(double seconds, const char *wanted)
{
    char *got = watch_blame(watch, now, seconds);
    if (strcmp(got ? got : "", wanted) != 0)
        fprintf(stderr, "    \"%s\", not \"%s\"\n", got ? got : "", wanted);
    CU_ASSERT_STRING_EQUAL(got ? got : "", wanted);
    free(got);
}

static void test_one_hangs(void)
{
    begin();
    for (int r = 0; r < RANKS; r++)
        if (r != 2)
            go_on(r, 6);
    pass(19);
    CU_ASSERT_FALSE(watch_stuck(watch, now));
    expect_blame(10, "rank 2 stopped at step 5, list 'steady' (others: step 6)");
    expect_blame(30, "");
    pass(1);
    CU_ASSERT_TRUE(watch_stuck(watch, now));
    expect_blame(20, "rank 2 stopped at step 5, list 'steady' (others: step 6)");
    UNIT_ASSERT_NEAR(watch_moved(watch), 1000, 0);
    go_on(2, 6);
    CU_ASSERT_TRUE(watch_stuck(watch, now)); /* now the others are late */
    expect_blame(20, "");
    finish();
}

/* In the same step: all of its list is issued by the others. */
static void test_same_step(void)
{
    begin();
    for (int r = 0; r < RANKS; r++)
        if (r != 1 && r != 3)
            board_tell_wait(ranks[r]);
    pass(21);
    expect_blame(20, "ranks 1, 3 stopped at step 5, list 'steady' (others: step 5, list 'steady', "
                     "waiting)");
    finish();
}

static void test_all_alike(void)
{
    begin();
    for (int r = 0; r < RANKS; r++)
        board_tell_wait(ranks[r]);
    pass(22);
    CU_ASSERT_TRUE(watch_stuck(watch, now));
    expect_blame(20, "");
    char *front = watch_front(watch);
    CU_ASSERT_STRING_EQUAL(front, "step 5, list 'steady', waiting");
    free(front);
    finish();
}

static void test_stopped_by_signal(void)
{
    begin();
    for (int r = 0; r < RANKS; r++)
        board_tell_wait(ranks[r]);
    watch_set_stopped(watch, 3, true);
    pass(21);
    CU_ASSERT_TRUE(watch_stuck(watch, now));
    expect_blame(20, "rank 3 was stopped by a signal at step 5, list 'steady', waiting (others: "
                     "step 5, list 'steady', waiting)");
    finish();
}

/* Those who only start have no time-out, unless a signal stopped them. */
static void test_starting(void)
{
    struct watch *young;
    begin();
    board_close(ranks[0]);
    unlink(path);
    struct board *fresh = NULL;
    CU_ASSERT_EQUAL_FATAL(board_create(path, RANKS, &fresh), RH_OK);
    young = watch_new(fresh, RANKS, 20, now);
    for (int i = 0; i < 100; i++)
        watch_look(young, now += 1);
    CU_ASSERT_FALSE(watch_stuck(young, now));
    watch_set_stopped(young, 2, true);
    CU_ASSERT_TRUE(watch_stuck(young, now));
    char *who = watch_blame(young, now, 20);
    CU_ASSERT_STRING_EQUAL(who, "rank 2 was stopped by a signal before the first step (others: "
                                "before the first step)");
    free(who);
    watch_free(young);
    board_close(fresh);
    struct rank self = {0, RANKS, 0};
    CU_ASSERT_EQUAL_FATAL(board_open(&self, &ranks[0]), RH_OK);
    finish();
}

static void test_gone(void)
{
    begin();
    go_on(0, 6);
    board_close(ranks[0]);
    watch_set_gone(watch, 0);
    for (int r = 1; r < RANKS; r++)
        go_on(r, 6);
    pass(21);
    expect_blame(20, ""); /* all were as far */
    CU_ASSERT_TRUE(watch_stuck(watch, now));
    for (int r = 1; r < RANKS; r++)
        watch_set_gone(watch, r);
    CU_ASSERT_FALSE(watch_stuck(watch, now));
    struct rank self = {0, RANKS, 0};
    CU_ASSERT_EQUAL_FATAL(board_open(&self, &ranks[0]), RH_OK);
    finish();
}

/* A checkpoint may take long: the others wait for it, and have their time anew after it. */
static void test_busy(void)
{
    begin();
    board_tell_busy(ranks[0], "checkpoint");
    pass(100);
    CU_ASSERT_FALSE(watch_stuck(watch, now));
    go_on(0, 6);
    pass(19);
    CU_ASSERT_FALSE(watch_stuck(watch, now));
    pass(1);
    CU_ASSERT_TRUE(watch_stuck(watch, now));
    board_tell_busy(ranks[0], "checkpoint");
    watch_set_stopped(watch, 0, true);
    watch_look(watch, now);
    pass(21);
    CU_ASSERT_TRUE(watch_stuck(watch, now));
    expect_blame(20,
                 "rank 0 was stopped by a signal at step 6, list 'checkpoint' (others: step 5)");
    finish();
}

/* The launcher was stopped, perhaps with all its ranks: that is not their fault. */
static void test_launcher_was_stopped(void)
{
    begin();
    pass(18);
    watch_look(watch, now += 500);
    CU_ASSERT_FALSE(watch_stuck(watch, now));
    pass(19);
    CU_ASSERT_FALSE(watch_stuck(watch, now));
    pass(1);
    CU_ASSERT_TRUE(watch_stuck(watch, now));
    finish();
}

int main(void)
{
    const struct unit_test tests[] = {
        {"one hangs", test_one_hangs, NULL},
        {"in the same step", test_same_step, NULL},
        {"all alike", test_all_alike, NULL},
        {"stopped by a signal", test_stopped_by_signal, NULL},
        {"starting", test_starting, NULL},
        {"gone", test_gone, NULL},
        {"busy", test_busy, NULL},
        {"the launcher was stopped", test_launcher_was_stopped, NULL},
    };
    return UNIT_MAIN("watch", tests);
}
