/* Bytes of rank 0 to all ranks by files: processes, threads, what an earlier job left. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rendezvous.h"
#include "unit.h"

enum { BYTES = 128, MOST = 8 };

static char folder[64];
static char path[80];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/rendezvous-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/id", folder);
}

/* Fails the test where a file is left. */
static void drop_folder(void)
{
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

static void put(const char *name, const void *data, size_t bytes)
{
    FILE *out = fopen(name, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT_EQUAL(fwrite(data, 1, bytes, out), bytes);
    fclose(out);
}

struct member {
    struct rank self;
    double timeout_seconds;
    useconds_t late_microseconds;
    char data[BYTES];
    enum rh_status status;
    char message[256];
    pthread_t thread;
};

static void *meet(void *context)
{
    struct member *m = context;
    usleep(m->late_microseconds);
    m->status = rendezvous_share(path, &m->self, m->timeout_seconds, m->data, BYTES);
    snprintf(m->message, sizeof m->message, "%s", m->status == RH_OK ? "" : fail_message());
    return NULL;
}

/* Rank 0 has data of `mark`, the others zeros. */
static void prepare(struct member *members, int ranks, char mark)
{
    memset(members, 0, (size_t)ranks * sizeof *members);
    for (int r = 0; r < ranks; r++) {
        members[r].self = (struct rank){r, ranks, r};
        members[r].timeout_seconds = 10;
    }
    memset(members[0].data, mark, BYTES);
}

static void meet_in_threads(struct member *members, int first, int ranks)
{
    for (int r = first; r < ranks; r++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&members[r].thread, NULL, meet, &members[r]), 0);
    for (int r = first; r < ranks; r++)
        pthread_join(members[r].thread, NULL);
}

static void expect_all(const struct member *members, int ranks, char mark)
{
    for (int r = 0; r < ranks; r++) {
        if (members[r].status != RH_OK)
            fprintf(stderr, "    rank %d: %s\n", r, members[r].message);
        CU_ASSERT_EQUAL(members[r].status, RH_OK);
        CU_ASSERT_EQUAL(members[r].data[0], mark);
        CU_ASSERT_EQUAL(memcmp(members[r].data, members[r].data + 1, BYTES - 1), 0);
    }
}

/* One after another on one path: nobody gets the answer of the time before. */
static void test_threads(void)
{
    struct member members[MOST];
    make_folder();
    for (int round = 0; round < 12; round++) {
        prepare(members, MOST, (char)('a' + round));
        members[round % MOST].late_microseconds = 3000;
        meet_in_threads(members, 0, MOST);
        expect_all(members, MOST, (char)('a' + round));
    }
    drop_folder();
}

/* The same, but each rank goes on to the next meeting without waiting for the others. */
static void *meet_often(void *context)
{
    struct member *m = context;
    for (int round = 0; round < 12 && m->status == RH_OK; round++) {
        memset(m->data, m->self.rank == 0 ? 'a' + round : 0, BYTES);
        meet(m);
        if (m->status == RH_OK && m->data[BYTES - 1] != 'a' + round)
            m->status = fail(RH_FAILED, "meeting %d: got that of %d", round, m->data[0] - 'a');
    }
    return NULL;
}

static void test_meetings_do_not_mix(void)
{
    struct member members[4];
    make_folder();
    prepare(members, 4, 'a');
    for (int r = 0; r < 4; r++)
        pthread_create(&members[r].thread, NULL, meet_often, &members[r]);
    for (int r = 0; r < 4; r++)
        pthread_join(members[r].thread, NULL);
    expect_all(members, 4, 'a' + 11);
    drop_folder();
}

static void test_processes(void)
{
    struct member members[5];
    pid_t pids[5];
    make_folder();
    prepare(members, 5, 'p');
    members[0].late_microseconds = 20000;
    for (int r = 0; r < 5; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            meet(&members[r]);
            _exit(members[r].status == RH_OK && members[r].data[BYTES - 1] == 'p' ? 0 : 1);
        }
    }
    for (int r = 0; r < 5; r++) {
        int state = -1;
        waitpid(pids[r], &state, 0);
        CU_ASSERT_EQUAL(state, 0);
    }
    drop_folder();
}

/* {magic, rank, ranks, bytes} and the nonces, as rendezvous.c writes them. */
struct left {
    char magic[8];
    int32_t rank, ranks;
    uint64_t bytes, nonce[3];
    char data[BYTES];
};

