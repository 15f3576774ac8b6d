/* The command line: one file a subcommand, one line in the table of main.c. */
#ifndef REHEARSE_CLI_CLI_H
#define REHEARSE_CLI_CLI_H

#include <stdbool.h>

#include "base/status.h"

struct command {
    const char *name;
    const char *usage;   /* after "rehearse NAME " */
    const char *summary; /* one line for `help` */
    const char *help;    /* the options, for `help NAME` */
    /* Arguments after the name. Returns the exit status; the error message is printed by main. */
    enum rh_status (*run)(int argc, char **argv);
};

extern const struct command command_run;
extern const struct command command_compare;
extern const struct command command_plan;
extern const struct command command_platform;
extern const struct command command_published;
extern const struct command command_comm;
extern const struct command command_launch;
extern const struct command command_schedule;

/* Options of a subcommand: "--name value", "--name=value", or "--name" for flags. */
enum option_kind { OPTION_FLAG, OPTION_STRING, OPTION_INTEGER, OPTION_LIST };

struct string_list {
    const char **items;
    int count, capacity;
};

struct option {
    const char *name; /* without the dashes */
    enum option_kind kind;
    void *value; /* bool, const char *, int, struct string_list */
};

/* Fails on an unknown option (with the nearest), a missing or bad value, and on fewer than `least`
 * or more than `most` other arguments, which go to `arguments`. */
enum rh_status options_read(const struct command *command, int argc, char **argv,
                            const struct option *options, int option_count,
                            struct string_list *arguments, int least, int most);
/* Splits "a,b,c" at commas that stand outside brackets and quotes. The pieces are owned by the
 * list. */
void list_split(struct string_list *list, const char *text);
void list_free(struct string_list *list, bool owns_items);

#endif
