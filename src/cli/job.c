#include "cli/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/rendezvous.h"
#include "base/watch.h"

/* Signals that end a job are blocked and waited for, so that no handler is needed. */
static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDING_COUNT = sizeof ending / sizeof *ending };

struct running {
    const struct job *job;
    char *folder, *id, *board_path; /* what ranks share */
    struct board *board;
    struct watch *watch;
    sigset_t signals;
    pid_t *pids; /* 0: ended */
    int left;
    int signal;      /* that was passed on; 0: none */
    double signaled; /* when */
};

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Several ranks on one GPU look to NCCL like as many hosts with one GPU each. */
static void share_settings(int rank)
{
    static const char *const settings[][2] = {
        {"NCCL_NET", "Socket"},     {"NCCL_SOCKET_IFNAME", "lo"}, {"NCCL_IB_DISABLE", "1"},
        {"NCCL_MNNVL_ENABLE", "0"}, {"NCCL_NVLS_ENABLE", "0"},    {"NCCL_MAX_CTAS", "2"},
        {"NCCL_RAS_ENABLE", "0"},
    };
    char host[32];
    snprintf(host, sizeof host, "rehearse-%d", rank);
    setenv("NCCL_HOSTID", host, 1);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        setenv(settings[i][0], settings[i][1], 1);
}

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

/* In the child. It dies with the launcher, also where that is killed. */
static void become_rank(const struct running *r, int rank, pid_t parent, const sigset_t *mask)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RH_FAILED);
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, mask, NULL);
    set_number("REHEARSE_RANK", rank);
    set_number("REHEARSE_RANKS", r->job->ranks);
    set_number("REHEARSE_LOCAL_RANK", rank);
    set_number("REHEARSE_TIMEOUT", r->job->timeout);
    setenv("REHEARSE_RENDEZVOUS", r->id, 1);
    setenv("REHEARSE_BOARD", r->board_path, 1);
    if (r->job->share_gpu)
        share_settings(rank);
    execv("/proc/self/exe", r->job->command);
    fprintf(stderr, "rehearse: rank %d: cannot start: %s\n", rank, strerror(errno));
    _exit(RH_FAILED);
}

static enum rh_status start_ranks(struct running *r, const sigset_t *mask)
{
    pid_t parent = getpid();
    for (int i = 0; i < r->job->ranks; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return fail(RH_FAILED, "cannot start rank %d: %s", i, strerror(errno));
        if (pid == 0)
            become_rank(r, i, parent, mask);
        setpgid(pid, pid);
        r->pids[i] = pid;
        r->left++;
    }
    return RH_OK;
}

static void end_ranks(struct running *r)
{
    for (int i = 0; i < r->job->ranks; i++)
        if (r->pids[i] > 0 && kill(-r->pids[i], SIGKILL) != 0)
            kill(r->pids[i], SIGKILL);
    for (int i = 0; i < r->job->ranks; i++) {
        while (r->pids[i] > 0 && waitpid(r->pids[i], NULL, 0) < 0 && errno == EINTR)
            ;
        r->pids[i] = 0;
    }
}

