#include "base/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

/* Both kinds of file begin so. A question has one nonce and no data; the answer has a nonce for
 * each rank, then the data. */
struct head {
    char magic[8];
    int32_t rank, ranks;
    uint64_t bytes; /* of data */
};

static const char magic[8] = "rehear1";

struct meeting {
    const char *path;
    const struct rank *self;
    double timeout_seconds, end_seconds;
    size_t bytes, answer_bytes;
};

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Files of a network may be asked for by many: not too often. */
static bool pause_until(double end_seconds)
{
    const struct timespec t = {0, 2000000};
    if (now_seconds() > end_seconds)
        return false;
    nanosleep(&t, NULL);
    return true;
}

/* Whole or not there: readers see the name only when all is written. */
static enum rh_status write_whole(const char *path, const void *data, size_t bytes)
{
    char *part = text_format("%s.part", path);
    int out = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool good = out >= 0;
    for (size_t done = 0; good && done < bytes;) {
        ssize_t n = write(out, (const char *)data + done, bytes - done);
        good = n > 0 || (n < 0 && errno == EINTR);
        done += n > 0 ? (size_t)n : 0;
    }
    good = out >= 0 && close(out) == 0 && good && rename(part, path) == 0;
    int error = errno;
    if (!good)
        unlink(part);
    free(part);
    return good ? RH_OK
                : fail(RH_FAILED, "cannot write the rendezvous '%s': %s", path, strerror(error));
}

/* Bytes read, at most `bytes`; -1 where there is no file. */
static ssize_t read_some(const char *path, void *data, size_t bytes)
{
    int in = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t done = 0;
    ssize_t n = in < 0 ? -1 : 1;
    while (n > 0 && (size_t)done < bytes) {
        n = read(in, (char *)data + done, bytes - (size_t)done);
        done += n > 0 ? n : 0;
    }
    if (in >= 0)
        close(in);
    return in < 0 ? -1 : done;
}

static struct head head_of(const struct meeting *m, int rank)
{
    struct head head = {.rank = rank, .ranks = m->self->ranks, .bytes = m->bytes};
    memcpy(head.magic, magic, sizeof magic);
    return head;
}

static bool head_is(const struct meeting *m, const char *file, int rank)
{
    struct head head = head_of(m, rank);
    return memcmp(file, &head, sizeof head) == 0;
}

/* ---- rank 0 ---- */
struct question {
    char file[sizeof(struct head) + sizeof(uint64_t)];
};

static uint64_t *nonce_in(char *answer, int rank)
{
    return (uint64_t *)(void *)(answer + sizeof(struct head)) + rank;
}

/* Reads what the others ask into the answer. */
struct round {
    int open, never;        /* questions that are there; ranks that did not ask so far */
    int waited_for, absent; /* the first of each */
    bool news;
};

static struct round look_round(const struct meeting *m, bool *asked, char *answer)
{
    struct round round = {0};
    for (int r = 1; r < m->self->ranks; r++) {
        struct question q;
        char *path = text_format("%s.%d", m->path, r);
        bool there = read_some(path, &q, sizeof q) == (ssize_t)sizeof q && head_is(m, q.file, r);
        free(path);
        if (there && memcmp(nonce_in(answer, r), q.file + sizeof(struct head), 8) != 0) {
            memcpy(nonce_in(answer, r), q.file + sizeof(struct head), 8);
            round.news = true;
        }
        asked[r] = asked[r] || there;
        if (there && round.open++ == 0)
            round.waited_for = r;
        if (!asked[r] && round.never++ == 0)
            round.absent = r;
    }
    return round;
}

/* A question that an earlier job left is answered too, in vain; when its rank asks, it is news. */
static enum rh_status answer_all(const struct meeting *m, bool *asked, char *answer)
{
    for (;;) {
        struct round round = look_round(m, asked, answer);
        if (round.open == 0 && round.never == 0)
            return RH_OK;
        if (round.news && round.never == 0)
            RETURN_IF_FAILED(write_whole(m->path, answer, m->answer_bytes));
        if (!pause_until(m->end_seconds))
            return fail(RH_FAILED,
                        "rank 0: rank %d did not come to the rendezvous '%s' within %g s",
                        round.never ? round.absent : round.waited_for, m->path, m->timeout_seconds);
    }
}

