/* The cases of a comparison: every combination of files and of the values of every dimension. */
#ifndef REHEARSE_CLI_GRID_H
#define REHEARSE_CLI_GRID_H

#include "cli/cli.h"

struct dimension {
    char *key;                 /* "strategy.type", "cluster", "data.batch" */
    struct string_list values; /* owned */
};

struct grid {
    struct string_list files;
    struct dimension *dimensions;
    int dimension_count, dimension_capacity;
};

/* "key=v1,v2" as a further dimension (the last one varies fastest). A key given again replaces
 * nothing: it is an error. */
enum rh_status grid_add_setting(struct grid *grid, const char *setting);
void grid_add(struct grid *grid, const char *key, const char *values);
int grid_cases(const struct grid *grid);
/* The settings of a case ("key=value" each, owned by the list), its file, and a label of what
 * varies. */
void grid_case(const struct grid *grid, int index, struct string_list *settings, const char **file,
               char **label);
void grid_free(struct grid *grid);

#endif
