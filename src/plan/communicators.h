/* Which communicators a plan needs, in one order for all workers: one for each (group, stream name)
 * that a collective or exchange uses, split into the instances of the group. */
#ifndef REHEARSE_PLAN_COMMUNICATORS_H
#define REHEARSE_PLAN_COMMUNICATORS_H

#include "plan/plan.h"

struct communicator_use {
    int group;
    const char *stream; /* owned by the plan; interned, so that the pointer tells */
};

/* In order of role, list, instruction, part or message: the same in every process that has the
 * plan. The caller frees *uses. */
void communicators_list(const struct plan *plan, struct communicator_use **uses, int *count);
/* Index in the list, or -1. */
int communicators_find(const struct communicator_use *uses, int count, int group,
                       const char *stream);
/* Index of a worker among the members of its instance of the group, or -1 where the group's
 * coordinates leave it out. */
int communicators_rank(const struct plan *plan, int group, int worker);
/* A number that all members of one instance share and no other instance has: its first member. */
int communicators_color(const struct plan *plan, int group, int worker);

#endif
