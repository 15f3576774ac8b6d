/* The entries of the table in strategies.c: one line a strategy. */
#ifndef REHEARSE_STRATEGY_TABLE_H
#define REHEARSE_STRATEGY_TABLE_H

#include "strategy/strategy.h"

extern const struct strategy strategy_single;
extern const struct strategy strategy_data_parallel;
extern const struct strategy strategy_ddp;
extern const struct strategy strategy_model_parallel;
extern const struct strategy strategy_pipeline;

#endif
