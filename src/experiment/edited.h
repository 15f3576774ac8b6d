/* A plan that was written out (`rehearse plan --json`), edited, and comes back in place of the one that
 * the strategy writes. */
#ifndef REHEARSE_EXPERIMENT_EDITED_H
#define REHEARSE_EXPERIMENT_EDITED_H

#include "strategy/strategy.h"

/* Replaces plan->plan by the file's. Mesh, roles and names of the lists must be those of the
 * strategy's, since the order in which lists run is the strategy's; what parameters and statistics
 * stand for is found in the buffers' `use`. After a failure the
 * plan is only good for strategy_plan_free. */
enum rh_status edited_read(const char *path, const struct model *model, struct strategy_plan *plan);

#endif
