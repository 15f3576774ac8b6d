/* Words for parts of a plan, the same in the listing and in the JSON form. Each appends to `out`.
 */
#ifndef REHEARSE_PLAN_DESCRIBE_H
#define REHEARSE_PLAN_DESCRIBE_H

#include "base/text.h"
#include "plan/plan.h"

/* "kernel 7x7 stride 2x2 padding 3x3": every attribute that differs from the plain op; maybe "". */
void describe_op(struct text *out, const struct op *op);
/* "x+160 fp32 (2, 10)", with " strides (20, 1)" where not dense. */
void describe_view(struct text *out, const struct role *role, const struct view *view);
/* "dp pp" and, if limited, " at 0 3"; "local" without axes. */
void describe_group(struct text *out, const struct plan *plan, const struct group *group);
/* "+1", "-1", or "3" for a fixed coordinate. */
void describe_peer(struct text *out, const struct peer *peer);

const char *use_name(enum buffer_use use);      /* "none", "input" … */
const char *reduce_name(enum reduce_op reduce); /* "sum" … */

#endif
