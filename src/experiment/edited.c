#include "experiment/edited.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "plan/import.h"

static enum rh_status check_lists(const char *path, const struct role *ours,
                                  const struct role *file)
{
    if (ours->gpus != file->gpus)
        return fail(RH_INVALID, "'%s': role '%s' has %d GPUs, the strategy's has %d", path,
                    file->name, file->gpus, ours->gpus);
    if (ours->list_count != file->list_count)
        return fail(RH_INVALID, "'%s': role '%s' has %d lists, the strategy's has %d", path,
                    file->name, file->list_count, ours->list_count);
    for (int i = 0; i < ours->list_count; i++)
        if (strcmp(ours->lists[i].name, file->lists[i].name) != 0)
            return fail(RH_INVALID, "'%s': list %d of role '%s' is '%s', the strategy's is '%s'",
                        path, i, file->name, file->lists[i].name, ours->lists[i].name);
    return RH_OK;
}

static enum rh_status check_shape(const char *path, const struct plan *ours,
                                  const struct plan *file)
{
    if (ours->mesh.axis_count != file->mesh.axis_count || ours->role_axis != file->role_axis)
        return fail(RH_INVALID, "'%s': a mesh of %d axes, the strategy's has %d", path,
                    file->mesh.axis_count, ours->mesh.axis_count);
    for (int i = 0; i < ours->mesh.axis_count; i++)
        if (strcmp(ours->mesh.axis[i], file->mesh.axis[i]) != 0 ||
            ours->mesh.size[i] != file->mesh.size[i])
            return fail(RH_INVALID, "'%s': mesh axis %s = %d, the strategy's is %s = %d", path,
                        file->mesh.axis[i], file->mesh.size[i], ours->mesh.axis[i],
                        ours->mesh.size[i]);
    for (int r = 0; r < ours->role_count; r++)
        RETURN_IF_FAILED(check_lists(path, &ours->roles[r], &file->roles[r]));
    return RH_OK;
}

/* The file's buffer that stands for what the strategy's does. */
static enum rh_status find_home(const char *path, const struct plan *ours, const struct plan *file,
                                struct tensor_home *home)
{
    const struct buffer *wanted = &ours->roles[home->role].buffers[home->buffer];
    const struct role *role = &file->roles[home->role];
    for (int b = 0; b < role->buffer_count; b++) {
        const struct buffer *buffer = &role->buffers[b];
        if (buffer->use != wanted->use || buffer->index != wanted->index ||
            buffer->slot != wanted->slot || buffer->device != wanted->device)
            continue;
        if (buffer->bytes != wanted->bytes)
            return fail(RH_INVALID, "'%s': buffer '%s' has %zu bytes, the strategy's has %zu", path,
                        buffer->name, buffer->bytes, wanted->bytes);
        home->buffer = b;
        return RH_OK;
    }
    return fail(RH_INVALID, "'%s': no buffer of role '%s' on device %d stands for '%s'", path,
                role->name, wanted->device, wanted->name);
}

static enum rh_status move_homes(const char *path, const struct plan *file,
                                 struct strategy_plan *plan, int parameters, int states)
{
    for (int i = 0; i < parameters; i++)
        RETURN_IF_FAILED(find_home(path, plan->plan, file, &plan->parameters[i]));
    for (int i = 0; i < states; i++)
        RETURN_IF_FAILED(find_home(path, plan->plan, file, &plan->states[i]));
    return RH_OK;
}

enum rh_status edited_read(const char *path, const struct model *model, struct strategy_plan *plan)
{
    cJSON *json = NULL;
    struct plan *file = NULL;
    char *where = text_format("plan '%s'", path);
    enum rh_status status = json_read_file(path, &json);
    if (status == RH_OK)
        status = plan_from_json(json, where, &file);
    if (status == RH_OK)
        status = check_shape(path, plan->plan, file);
    if (status == RH_OK)
        status = move_homes(path, file, plan, model->parameter_count, model->state_count);
    if (status == RH_OK) {
        plan_free(plan->plan);
        plan->plan = file;
        file = NULL;
    }
    plan_free(file);
    cJSON_Delete(json);
    free(where);
    return status;
}
