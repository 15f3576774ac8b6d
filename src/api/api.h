/* What the files that implement rehearse.h share. */
#ifndef REHEARSE_API_API_H
#define REHEARSE_API_API_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "base/status.h"

/* The version, and what each backend stands on or why it is not there. */
void api_print_version(FILE *out);

/* The JSON of a model as an experiment's `model` holds it; owned by the model. */
const cJSON *api_model_json(const struct rh_model *model);

#endif
