/* Exactly which bytes strided views touch: columns of one matrix lie in each other's range without
 * sharing a byte. */
#ifndef REHEARSE_PLAN_OVERLAP_H
#define REHEARSE_PLAN_OVERLAP_H

#include "plan/plan.h"

/* Of views of one buffer. Beyond OVERLAP_MOST_RUNS runs of bytes a view counts as its whole range.
 */
enum { OVERLAP_MOST_RUNS = 65536 };
bool overlap_views(const struct view *a, const struct view *b);

/* Every byte of `view` is touched by one of `others`. */
bool overlap_covers(const struct view *const *others, int count, const struct view *view);

#endif