static enum rh_status give(const struct meeting *m, const void *data)
{
    struct head head = head_of(m, 0);
    char *answer = memory_new(m->answer_bytes);
    bool *asked = memory_new_array((size_t)m->self->ranks, sizeof *asked);
    memcpy(answer, &head, sizeof head);
    memcpy(answer + m->answer_bytes - m->bytes, data, m->bytes);
    unlink(m->path);
    enum rh_status status = answer_all(m, asked, answer);
    unlink(m->path);
    free(asked);
    free(answer);
    return status;
}

/* ---- the others ---- */
static enum rh_status no_answer(const struct meeting *m, ssize_t got)
{
    if (got < 0)
        return fail(RH_FAILED, "rank %d: rank 0 wrote no '%s' within %g s", m->self->rank, m->path,
                    m->timeout_seconds);
    if (got != (ssize_t)m->answer_bytes)
        return fail(RH_FAILED,
                    "rank %d: '%s' has not the %zu bytes of an answer for %d ranks, and rank 0 "
                    "wrote no other within %g s",
                    m->self->rank, m->path, m->answer_bytes, m->self->ranks, m->timeout_seconds);
    return fail(RH_FAILED,
                "rank %d: '%s' is no answer to this job, and rank 0 wrote no other within %g s",
                m->self->rank, m->path, m->timeout_seconds);
}

static enum rh_status wait_answer(const struct meeting *m, uint64_t nonce, char *answer)
{
    for (;;) {
        ssize_t got = read_some(m->path, answer, m->answer_bytes + 1);
        if (got == (ssize_t)m->answer_bytes && head_is(m, answer, 0) &&
            *nonce_in(answer, m->self->rank) == nonce)
            return RH_OK;
        if (!pause_until(m->end_seconds))
            return no_answer(m, got);
    }
}

/* Rank 0 takes the answer away when all have it: who went on before could ask again, for what comes
 * next, and be given the same. */
static enum rh_status wait_others(const struct meeting *m, uint64_t nonce, char *answer)
{
    while (read_some(m->path, answer, m->answer_bytes) == (ssize_t)m->answer_bytes &&
           *nonce_in(answer, m->self->rank) == nonce)
        if (!pause_until(m->end_seconds))
            return fail(RH_FAILED, "rank %d: not all took the answer '%s' within %g s",
                        m->self->rank, m->path, m->timeout_seconds);
    return RH_OK;
}

static enum rh_status take(const struct meeting *m, void *data)
{
    struct question q;
    struct head head = head_of(m, m->self->rank);
    uint64_t nonce = 0;
    while (nonce == 0) /* 0: nobody asked */
        if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce && errno != EINTR)
            return fail(RH_FAILED, "rank %d: no random number: %s", m->self->rank, strerror(errno));
    memcpy(q.file, &head, sizeof head);
    memcpy(q.file + sizeof head, &nonce, sizeof nonce);
    char *path = text_format("%s.%d", m->path, m->self->rank);
    char *answer = memory_new(m->answer_bytes + 1);
    enum rh_status status = write_whole(path, &q, sizeof q);
    if (status == RH_OK)
        status = wait_answer(m, nonce, answer);
    if (status == RH_OK)
        memcpy(data, answer + m->answer_bytes - m->bytes, m->bytes);
    unlink(path);
    if (status == RH_OK)
        status = wait_others(m, nonce, answer);
    free(path);
    free(answer);
    return status;
}

enum rh_status rendezvous_share(const char *path, const struct rank *self, double timeout_seconds,
                                void *data, size_t bytes)
{
    struct meeting m = {path, self, timeout_seconds, now_seconds() + timeout_seconds, bytes, 0};
    m.answer_bytes = sizeof(struct head) + (size_t)self->ranks * sizeof(uint64_t) + bytes;
    if (self->ranks == 1)
        return RH_OK;
    return self->rank == 0 ? give(&m, data) : take(&m, data);
}

void rendezvous_clear(const char *path, int ranks)
{
    static const char *const ends[] = {"", ".part"};
    for (int i = 0; i < 2; i++) {
        char *name = text_format("%s%s", path, ends[i]);
        unlink(name);
        free(name);
        for (int r = 1; r < ranks; r++) {
            name = text_format("%s.%d%s", path, r, ends[i]);
            unlink(name);
            free(name);
        }
    }
}
