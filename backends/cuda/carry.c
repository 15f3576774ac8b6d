#include "backends/cuda/carry.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/mpi/mpi.h"
#include "base/rendezvous.h"

/* A process is a rank of MPI once, from its first need to its end. */
static struct {
    pid_t owner, pid; /* this process, and rehearse-mpi; 0: not started */
    int socket;
} helper;

/* SIGPIPE is not raised, so that a dead helper is an error. */
static bool put(const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(helper.socket, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static enum rh_status get(const struct rank *self, double timeout_seconds, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        struct pollfd wait = {.fd = helper.socket, .events = POLLIN};
        int ready = poll(&wait, 1, (int)(timeout_seconds * 1e3));
        ssize_t n = ready > 0 ? recv(helper.socket, (char *)data + done, bytes - done, 0) : ready;
        if (ready == 0)
            return fail(RH_FAILED, "rank %d: MPI gives no answer within %g s: a rank did not come",
                        self->rank, timeout_seconds);
        if ((ready > 0 && n == 0) || (n < 0 && errno != EINTR))
            return fail(RH_FAILED, "rank %d: MPI does not start, or has ended", self->rank);
        done += n > 0 ? (size_t)n : 0;
    }
    return RH_OK;
}

/* Where all went well MPI's own end waits for the other ranks; a rank that failed does not. */
static void end_helper(int code, void *unused)
{
    struct mpi_request request = {.wish = MPI_WISH_END, .code = code};
    (void)unused;
    if (helper.owner != getpid())
        return; /* a child of the rank */
    put(&request, sizeof request);
    while (waitpid(helper.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static bool find_helper(char path[PATH_MAX + 32])
{
    char own[PATH_MAX];
    const char *given = getenv("REHEARSE_MPI");
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length < 0 ? 0 : length] = '\0';
    if (given) {
        snprintf(path, PATH_MAX + 32, "%s", given);
        return access(path, X_OK) == 0;
    }
    snprintf(path, PATH_MAX + 32, "%s/rehearse-mpi", dirname(own));
    if (access(path, X_OK) != 0)
        snprintf(path, PATH_MAX + 32, "%s", PKGLIBEXECDIR "/rehearse-mpi");
    return access(path, X_OK) == 0;
}

static enum rh_status spawn_helper(const struct rank *self, char *path)
{
    int ends[2];
    char *arguments[] = {path, NULL};
    posix_spawn_file_actions_t actions;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail(RH_FAILED, "rank %d: no socket for MPI", self->rank);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    int error = posix_spawn(&helper.pid, path, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    helper.socket = ends[0];
    helper.owner = error ? 0 : getpid();
    if (error)
        close(ends[0]);
    else
        on_exit(end_helper, NULL);
    return error ? fail(RH_FAILED, "rank %d: cannot start '%s'", self->rank, path) : RH_OK;
}

static enum rh_status start_helper(const struct rank *self, double timeout_seconds)
{
    char path[PATH_MAX + 32];
    struct mpi_greeting mpi;
    if (helper.owner == getpid())
        return RH_OK;
    if (!find_helper(path))
        return fail(RH_INVALID,
                    "rank %d of %d: nothing carries NCCL's id to it: name a file in a folder that "
                    "all ranks see in REHEARSE_RENDEZVOUS, or build with MPI (configure "
                    "--with-mpi): there is no '%s'",
                    self->rank, self->ranks, path);
    RETURN_IF_FAILED(spawn_helper(self, path));
    RETURN_IF_FAILED(get(self, timeout_seconds, &mpi, sizeof mpi));
    if (mpi.rank != self->rank || mpi.ranks != self->ranks)
        return fail(
            RH_INVALID,
            "rank %d of %d: MPI takes it for %d of %d: start it by the mpirun of the MPI of "
            "this build (srun: --mpi), or name a file in REHEARSE_RENDEZVOUS",
            self->rank, self->ranks, mpi.rank, mpi.ranks);
    return RH_OK;
}

static enum rh_status share_by_mpi(const struct rank *self, double timeout_seconds, void *data,
                                   size_t bytes)
{
    struct mpi_request request = {.wish = MPI_WISH_SHARE, .bytes = bytes};
    RETURN_IF_FAILED(start_helper(self, timeout_seconds));
    if (!put(&request, sizeof request) || !put(data, bytes))
        return fail(RH_FAILED, "rank %d: MPI has ended", self->rank);
    return get(self, timeout_seconds, data, bytes);
}

enum rh_status carry_share(const struct rank *self, double timeout_seconds, void *data,
                           size_t bytes)
{
    const char *path = getenv("REHEARSE_RENDEZVOUS");
    return path && *path ? rendezvous_share(path, self, timeout_seconds, data, bytes)
                         : share_by_mpi(self, timeout_seconds, data, bytes);
}
