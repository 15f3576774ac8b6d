#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/text.h"
#include "cli/cli.h"

static const struct command *const commands[] = {
    &command_run,       &command_compare, &command_plan,   &command_platform,
    &command_published, &command_comm,    &command_launch, &command_schedule,
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static enum rh_status unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT + 1];
    for (int i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i]->name;
    names[COMMAND_COUNT] = "help";
    const char *nearest = text_nearest(name, names, COMMAND_COUNT + 1);
    if (nearest)
        return fail(RH_INVALID, "unknown command '%s'; did you mean '%s'?", name, nearest);
    return fail(RH_INVALID, "unknown command '%s'; see 'rehearse help'", name);
}

static enum rh_status print_help(const char *name)
{
    if (name) {
        const struct command *command = find_command(name);
        if (!command)
            return unknown_command(name);
        printf("usage: rehearse %s %s\n\n%s\n%s", command->name, command->usage, command->summary,
               command->help);
        return RH_OK;
    }
    printf("usage: rehearse COMMAND …\n\n"
           "Rehearse a training run: simulate it on clusters that you do not own, run it on those\n"
           "that you have.\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf("  %-10s %s\n", "help", "this text, or that of a command");
    printf("  %-10s %s\n", "--version", "what was built and what is here");
    printf("\nExit: 0 done, 1 the run failed or hardware is missing, 2 bad input, 3 does not fit "
           "in memory.\n");
    return RH_OK;
}

static enum rh_status dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(NULL);
        return fail(RH_INVALID, "a command is expected");
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_help(argc > 2 ? argv[2] : NULL);
    if (strcmp(name, "--version") == 0) {
        api_print_version(stdout);
        return RH_OK;
    }
    const struct command *command = find_command(name);
    if (!command)
        return unknown_command(name);
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            return print_help(name);
    return command->run(argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    enum rh_status status = dispatch(argc, argv);
    if (status != RH_OK)
        fprintf(stderr, "rehearse: %s\n", fail_message());
    if (fflush(stdout) != 0 && status == RH_OK) {
        fprintf(stderr, "rehearse: cannot write to standard output\n");
        status = RH_FAILED;
    }
    return (int)status;
}
