/* `rehearse launch`: the same command in N processes of this machine, each with its rank in the
 * environment. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/job.h"

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
        job.command[0] = program;
        memcpy(job.command + 1, arguments.items, (size_t)arguments.count * sizeof *job.command);
        status = job_run(&job);
        free(job.command);
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
