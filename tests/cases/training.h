/* A training of a few numbers, run as an experiment: what the cases of strategies, losses and
 * optimizers are about. */
#ifndef REHEARSE_TESTS_TRAINING_H
#define REHEARSE_TESTS_TRAINING_H

#include "cases/cases.h"

#include "experiment/experiment.h"

/* y = w x, one weight without bias. */
extern const char *const model_wx;

struct case_values {
    const char *name;
    int rank;
    int64_t dims[RH_MAX_DIMS];
    const float *values;
};

struct case_training {
    const char *model;     /* JSON; NULL: model_wx */
    const char *rest;      /* further keys: "\"devices\":2,\"strategy\":\"ddp\"" */
    const char *loss;      /* JSON; NULL: "\"mse\"" */
    const char *optimizer; /* JSON; NULL: SGD with lr 1, so that a step subtracts the gradient */
    const char *train;     /* further keys of `train`, each with a comma before it; NULL */
    int steps;             /* 0: 1 */
    struct case_values init[6]; /* until a name is NULL */
    float w;                    /* of model_wx, if `init` is empty */
    /* batches of `rows` samples, one after the other, taken in turn; NULL targets: zeros */
    int64_t rows, columns, target_columns; /* 0: 1 */
    int64_t batch;                         /* of one pass; 0: rows */
    int64_t target_rows;                   /* 0: rows */
    int batches;                           /* 0: 1 */
    const float *inputs, *targets;
    const int64_t *labels, *indices; /* instead of targets, inputs */
    const char *source;              /* JSON, instead of inputs and targets; NULL */
    bool pictures;                   /* a sample is (columns, 1, 1) */
    bool resident;                   /* the batch is on the device already */
};

struct trained {
    enum rh_status status;
    char error[512];
    double losses[32];
    double step_seconds;
    struct safetensors saved; /* parameters, statistics, optimizer's state */
};
/* Freed when the case ends. */
const struct trained *case_train(const struct case_training *training);
/* The same, which must work. */
const struct trained *case_trained(const struct case_training *training);
/* An element of a saved tensor; NaN (and a failed check) if there is none. */
double trained_value(const struct trained *trained, const char *name, int64_t index);
/* Of model_wx. */
double trained_w(const struct trained *trained);
#define CHECK_NOT_TRAINED(training, part)                                                          \
    case_check_not_trained((training), (part), __FILE__, __LINE__)
void case_check_not_trained(const struct case_training *training, const char *part,
                            const char *file, int line);
/* The plan of the same training, checked; freed when the case ends. */
const struct strategy_plan *case_plan(const struct case_training *training);
/* Of all lists called `list`, or of all (NULL): instructions of a kind whose name begins so. */
int plan_count(const struct strategy_plan *plan, const char *list, enum instruction_kind kind,
               const char *name);
/* Bytes of one part of the collectives, or of the copies, whose name begins so. */
double plan_bytes(const struct strategy_plan *plan, const char *list, enum instruction_kind kind,
                  const char *name);
/* A training with every worker at hand: values can be set before the run and read after it. Closed
 * when the case ends. */
struct live;
struct live *live_open(const struct case_training *training);
/* One element of a worker's parameter, gradient, statistics (index 0, element by element) or
 * losses. */
void live_write(struct live *live, int worker, enum buffer_use use, int index, float value);
void live_run(struct live *live);
double live_read(struct live *live, int worker, enum buffer_use use, int index, int64_t element);
/* Seconds of the last step. */
double live_seconds(const struct live *live, int step);
void live_close_all(void);

void training_free_all(void);

/* For live.c: a scratch folder with the training's files, the experiment that reads them, and the
 * end of it. */
void training_files(const struct case_training *training, char folder[32]);
char *training_text(const struct case_training *training, const char *folder);
void training_remove(const char *folder);

#endif
