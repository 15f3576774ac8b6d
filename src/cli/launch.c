/* `rehearse launch`: the same command in N processes of this machine, each with its rank in the
 * environment. The first that fails ends the others. */
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
#include "base/text.h"
#include "cli/cli.h"

struct job {
    int ranks, timeout;
    bool share_gpu;
    char **command; /* "run", its arguments, NULL; [0] is replaced by the program */
    char folder[64];
    pid_t *pids; /* 0: ended */
};

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
static void become_rank(const struct job *job, int rank, pid_t parent)
{
    char rendezvous[96];
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(RH_FAILED);
    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    snprintf(rendezvous, sizeof rendezvous, "%s/id", job->folder);
    set_number("REHEARSE_RANK", rank);
    set_number("REHEARSE_RANKS", job->ranks);
    set_number("REHEARSE_LOCAL_RANK", rank);
    set_number("REHEARSE_TIMEOUT", job->timeout);
    setenv("REHEARSE_RENDEZVOUS", rendezvous, 1);
    if (job->share_gpu)
        share_settings(rank);
    execv("/proc/self/exe", job->command);
    fprintf(stderr, "rehearse: rank %d: cannot start: %s\n", rank, strerror(errno));
    _exit(RH_FAILED);
}

static void end_ranks(struct job *job)
{
    for (int i = 0; i < job->ranks; i++)
        if (job->pids[i] > 0 && kill(-job->pids[i], SIGKILL) != 0)
            kill(job->pids[i], SIGKILL);
    for (int i = 0; i < job->ranks; i++) {
        while (job->pids[i] > 0 && waitpid(job->pids[i], NULL, 0) < 0 && errno == EINTR)
            ;
        job->pids[i] = 0;
    }
}

static enum rh_status judge(const struct job *job, int rank, int state)
{
    (void)job;
    if (WIFSIGNALED(state))
        return fail(RH_FAILED, "rank %d was ended by signal %d (%s); the others were ended", rank,
                    WTERMSIG(state), strsignal(WTERMSIG(state)));
    int code = WEXITSTATUS(state);
    enum rh_status status =
        code == (int)RH_INVALID || code == (int)RH_OUT_OF_MEMORY ? (enum rh_status)code : RH_FAILED;
    return code == 0
               ? RH_OK
               : fail(status, "rank %d ended with exit %d; the others were ended", rank, code);
}

/* SIGCHLD and the signals that end a job are blocked and waited for, so that no handler is needed.
 */
static enum rh_status wait_ranks(struct job *job, const sigset_t *signals)
{
    for (int left = job->ranks; left > 0;) {
        siginfo_t info;
        const struct timespec second = {1, 0};
        int signal = sigtimedwait(signals, &info, &second);
        if (signal > 0 && signal != SIGCHLD)
            return fail(RH_FAILED, "the job was ended by signal %d (%s)", signal,
                        strsignal(signal));
        for (int i = 0; i < job->ranks; i++) {
            int state = 0;
            if (job->pids[i] <= 0 || waitpid(job->pids[i], &state, WNOHANG) <= 0)
                continue;
            kill(-job->pids[i], SIGKILL); /* what it started and left */
            job->pids[i] = 0;
            left--;
            RETURN_IF_FAILED(judge(job, i, state));
        }
    }
    return RH_OK;
}

static enum rh_status start_ranks(struct job *job)
{
    pid_t parent = getpid();
    for (int i = 0; i < job->ranks; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return fail(RH_FAILED, "cannot start rank %d: %s", i, strerror(errno));
        if (pid == 0)
            become_rank(job, i, parent);
        setpgid(pid, pid);
        job->pids[i] = pid;
    }
    return RH_OK;
}

static enum rh_status run_job(struct job *job)
{
    sigset_t signals;
    sigset_t before;
    char file[96];
    snprintf(job->folder, sizeof job->folder, "/tmp/rehearse-XXXXXX");
    if (!mkdtemp(job->folder))
        return fail(RH_FAILED, "cannot make a folder '%s': %s", job->folder, strerror(errno));
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, &before);
    fflush(NULL);
    enum rh_status status = start_ranks(job);
    if (status == RH_OK)
        status = wait_ranks(job, &signals);
    end_ranks(job);
    sigprocmask(SIG_SETMASK, &before, NULL);
    snprintf(file, sizeof file, "%s/id", job->folder);
    unlink(file);
    rmdir(job->folder);
    return status;
}

/* "-n 4" is "--n 4" to options_read, which knows long options only. */
static enum rh_status run(int argc, char **argv)
{
    struct job job = {.timeout = 20};
    struct string_list arguments = {0};
    char **words = memory_new_array((size_t)argc + 1, sizeof *words);
    char long_n[] = "--n";
    const struct option options[] = {
        {"n", OPTION_INTEGER, &job.ranks},
        {"timeout", OPTION_INTEGER, &job.timeout},
        {"share-gpu", OPTION_FLAG, &job.share_gpu},
    };
    bool own = true;
    for (int i = 0; i < argc; i++) {
        own = own && strcmp(argv[i], "--") != 0;
        words[i] = own && strcmp(argv[i], "-n") == 0 ? long_n : argv[i];
    }
    enum rh_status status =
        options_read(&command_launch, argc, words, options, sizeof options / sizeof *options,
                     &arguments, 1, argc > 0 ? argc : 1);
    if (status == RH_OK && (job.ranks < 1 || job.ranks > 1024))
        status = fail(RH_INVALID, "launch: -n %d: 1 to 1024 ranks are expected", job.ranks);
    if (status == RH_OK) {
        char program[] = "rehearse";
        job.command = memory_new_array((size_t)arguments.count + 2, sizeof *job.command);
        job.pids = memory_new_array((size_t)job.ranks, sizeof *job.pids);
        job.command[0] = program;
        memcpy(job.command + 1, arguments.items, (size_t)arguments.count * sizeof *job.command);
        status = run_job(&job);
        free(job.command);
        free(job.pids);
    }
    free(words);
    list_free(&arguments, false);
    return status;
}

const struct command command_launch = {
    .name = "launch",
    .usage = "-n N [--timeout S] [--share-gpu] -- run EXPERIMENT --backend cuda …",
    .summary = "run a command in N processes, one a rank",
    .help = "  -n N         ranks, one a worker of the experiment\n"
            "  --timeout S  a rank that makes no progress for S seconds ends the job (20)\n"
            "  --share-gpu  all ranks on one GPU, as a functional test\n",
    .run = run,
};
