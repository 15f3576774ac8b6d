/* Workspace as an operand: after this pass every instruction that works in more memory than its
 * operands says so, and placement, races and peaks hold for that memory as for any other. One
 * transient buffer an instruction, so that it shares the arena's bytes with whatever is not in use
 * at that time; a buffer a stream would be there all the time. */
#ifndef REHEARSE_PLAN_WORKSPACE_H
#define REHEARSE_PLAN_WORKSPACE_H

#include "plan/plan.h"

/* Of computes on GPUs; those on the host need none. After plan_fuse, before plan_check. Gives the
 * number of buffers added. */
int plan_add_workspace(struct plan *plan, const struct workspace_limits *limits);

/* Bytes that an instruction got; 0: none. */
size_t workspace_bytes(const struct role *role, const struct instruction *instruction);

#endif
