/* What people and programs see of a run: tables with units, JSON, CSV, timelines, plots. */
#ifndef REHEARSE_REPORT_REPORT_H
#define REHEARSE_REPORT_REPORT_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "base/status.h"
#include "plan/result.h"

struct report_file {
    const char *path;
    uint64_t hash;
};

/* One case: a run, or why there is none. All pointers are borrowed. Texts may be NULL where
 * unknown; numbers that are 0 (or not finite) where unknown are shown as "-", null in JSON, empty
 * in CSV. */
struct report_case {
    const char *experiment, *model, *strategy, *backend, *backend_version, *launch, *precision;
    const char *cluster;
    const char *batch_fixed; /* "batch" or "batch_per_device": which the experiment gave */
    int64_t batch;           /* samples of one step */
    int device_count;        /* devices that the experiment names; 0: as many as the result has */
    int accumulate, microbatches, buckets;
    const cJSON *resolved; /* the experiment with its defaults; copied */
    uint64_t seed;
    const struct report_file *files; /* platform files read */
    int file_count;
    enum rh_status status;               /* RH_OK, or the case has no result */
    const char *error;                   /* its message */
    double asked_bytes, available_bytes; /* RH_OUT_OF_MEMORY: of the device that is too small; 0:
                                            only `error` tells */
    const struct result *result;
    int first_step; /* steps done before those of the result: of a run that was resumed */
    const char *const *device_names; /* result->device_count: "node0:gpu3 (v100-sxm2-32gb)" */
    double samples_per_second, speedup, efficiency; /* against one device; 0: unknown */
    double single_step_seconds;
    int64_t single_batch; /* what `single` was given for that comparison */
    double compute_scale; /* an anchor's factor; 1 */
    double flops_per_step;
    const char *label; /* compare: what distinguishes the case ("dgx-1v ddp batch=64") */
};

/* The report of one run as a table for people, UTF-8, about 100 columns. Up to 16 devices have a
 * row each; of more, devices whose rows read the same share one. */
void report_print(const struct report_case *c, FILE *out);
/* For programs, SI units in the keys: `experiment`, `strategy`, `backend`, `devices` (per device
 * `peak_bytes` by purpose, `capacity_bytes`, `busy_seconds`, …), `step_seconds` (the median),
 * `steps` (seconds of each), `samples_per_second`, `exposed_communication_seconds`,
 * `bubble_fraction`, `losses`, `memory` (of a GPU that was measured: `predicted_bytes`,
 * `measured_bytes`, …), `loss_scale`, `skipped_steps` and `gradient_norm` where gradients are scaled or
 * clipped, `first_step` of a run that was resumed, and for reproduction
 * `version`, `resolved`, `seed`, `platform_files`. `status` is the exit code (0: there is a
 * result); a case that failed has an `error` instead of the figures, and `asked_bytes` and
 * `available_bytes` if they are known. Freed with cJSON_Delete. */
cJSON *report_json(const struct report_case *c);
/* One row a case, the fastest (samples/s) marked with '*'; units in the headings. A case that
 * failed is a row too: "does not fit: 40.1 of 16.0 GiB". Words of the labels become columns if all
 * labels have equally many. */
void report_table(const struct report_case *cases, int count, FILE *out);
/* One line a case under a heading line; fields quoted as in RFC 4180, lines end in LF, SI units. */
void report_csv(const struct report_case *cases, int count, FILE *out);
/* Chrome/Perfetto trace events: one process a device, one thread a stream (named ranges in a thread
 * of their own above it), microseconds to 1 ns. RH_FAILED if the run kept no spans. */
enum rh_status report_trace(const struct report_case *c, const char *path);
/* Bars of samples/s, and efficiency beside them, drawn by gnuplot as SVG; RH_FAILED if gnuplot is
 * not there or fails, RH_INVALID if the file cannot be written. */
enum rh_status report_plot(const struct report_case *cases, int count, const char *path);
/* Writes JSON to a path ("-": standard output), whole or not at all. */
enum rh_status report_write_json(const cJSON *json, const char *path);

#endif
