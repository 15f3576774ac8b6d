/* Files that are written whole or not at all: under another name first, renamed at the end. */
#ifndef REHEARSE_REPORT_OUTPUT_H
#define REHEARSE_REPORT_OUTPUT_H

#include <stdio.h>

#include "base/status.h"

struct output {
    FILE *file;      /* write here */
    char *path;      /* where it will be; NULL: standard output */
    char *temporary; /* NULL: what is written cannot be replaced (standard output, a pipe, a device)
                      */
};

/* "-" is standard output. Errors: RH_INVALID with the path and the system's reason. */
enum rh_status output_open(const char *path, struct output *output);
/* Ends the file: kept and RH_OK only if all was written. */
enum rh_status output_close(struct output *output);
/* Ends and forgets it; what stood at the path before stays. */
void output_discard(struct output *output);

#endif
