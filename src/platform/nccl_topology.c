/* NCCL writes its topology down when a communicator is made. That happens in a process of its own:
 * it may hang or die, and the environment that asks for the file is not ours to keep. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/detect.h"

enum { MOST_SECONDS = 120, NO_LIBRARY = 41, NO_COMMUNICATOR = 42 };

/* Its words go nowhere: NCCL_DEBUG may be set, and standard output is the node. */
static void child_main(const char *path, int gpus)
{
    const char *given = getenv("REHEARSE_NCCL");
    void *communicators[DETECT_MOST_GPUS] = {NULL};
    int (*init)(void **, int, const int *) = NULL;
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    alarm(MOST_SECONDS);
    setenv("NCCL_TOPO_DUMP_FILE", path, 1);
    unsetenv("NCCL_TOPO_DUMP_FILE_RANK");
    void *library = dlopen(given ? given : "libnccl.so.2", RTLD_NOW);
    void *symbol = library ? dlsym(library, "ncclCommInitAll") : NULL;
    if (!symbol)
        _exit(NO_LIBRARY);
    memcpy(&init, &symbol, sizeof init);
    _exit(init(communicators, gpus, NULL) == 0 ? 0 : NO_COMMUNICATOR);
}

static enum rh_status ask(const char *path, int gpus)
{
    int exit_status = 0;
    pid_t child = fork();
    if (child == 0)
        child_main(path, gpus);
    if (child < 0)
        return fail(RH_FAILED, "cannot start a process for NCCL: %s", strerror(errno));
    while (waitpid(child, &exit_status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(exit_status) && WTERMSIG(exit_status) == SIGALRM)
        return fail(RH_FAILED, "NCCL made no communicator within %d s", MOST_SECONDS);
    if (WIFSIGNALED(exit_status))
        return fail(RH_FAILED, "NCCL was ended by signal %d", WTERMSIG(exit_status));
    if (WEXITSTATUS(exit_status) == NO_LIBRARY)
        return fail(RH_FAILED, "NCCL is not installed");
    if (WEXITSTATUS(exit_status))
        return fail(RH_FAILED, "NCCL cannot make a communicator of %d GPUs", gpus);
    return RH_OK;
}

char *nccl_topology(int gpus)
{
    const char *folder = getenv("TMPDIR");
    char *path = text_format("%s/rehearse-topology-XXXXXX", folder ? folder : "/tmp");
    char *topology = NULL;
    int file = mkstemp(path);
    if (file < 0) {
        fail(RH_FAILED, "cannot make '%s': %s", path, strerror(errno));
        free(path);
        return NULL;
    }
    close(file);
    if (ask(path, gpus) == RH_OK)
        topology = text_read_file(path, NULL);
    if (topology && !strchr(topology, '<')) {
        free(topology);
        topology = NULL;
        fail(RH_FAILED, "NCCL wrote no topology");
    }
    unlink(path);
    free(path);
    return topology;
}
