/* A pipeline whose ranks take the actions of a schedule: what pipeline.c reads and pipeline_list.c
 * writes. */
#ifndef REHEARSE_STRATEGY_PIPELINE_H
#define REHEARSE_STRATEGY_PIPELINE_H

#include "strategy/crossings.h"
#include "strategy/schedule.h"
#include "strategy/stage.h"

/* Whether a stage keeps only its input from forward to backward, and runs its forward again there. */
enum recompute {
    RECOMPUTE_NEVER,
    RECOMPUTE_ALWAYS,
    RECOMPUTE_EXCEPT_LAST /* not of the last microbatch, whose backward comes soon */
};

struct pipeline {
    const struct strategy_request *request;
    struct strategy_plan *out;
    struct graph *graph; /* of one microbatch */
    struct schedule_table table;
    struct ddp_options ddp;
    int ranks; /* data parallel: pipelines side by side */
    int dp_group, pp_group;
    int *stage_of_layer; /* layer_count + 1 (the loss) */
    struct crossing *crossings;
    int crossing_count;
    enum recompute recompute;
    bool first_stage_whole; /* stage 0 does its whole backward in W, as in PyTorch */
};

/* One list of a rank of the pipeline. */
struct pipeline_list {
    const char *name;
    bool start;      /* parameters and statistics of data-parallel rank 0 go to all */
    bool statistics; /* statistics do, before the forward */
    bool accumulate; /* adds to the gradients of the passes before */
    bool update;     /* reduces buckets, and updates */
    bool unlimited;  /* all in one bucket */
};
void pipeline_write_list(const struct pipeline *p, struct stage *stage,
                         const struct pipeline_list *what);

#endif
