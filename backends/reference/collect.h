/* What a collective does to the values of its members. */
#ifndef REHEARSE_BACKENDS_REFERENCE_COLLECT_H
#define REHEARSE_BACKENDS_REFERENCE_COLLECT_H

#include "backends/reference/memory.h"
#include "plan/untimed.h"

/* Members in rank order; reductions go through them in that order, in fp32 or int64. RH_INVALID for
 * a reduction of another type, or a root that sends (broadcast) or receives (reduce) nothing. */
enum rh_status collect_values(const struct areas *areas, const struct untimed_member *members,
                              int count, int root);

#endif
