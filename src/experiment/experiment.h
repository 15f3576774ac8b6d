/* An experiment: one JSON file that says model, data, training, cluster and strategy; read,
 * checked, turned into a plan, and run on a backend. */
#ifndef REHEARSE_EXPERIMENT_EXPERIMENT_H
#define REHEARSE_EXPERIMENT_EXPERIMENT_H

#include "backends/backend.h"
#include "data/dataset.h"
#include "experiment/learning_rate.h"
#include "strategy/strategy.h"

/* Reads the file ("-": standard input) and applies settings "key.path=value" in order. The value is
 * JSON, or else a string; null removes the key; setting one of data.batch and data.batch_per_device
 * removes the other; paths in the file (data.source, train.init, train.resume, train.save,
 * strategy.schedule_file) are
 * relative to its folder, those in settings to the current one; "model", "strategy" and
 * "train.optimizer" given as a string become objects when a key below them is set. The caller ends
 * it with cJSON_Delete. */
enum rh_status experiment_read(const char *path, const char *const *settings, int setting_count,
                               cJSON **json);
enum rh_status experiment_set(cJSON *json, const char *setting);

struct experiment {
    char *name;
    cJSON *json;               /* as given, settings applied; owned */
    struct platform *platform; /* borrowed */
    struct model *model;
    struct training training;
    struct rate_schedule schedule; /* of training.learning_rate */
    char *init_path;               /* safetensors of parameters; NULL */
    char *save_path, *resume_path; /* checkpoints; NULL */
    int save_every;                /* steps; 0: at the end alone */
    int64_t batch;                 /* of one pass, over all ranks */
    bool batch_per_device;         /* which of the two was given: what is held fixed */
    int64_t batch_given;
    struct data_source source;
    uint64_t seed;
    bool resident;
    struct cluster *cluster;
    int *devices;
    int device_count;
    int dp, pp; /* mesh, 0: left to the strategy */
    const struct strategy *strategy;
    cJSON *strategy_keys; /* resolved for this strategy; owned */
    const struct backend *backend;
    enum launch launch;
    enum fidelity fidelity;
    char *plan_path; /* an edited plan in place of the one that the strategy writes; NULL */
    double anchor_seconds;        /* measured single-GPU step; 0: none */
    double bucket_tensor_seconds; /* overrides the device's; < 0: the device's own */
};

/* Checks everything that can be checked before a plan exists. `json` is taken over, also on
 * failure. */
enum rh_status experiment_open(struct platform *platform, cJSON *json,
                               struct experiment **experiment);
void experiment_close(struct experiment *experiment);

/* Builds, checks and places the plan, and checks that it fits (RH_OUT_OF_MEMORY). */
enum rh_status experiment_plan(const struct experiment *experiment, struct strategy_plan *plan);

struct run_options {
    bool numbers, trace;
    bool no_fold;
    bool ignore_memory; /* run although it does not fit: for references */
    /* SIGTERM and SIGINT end a run with numbers after the step, with a checkpoint if train.save is
     * given, and RH_FAILED. For programs that own their signals; not where several ranks run. */
    bool stop_on_signal;
};

/* What a run gave, with what is needed to print it. */
struct outcome {
    struct result result;
    struct strategy_plan plan;
    int first_step;             /* steps that were done before (train.resume) */
    double compute_scale;       /* the anchor's factor; 1 */
    double single_step_seconds; /* `single` on the first device with one device's share of the
                                   batch; 0 unknown */
    int64_t single_batch;
    double samples_per_second, speedup, efficiency;
    double flops_per_step;
    double asked_bytes, available_bytes; /* where it did not fit (RH_OUT_OF_MEMORY), else 0 */
};
void outcome_free(struct outcome *outcome);

/* Plan, open the backend, load, initial values or those of a checkpoint, steps (those that are
 * left). Memory peaks are filled in. A failed run leaves nothing to free; of its outcome only
 * asked_bytes and available_bytes mean something. */
enum rh_status experiment_run(const struct experiment *experiment,
                              const struct run_options *options, struct outcome *outcome);

#endif
