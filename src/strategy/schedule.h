/* Pipeline schedules as data: what each rank does, in its order (torch-semantics.md section 8). The
 * rules are those of GPipe (arXiv 1811.06965), 1F1B and its interleaving (2104.04473),
 * breadth-first loops (2211.05953) and zero bubbles (2401.10241) as PyTorch generates them; a table
 * of one's own is read from a CSV file. Nothing here knows models or devices. */
#ifndef REHEARSE_STRATEGY_SCHEDULE_H
#define REHEARSE_STRATEGY_SCHEDULE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

enum action_kind {
    ACTION_FORWARD,  /* F */
    ACTION_BACKWARD, /* B: input's and weights' gradients */
    ACTION_INPUT,    /* I: the input's gradient */
    ACTION_WEIGHT    /* W: the weights' gradients */
};

/* "2F0": stage 2, forward, microbatch 0. */
struct action {
    int stage;
    enum action_kind kind;
    int microbatch;
};

struct schedule_table {
    int ranks, stages, microbatches;
    int *rank_of_stage;
    struct action **actions; /* per rank, in order */
    int *counts;             /* per rank */
};
void schedule_free(struct schedule_table *table);

/* The table of a schedule by name; names are as in `rehearse schedule`, PyTorch's own are
 * understood
 * ("Interleaved1F1B"), case does not matter. stages 0: as many as the schedule wants on these ranks
 * (one a rank, or two where they are interleaved). Fails with `where` and both numbers where they
 * do not fit, and with the nearest name. */
enum rh_status schedule_make(const char *name, const char *where, int ranks, int stages,
                             int microbatches, struct schedule_table *table);
/* One line a rank, actions between commas; an empty field is an idle slot and is left out. The
 * table has been checked. */
enum rh_status schedule_read(const char *path, const char *where, struct schedule_table *table);
/* Each stage on one rank; for each microbatch one F, and one B or one I and one W, F before B or I
 * before W; nothing waits for itself ("no progress" names the first action that cannot start). */
enum rh_status schedule_check(const struct schedule_table *table, const char *where);
/* Names and one-line descriptions, NULL after the last. */
const char *schedule_name(int index, const char **description);

/* A line a rank, without idle slots. */
void schedule_write_csv(const struct schedule_table *table, FILE *out);
/* "0  0F0 0F1 …" */
void schedule_print(const struct schedule_table *table, FILE *out);

/* When each action starts if it does so as soon as it can, without transfers; a B takes input +
 * weight. Times are of one stage's part of one microbatch, in any unit. */
struct schedule_times {
    double forward, input, weight;
    bool first_stage_whole; /* stage 0 as in PyTorch: its I takes nothing, its W both times */
};
struct schedule_result {
    double total;     /* from the first start to the last end */
    double *busy;     /* per rank */
    int *live_input;  /* per rank: most microbatches (of a stage each) between F and B or I */
    int *live_weight; /* the same until B or W: memory that is kept */
    double **starts;  /* per rank and action */
};
/* The table must have passed schedule_check. */
void schedule_run(const struct schedule_table *table, const struct schedule_times *times,
                  struct schedule_result *result);
void schedule_result_free(const struct schedule_table *table, struct schedule_result *result);
double schedule_seconds(const struct schedule_times *times, const struct action *action);

#endif
