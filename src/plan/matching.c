#include <stdlib.h>

#include "plan/check.h"
#include "plan/untimed.h"

/* What the instructions of a list ask of one axis. */
struct demand {
    const struct plan *plan;
    int axis;
    int named; /* largest coordinate that is named; -1 */
    int reach; /* largest distance to a relative peer */
};

static bool has_axis(const struct demand *d, const struct group *group)
{
    return group->axes >> d->axis & 1;
}

static void name(struct demand *d, int coordinate)
{
    if (coordinate > d->named)
        d->named = coordinate;
}

/* A root of a group without listed coordinates is a row-major index over the group's axes. */
static int root_coordinate(const struct demand *d, const struct group *group, int root)
{
    for (int axis = d->plan->mesh.axis_count - 1; axis > d->axis; axis--)
        if (group->axes >> axis & 1)
            root /= d->plan->mesh.size[axis];
    return root % d->plan->mesh.size[d->axis];
}

static void look_at_collect(struct demand *d, const struct instruction *in)
{
    const struct group *group = &d->plan->groups[in->collect.group];
    if (!has_axis(d, group))
        return;
    for (int i = 0; i < group->coordinate_count; i++)
        name(d, group->coordinates[i]);
    if (group->coordinate_count == 0)
        name(d, root_coordinate(d, group, in->collect.root_coordinate));
}

static void look_at_exchange(struct demand *d, const struct role *role,
                             const struct instruction *in)
{
    if (!has_axis(d, &d->plan->groups[in->exchange.group]))
        return;
    for (int m = 0; m < in->exchange.message_count; m++) {
        struct peer peer = role->messages[in->exchange.message_first + m].peer;
        if (!peer.relative)
            name(d, peer.value);
        else if (abs(peer.value) > d->reach)
            d->reach = abs(peer.value);
    }
}

/* How many coordinates of an axis the check needs. All workers along a uniform axis do the same, so
 * two stand for many. Where neighbours wrap around, a ring of 2 reach + 1 tells all distances from
 * -reach to reach apart: on a smaller one, a send two to the right would meet a receive from one to
 * the right. All, where a coordinate beyond these is named. */
static int needed(const struct plan *plan, int axis, int list)
{
    struct demand d = {.plan = plan, .axis = axis, .named = -1};
    int size = plan->mesh.size[axis];
    if (axis == plan->role_axis)
        return size;
    for (int r = 0; r < plan->role_count; r++) {
        const struct role *role = &plan->roles[r];
        for (int i = 0; i < role->lists[list].count; i++) {
            const struct instruction *in = &role->lists[list].instructions[i];
            if (in->kind == INSTRUCTION_COLLECT)
                look_at_collect(&d, in);
            else if (in->kind == INSTRUCTION_EXCHANGE)
                look_at_exchange(&d, role, in);
        }
    }
    int need = d.reach >= size ? size : 2 * d.reach + 1;
    if (need < 2)
        need = 2;
    return need < size && d.named < need ? need : size;
}

enum rh_status plan_check_matching(const struct plan *plan, int list)
{
    struct mesh mesh = plan->mesh;
    for (int axis = 0; axis < mesh.axis_count; axis++)
        mesh.size[axis] = needed(plan, axis, list);
    return untimed_run(plan, &mesh, list, NULL);
}