static void look(struct running *r, double now)
{
    for (int i = 0; i < r->job->ranks; i++) {
        siginfo_t info = {0};
        bool stopped = r->pids[i] > 0 &&
                       waitid(P_PID, (id_t)r->pids[i], &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
                       info.si_pid == r->pids[i];
        watch_set_stopped(r->watch, i, stopped);
    }
    watch_look(r->watch, now);
}

/* A rank that fails may have waited for one that hangs: that one is named too. */
static enum rh_status judge_exit(struct running *r, int rank, int code)
{
    enum rh_status status =
        code == (int)RH_INVALID || code == (int)RH_OUT_OF_MEMORY ? (enum rh_status)code : RH_FAILED;
    char *who = watch_blame(r->watch, now_seconds(), r->job->timeout / 2.0);
    fail(status, "rank %d ended with exit %d%s%s; the others were ended", rank, code,
         who ? "; " : "", who ? who : "");
    free(who);
    return status;
}

static enum rh_status ended_by(int signal)
{
    return fail(RH_FAILED, "the job was ended by signal %d (%s)", signal, strsignal(signal));
}

/* After a signal was passed on, ranks fail because they stop; one that died of it leaves the others
 * waiting. */
static enum rh_status judge(struct running *r, int rank, int state)
{
    if (WIFSIGNALED(state) && WTERMSIG(state) == r->signal)
        return ended_by(r->signal);
    if (WIFSIGNALED(state))
        return fail(RH_FAILED, "rank %d was ended by signal %d (%s); the others were ended", rank,
                    WTERMSIG(state), strsignal(WTERMSIG(state)));
    int code = WEXITSTATUS(state);
    return code == 0 || r->signal ? RH_OK : judge_exit(r, rank, code);
}

static enum rh_status reap(struct running *r)
{
    for (int i = 0; i < r->job->ranks; i++) {
        int state = 0;
        if (r->pids[i] <= 0 || waitpid(r->pids[i], &state, WNOHANG) <= 0)
            continue;
        kill(-r->pids[i], SIGKILL); /* what it started and left */
        r->pids[i] = 0;
        r->left--;
        watch_set_gone(r->watch, i);
        RETURN_IF_FAILED(judge(r, i, state));
    }
    return RH_OK;
}

/* Ranks that train agree on a step after which they save and end; others end as they do. */
static enum rh_status pass_on(struct running *r, int signal)
{
    if (r->signal)
        return ended_by(signal);
    r->signal = signal;
    r->signaled = now_seconds();
    if (signal != SIGHUP)
        board_ask_stop(r->board, signal);
    for (int i = 0; i < r->job->ranks; i++)
        if (r->pids[i] > 0)
            kill(r->pids[i], signal);
    return RH_OK;
}

/* A signal that a rank got itself ends them all too. */
static void note_stop(struct running *r)
{
    int signal = r->signal ? 0 : board_stop_signal(r->board);
    if (signal) {
        r->signal = signal;
        r->signaled = now_seconds();
    }
}

/* A rank that loads or writes its report has no time-out here; when it was told to end, all have
 * one. */
static enum rh_status check_progress(struct running *r)
{
    double now = now_seconds();
    look(r, now);
    double moved = watch_moved(r->watch) > r->signaled ? watch_moved(r->watch) : r->signaled;
    bool late = r->signal && now - moved > r->job->timeout;
    if (!late && !watch_stuck(r->watch, now))
        return RH_OK;
    char *who = watch_blame(r->watch, now, r->job->timeout);
    char *front = watch_front(r->watch);
    if (r->signal)
        fail(RH_FAILED, "the job was ended by signal %d (%s), after %d s in which %s%s", r->signal,
             strsignal(r->signal), r->job->timeout, who ? who : "nobody went on from ",
             who ? "" : front);
    else if (who)
        fail(RH_FAILED, "%s and made no progress for %d s; the others were ended", who,
             r->job->timeout);
    else
        fail(RH_FAILED, "no rank made progress for %d s, since %s; all were ended", r->job->timeout,
             front);
    free(front);
    free(who);
    return RH_FAILED;
}

static enum rh_status wait_ranks(struct running *r)
{
    while (r->left > 0) {
        siginfo_t info;
        const struct timespec second = {1, 0};
        int signal = sigtimedwait(&r->signals, &info, &second);
        if (signal > 0 && signal != SIGCHLD)
            RETURN_IF_FAILED(pass_on(r, signal));
        note_stop(r);
        RETURN_IF_FAILED(reap(r));
        if (r->left > 0)
            RETURN_IF_FAILED(check_progress(r));
    }
    return r->signal ? ended_by(r->signal) : RH_OK;
}

/* What this process ignores stays ignored. */
static void choose_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGCHLD);
    for (int i = 0; i < ENDING_COUNT; i++) {
        struct sigaction now;
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(signals, ending[i]);
    }
}

static enum rh_status run_ranks(struct running *r)
{
    sigset_t before;
    choose_signals(&r->signals);
    sigprocmask(SIG_BLOCK, &r->signals, &before);
    fflush(NULL);
    enum rh_status status = start_ranks(r, &before);
    if (status == RH_OK)
        status = wait_ranks(r);
    end_ranks(r);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

static enum rh_status run_in_folder(struct running *r)
{
    const struct job *job = r->job;
    r->id = text_format("%s/id", r->folder);
    r->board_path = text_format("%s/board", r->folder);
    r->pids = memory_new_array((size_t)job->ranks, sizeof *r->pids);
    enum rh_status status = board_create(r->board_path, job->ranks, &r->board);
    if (status == RH_OK) {
        r->watch = watch_new(r->board, job->ranks, job->timeout, now_seconds());
        status = run_ranks(r);
        watch_free(r->watch);
        board_close(r->board);
        unlink(r->board_path);
    }
    rendezvous_clear(r->id, job->ranks);
    free(r->pids);
    free(r->id);
    free(r->board_path);
    return status;
}

enum rh_status job_run(const struct job *job)
{
    const char *folder = getenv("TMPDIR");
    struct running r = {.job = job};
    r.folder = text_format("%s/rehearse-XXXXXX", folder && *folder ? folder : "/tmp");
    enum rh_status status = mkdtemp(r.folder) ? run_in_folder(&r)
                                              : fail(RH_FAILED, "cannot make a folder '%s': %s",
                                                     r.folder, strerror(errno));
    rmdir(r.folder);
    free(r.folder);
    return status;
}
