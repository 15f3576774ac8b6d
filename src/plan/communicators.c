#include "plan/communicators.h"

#include <stdlib.h>

#include "base/memory.h"
#include "plan/group.h"

struct uses {
    struct communicator_use *items;
    int count, capacity;
};

int communicators_find(const struct communicator_use *uses, int count, int group,
                       const char *stream)
{
    for (int i = 0; i < count; i++)
        if (uses[i].group == group && uses[i].stream == stream)
            return i;
    return -1;
}

static void use(struct uses *uses, int group, const char *stream)
{
    if (communicators_find(uses->items, uses->count, group, stream) < 0)
        *ARRAY_ADD(uses->items, uses->count, uses->capacity) =
            (struct communicator_use){group, stream};
}

/* A collective belongs to its first part's stream, as it does in the check of matching. */
static void use_instruction(struct uses *uses, const struct role *role,
                            const struct instruction *in)
{
    if (in->kind == INSTRUCTION_COLLECT)
        use(uses, in->collect.group,
            role->streams[role->parts[in->collect.part_first].stream].name);
    if (in->kind == INSTRUCTION_EXCHANGE)
        for (int i = 0; i < in->exchange.message_count; i++)
            use(uses, in->exchange.group,
                role->streams[role->messages[in->exchange.message_first + i].stream].name);
}

void communicators_list(const struct plan *plan, struct communicator_use **uses, int *count)
{
    struct uses found = {0};
    for (int r = 0; r < plan->role_count; r++)
        for (int l = 0; l < plan->roles[r].list_count; l++) {
            const struct list *list = &plan->roles[r].lists[l];
            for (int i = 0; i < list->count; i++)
                use_instruction(&found, &plan->roles[r], &list->instructions[i]);
        }
    *uses = found.items;
    *count = found.count;
}

int communicators_rank(const struct plan *plan, int group, int worker)
{
    const struct group *g = &plan->groups[group];
    for (int i = 0; i < group_size(&plan->mesh, g); i++)
        if (group_member(&plan->mesh, g, worker, i) == worker)
            return i;
    return -1;
}

int communicators_color(const struct plan *plan, int group, int worker)
{
    return group_member(&plan->mesh, &plan->groups[group], worker, 0);
}
