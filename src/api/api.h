/* What the files that implement rehearse.h share. */
#ifndef REHEARSE_API_API_H
#define REHEARSE_API_API_H

#include <cjson/cJSON.h>

#include "base/status.h"

/* The JSON of a model as an experiment's `model` holds it; owned by the model. */
const cJSON *api_model_json(const struct rh_model *model);

#endif
