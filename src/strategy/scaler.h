/* Between backward and optimizer: the norm of all gradients of a model, wherever they lie, and what
 * follows from it: clip factor, loss scale, whether the step is skipped. Values on devices; no branch
 * in the plan. */
#ifndef REHEARSE_STRATEGY_SCALER_H
#define REHEARSE_STRATEGY_SCALER_H

#include "strategy/stage.h"

/* The persistent buffer, where training asks for one: stage->scaler. It lies beside the loss, whose
 * gradient reads it; a worker without the loss has one too, so that all come to the same. */
void scaler_add(struct stage *stage);
/* Norms, summed over the workers that share the model (those along the plan's role axis); at[gpus + 1]: this step's scaler on each device with
 * parameters. */
void scaler_decide(struct stage *stage, struct writer *writer, struct view *at);

#endif