/* A job of the same size was killed: its questions and its answer are well-formed. The first nonce
 * of an answer is that of rank 0, which asks nothing. */
static void leave_files(int ranks)
{
    char name[96];
    struct left answer = {"rehear1", 0, ranks, BYTES, {0, 11, 12}, {0}};
    memset(answer.data, 'o', BYTES);
    put(path, &answer, sizeof answer);
    for (int r = 1; r < ranks; r++) {
        struct left question = {"rehear1", r, ranks, BYTES, {answer.nonce[r]}, {0}};
        snprintf(name, sizeof name, "%s.%d", path, r);
        put(name, &question, 32);
    }
}

static void test_earlier_job(void)
{
    struct member members[3];
    make_folder();
    for (int last = 0; last < 3; last++) {
        leave_files(3);
        prepare(members, 3, 'n');
        for (int r = 0; r < 3; r++) /* so that each sees what is left, or what was answered to it */
            members[r].late_microseconds = r == last ? 60000 : 30000 * (useconds_t)(r % 2);
        meet_in_threads(members, 0, 3);
        expect_all(members, 3, 'n');
    }
    drop_folder();
}

static void test_rubbish_is_replaced(void)
{
    struct member members[2];
    char whole[24 + 2 * 8 + BYTES];
    make_folder();
    memset(whole, 'x', sizeof whole);
    for (size_t bytes = 0; bytes <= sizeof whole; bytes += sizeof whole / 2) {
        put(path, whole, bytes);
        prepare(members, 2, 'r');
        members[0].late_microseconds = 20000;
        meet_in_threads(members, 0, 2);
        expect_all(members, 2, 'r');
    }
    drop_folder();
}

static void fail_alone(int rank, const char *words)
{
    struct member members[3];
    prepare(members, 3, 'x');
    members[rank].timeout_seconds = 0.05;
    meet(&members[rank]);
    CU_ASSERT_EQUAL(members[rank].status, RH_FAILED);
    UNIT_ASSERT_CONTAINS(members[rank].message, words);
    UNIT_ASSERT_CONTAINS(members[rank].message, path);
}

static void test_nobody_comes(void)
{
    make_folder();
    fail_alone(0, "rank 0: rank 1 did not come to the rendezvous");
    fail_alone(2, "rank 2: rank 0 wrote no '");
    drop_folder();
}

static void test_one_is_missing(void)
{
    struct member members[3];
    make_folder();
    prepare(members, 3, 'm');
    for (int r = 0; r < 2; r++)
        members[r].timeout_seconds = 0.2;
    meet_in_threads(members, 0, 2);
    CU_ASSERT_EQUAL(members[0].status, RH_FAILED);
    UNIT_ASSERT_CONTAINS(members[0].message, "rank 0: rank 2 did not come to the rendezvous");
    CU_ASSERT_EQUAL(members[1].status, RH_FAILED);
    drop_folder();
}

static void test_truncated(void)
{
    char whole[24 + 3 * 8 + BYTES] = "rehear1";
    make_folder();
    put(path, whole, 20);
    fail_alone(1, "has not the 176 bytes of an answer for 3 ranks");
    put(path, whole, sizeof whole);
    fail_alone(1, "is no answer to this job");
    unlink(path);
    drop_folder();
}

static void test_no_folder(void)
{
    snprintf(path, sizeof path, "/nonexistent/id");
    fail_alone(1, "cannot write the rendezvous '/nonexistent/id.1': No such file");
}

static void test_alone(void)
{
    struct rank self = {0, 1, 0};
    char data = 'a';
    CU_ASSERT_EQUAL(rendezvous_share("/nonexistent/id", &self, 0, &data, 1), RH_OK);
    CU_ASSERT_EQUAL(data, 'a');
}

int main(void)
{
    const struct unit_test tests[] = {
        {"threads", test_threads, NULL},
        {"meetings do not mix", test_meetings_do_not_mix, NULL},
        {"processes", test_processes, NULL},
        {"what an earlier job left", test_earlier_job, NULL},
        {"rubbish is replaced", test_rubbish_is_replaced, NULL},
        {"nobody comes", test_nobody_comes, NULL},
        {"one is missing", test_one_is_missing, NULL},
        {"truncated, and of another job", test_truncated, NULL},
        {"no folder", test_no_folder, NULL},
        {"alone", test_alone, NULL},
    };
    return UNIT_MAIN("rendezvous", tests);
}
