#include "plan/check.h"
#include "plan/untimed.h"

/* How many coordinates of an axis the check needs: all workers along a uniform axis do the same, so
 * two stand for many; three where neighbours wrap around; all where coordinates are named. */
static int needed(const struct plan *plan, int axis, int list)
{
    int size = plan->mesh.size[axis];
    int need = size < 2 ? size : 2;
    if (axis == plan->role_axis)
        return size;
    for (int g = 0; g < plan->group_count; g++)
        for (int i = 0; i < plan->groups[g].coordinate_count; i++)
            if ((plan->groups[g].axes >> axis & 1) && plan->groups[g].coordinates[i] >= need)
                return size;
    for (int r = 0; r < plan->role_count; r++) {
        const struct role *role = &plan->roles[r];
        for (int i = 0; i < role->lists[list].count; i++) {
            const struct instruction *in = &role->lists[list].instructions[i];
            if (in->kind == INSTRUCTION_COLLECT && in->collect.root_coordinate >= need)
                return size;
            if (in->kind != INSTRUCTION_EXCHANGE ||
                !(plan->groups[in->exchange.group].axes >> axis & 1))
                continue;
            for (int m = 0; m < in->exchange.message_count; m++) {
                struct peer peer = role->messages[in->exchange.message_first + m].peer;
                if (!peer.relative && peer.value >= need)
                    return size;
                if (peer.relative && need < 3)
                    need = size < 3 ? size : 3;
            }
        }
    }
    return need;
}

enum rh_status plan_check_matching(const struct plan *plan, int list)
{
    struct mesh mesh = plan->mesh;
    for (int axis = 0; axis < mesh.axis_count; axis++)
        mesh.size[axis] = needed(plan, axis, list);
    return untimed_run(plan, &mesh, list, NULL);
}
