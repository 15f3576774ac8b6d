#include "cli/pool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

struct job {
    int index; /* case; -1: free */
    pid_t process;
    int pipe;
    struct text text;
};

static void child(const struct pool *pool, int index, int out)
{
    cJSON *answer = pool->answer(pool->context, index);
    char *text = cJSON_PrintUnformatted(answer);
    size_t length = text ? strlen(text) : 0;
    for (size_t sent = 0; sent < length;) {
        ssize_t more = write(out, text + sent, length - sent);
        if (more < 0 && errno != EINTR)
            _exit(1);
        sent += more > 0 ? (size_t)more : 0;
    }
    _exit(0);
}

static enum rh_status start(const struct pool *pool, struct job *job, int index)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0)
        return fail(RH_FAILED, "cannot open a pipe for case %d: %s", index, strerror(errno));
    job->process = fork();
    if (job->process < 0)
        return fail(RH_FAILED, "cannot start a process for case %d: %s", index, strerror(errno));
    if (job->process == 0) {
        close(ends[0]);
        child(pool, index, ends[1]);
    }
    close(ends[1]);
    job->index = index;
    job->pipe = ends[0];
    job->text = (struct text){0};
    return RH_OK;
}

static void finish(struct job *job, cJSON **answers)
{
    int status = 0;
    close(job->pipe);
    waitpid(job->process, &status, 0);
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0 && job->text.data;
    answers[job->index] = fine ? cJSON_Parse(job->text.data) : NULL;
    free(job->text.data);
    job->index = -1;
}

/* Reads what the jobs say; returns how many ended. */
static int listen_once(struct job *jobs, int count, cJSON **answers)
{
    struct pollfd *polls = memory_new_array((size_t)count, sizeof *polls);
    char buffer[65536];
    int ended = 0;
    for (int i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = jobs[i].index >= 0 ? jobs[i].pipe : -1, .events = POLLIN};
    while (poll(polls, (nfds_t)count, -1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < count; i++) {
        if (!(polls[i].revents & (POLLIN | POLLHUP | POLLERR)))
            continue;
        ssize_t got = read(jobs[i].pipe, buffer, sizeof buffer);
        if (got > 0) {
            text_add(&jobs[i].text, "%.*s", (int)got, buffer);
        } else if (got == 0 || errno != EINTR) {
            finish(&jobs[i], answers);
            ended++;
        }
    }
    free(polls);
    return ended;
}

enum rh_status pool_run(const struct pool *pool, cJSON **answers)
{
    int jobs = pool->jobs < pool->cases ? pool->jobs : pool->cases;
    struct job *job = memory_new_array((size_t)jobs, sizeof *job);
    enum rh_status status = RH_OK;
    int next = 0;
    int done = 0;
    int running = 0;
    for (int i = 0; i < jobs; i++)
        job[i].index = -1;
    while (done < pool->cases) {
        for (int i = 0; i < jobs && next < pool->cases && status == RH_OK; i++)
            if (job[i].index < 0) {
                status = start(pool, &job[i], next++);
                running += status == RH_OK;
            }
        if (running == 0)
            break;
        int ended = listen_once(job, jobs, answers);
        running -= ended;
        done += ended;
        if (pool->progress && ended)
            pool->progress(done, pool->cases);
    }
    free(job);
    return status;
}
