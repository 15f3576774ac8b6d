#include "plan/workspace.h"

#include <stdlib.h>

#include "base/memory.h"

/* Types of an instruction's operands; an optimizer has hundreds. */
struct types {
    struct tensor_type *at;
    int count, capacity;
};

static void take_types(struct types *types, const struct role *role, const struct instruction *in)
{
    types->count = 0;
    for (int i = 0; i < in->compute.read_count + in->compute.write_count; i++)
        *ARRAY_ADD(types->at, types->count, types->capacity) =
            role->views[in->compute.view_first + i].type;
}

static size_t bytes_of(struct types *types, const struct role *role, const struct instruction *in,
                       const struct workspace_limits *limits)
{
    if (in->kind != INSTRUCTION_COMPUTE || in->compute.workspace >= 0 ||
        role->streams[in->stream].device == role->gpus)
        return 0;
    take_types(types, role, in);
    return op_workspace_bytes(&in->compute.op, types->at, in->compute.read_count,
                              types->at + in->compute.read_count, in->compute.write_count, limits);
}

static int add_view(struct plan *plan, int r, int list, const struct instruction *in, size_t bytes)
{
    struct role *role = &plan->roles[r];
    int64_t elements = (int64_t)(bytes / dtype_bytes(DTYPE_F32));
    struct buffer buffer = {.name = plan_text(plan, "%s workspace", in->name),
                            .device = role->streams[in->stream].device,
                            .type = {DTYPE_F32, shape_of(1, &elements), false},
                            .purpose = PURPOSE_WORKSPACE,
                            .lifetime = LIFETIME_TRANSIENT,
                            .list = list,
                            .index = -1};
    int added = role_add_buffer(plan, r, buffer);
    struct view view = view_of(role, added);
    *ARRAY_ADD(role->views, role->view_count, role->view_capacity) = view;
    return role->view_count - 1;
}

int plan_add_workspace(struct plan *plan, const struct workspace_limits *limits)
{
    struct types types = {0};
    int added = 0;
    for (int r = 0; r < plan->role_count; r++)
        for (int l = 0; l < plan->roles[r].list_count; l++)
            for (int i = 0; i < plan->roles[r].lists[l].count; i++) {
                struct instruction *in = &plan->roles[r].lists[l].instructions[i];
                size_t bytes = bytes_of(&types, &plan->roles[r], in, limits);
                if (bytes == 0)
                    continue;
                in->compute.workspace = add_view(plan, r, l, in, bytes);
                added++;
            }
    free(types.at);
    return added;
}

size_t workspace_bytes(const struct role *role, const struct instruction *in)
{
    if (in->kind != INSTRUCTION_COMPUTE || in->compute.workspace < 0)
        return 0;
    return type_bytes(&role->views[in->compute.workspace].type);
}
