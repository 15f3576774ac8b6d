/* When the transient buffers of a list are in use, in list order and in happens-before order: what
 * placement decides by, and what the race check holds it to. */
#ifndef REHEARSE_PLAN_USES_H
#define REHEARSE_PLAN_USES_H

#include "plan/order.h"

/* Per buffer of the role; those that are not transient buffers of the list are unused. */
struct uses {
    int stream_count;
    int *first, *last; /* instructions, in list order; -1: unused */
    int *last_on;      /* [buffer][stream]: last instruction that uses it there; -1 */
    int *ended;        /* [buffer][stream]: what has ended there before any use starts; -1 */
};

/* `order` NULL: first and last only. */
void uses_init(struct uses *uses, const struct role *role, int list, const struct order *order);
void uses_clear(struct uses *uses);

/* Every use of `a` has certainly ended before any use of `b` starts. Both are used. */
bool uses_before(const struct uses *uses, int a, int b);

#endif
