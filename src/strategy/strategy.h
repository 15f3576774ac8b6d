/* Strategies: how a model's training is spread over devices. Each writes a plan and the order of
 * its lists, and never talks to hardware. One file and one line in strategies.c each. */
#ifndef REHEARSE_STRATEGY_STRATEGY_H
#define REHEARSE_STRATEGY_STRATEGY_H

#include "model/graph.h"
#include "plan/plan.h"
#include "plan/run.h"

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };

/* What happens to gradients between backward and optimizer. */
struct gradient_scaling {
    double loss_scale;       /* the first one; 0: losses are not scaled and no step is skipped */
    double growth, backoff;  /* of the scale, see op.h; 1 and 1: it stays */
    int interval;
    double clip_norm;        /* 0: not clipped */
};

/* The `train` part of an experiment, defaults resolved. */
struct training {
    enum loss_kind loss;
    bool loss_sum;
    enum optimizer_kind optimizer;
    double learning_rate, momentum, dampening, weight_decay, beta1, beta2, epsilon;
    bool nesterov;
    struct gradient_scaling scaling;
    enum dtype precision;
    bool fusion;        /* plan/fuse.h */
    bool channels_last; /* memory format of pictures and convolutions' weights */
    int steps;
    int accumulate; /* passes of one step; 1: no accumulation */
};

/* What a strategy is asked for. All borrowed. */
struct strategy_request {
    const char *where; /* "experiment 'x': strategy", for errors */
    const struct model *model;
    const struct training *training;
    int64_t batch; /* samples of one pass, over all data-parallel ranks */
    bool resident; /* the batch is on the device already */
    struct cluster *cluster;
    const int *devices; /* global numbers, in worker order */
    int device_count;
    int dp, pp;        /* the mesh that the experiment names; 0: left to the strategy */
    const cJSON *keys; /* the experiment's `strategy` object: `type` and the strategy's own keys;
                          may be NULL */
};

/* Where a parameter, a state or an optimizer tensor lies. */
struct tensor_home {
    int role, buffer;
    int64_t offset; /* bytes into the buffer */
};

struct strategy_plan {
    struct plan *plan;
    struct run_entry *entries;
    struct run_order order;
    struct tensor_home *parameters; /* model->parameter_count */
    struct tensor_home *states;     /* model->state_count */
    int *stage_of_layer;            /* layer_count: role or local device, for reports; NULL */
    int buckets;                    /* DDP: of the steady list */
    int microbatches;               /* pipelines; 1 elsewhere */
};
void strategy_plan_free(struct strategy_plan *plan);

struct strategy {
    const char *name; /* "ddp" */
    const char *description;
    const char *const *keys; /* of its own, beside `type` and `ddp` */
    int key_count;
    enum rh_status (*build)(const struct strategy_request *request, struct strategy_plan *plan);
};

/* The strategies by index, NULL after the last; strategy_find suggests the nearest name. */
const struct strategy *strategy_all(int index);
enum rh_status strategy_find(const char *name, const struct strategy **strategy);

/* Builds the plan of `strategy` for the request, refuses unknown keys, and checks nothing else:
 * plan_check is the caller's. */
enum rh_status strategy_build(const struct strategy *strategy,
                              const struct strategy_request *request, struct strategy_plan *plan);

#endif
