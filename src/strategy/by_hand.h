/* A model split by hand over the GPUs (and the host) of one worker, the batch in pieces that follow
 * each other: with one piece, model parallelism; with several, the pipelining of the seed article.
 */
#ifndef REHEARSE_STRATEGY_BY_HAND_H
#define REHEARSE_STRATEGY_BY_HAND_H

#include "strategy/strategy.h"

/* `split_size` rows a piece (the last may be smaller); the batch of a rank for one piece. */
enum rh_status by_hand_build(const struct strategy_request *request, const char *name,
                             int64_t split_size, struct strategy_plan *out);

#endif
