/* A training of a few numbers, run as an experiment: what the cases of strategies, losses and
 * optimizers are about. */
#ifndef REHEARSE_TESTS_TRAINING_H
#define REHEARSE_TESTS_TRAINING_H

#include "cases/cases.h"

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
    int batches;                           /* 0: 1 */
    const float *inputs, *targets;
    const int64_t *labels, *indices; /* instead of targets, inputs */
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
void training_free_all(void);

#endif
