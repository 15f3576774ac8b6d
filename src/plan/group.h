/* Who is in a group: members in rank order, peers of a message. `mesh` is the plan's own or a
 * smaller one with the same axes (check.h). */
#ifndef REHEARSE_PLAN_GROUP_H
#define REHEARSE_PLAN_GROUP_H

#include "plan/plan.h"

/* Workers in one instance of the group. */
int group_size(const struct mesh *mesh, const struct group *group);
/* Member `index` of the instance that `worker` is in: the listed coordinates, or row-major over the
 * group's axes. */
int group_member(const struct mesh *mesh, const struct group *group, int worker, int index);
/* Index of a root coordinate: its place in the list, or itself. */
int group_root(const struct group *group, int root_coordinate);
/* The worker at the other end of a message of `worker`; the group has one axis. */
int group_peer(const struct mesh *mesh, const struct group *group, int worker, struct peer peer);

#endif
