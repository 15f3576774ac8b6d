/* Reading the sections of an experiment, one function each. `where` names the experiment. */
#ifndef REHEARSE_EXPERIMENT_SECTIONS_H
#define REHEARSE_EXPERIMENT_SECTIONS_H

#include "experiment/experiment.h"

enum rh_status section_train(struct experiment *e, const char *where);
enum rh_status section_data(struct experiment *e, const char *where);
enum rh_status section_strategy(struct experiment *e, const char *where);
enum rh_status section_cluster(struct experiment *e, const char *where);

#endif
