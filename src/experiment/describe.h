/* An experiment and its outcome as a report case. */
#ifndef REHEARSE_EXPERIMENT_DESCRIBE_H
#define REHEARSE_EXPERIMENT_DESCRIBE_H

#include "experiment/experiment.h"
#include "report/report.h"

/* Owns what the report case points to, beside the experiment and the outcome. */
struct described {
    struct report_case report;
    cJSON *resolved;
    char **device_names;
    struct report_file *files;
    char version[128];
};

/* With a `status` other than RH_OK the run failed with the recorded error, and of `outcome` only
 * the memory that it asked for is read. */
void describe_case(const struct experiment *experiment, const struct outcome *outcome,
                   enum rh_status status, struct described *described);
void described_free(struct described *described);

/* The experiment with every default written out: what was run. */
cJSON *experiment_resolved(const struct experiment *experiment);

#endif
