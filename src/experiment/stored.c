#include "experiment/stored.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static void add(struct stored_list *list, char *name, enum stored_kind kind, int index,
                struct tensor_type type, struct tensor_home home)
{
    struct stored *stored = ARRAY_ADD(list->items, list->count, list->capacity);
    *stored = (struct stored){name, kind, index, type, home};
}

static void add_optimizer(struct stored_list *list, const struct model *model, int role, int number,
                          const struct buffer *buffer)
{
    static const char *const slots[] = {"momentum", "variance"};
    char *name = buffer->index < 0 ? text_copy("optimizer.step")
                                   : text_format("optimizer.%s.%s", slots[buffer->slot],
                                                 model->parameters[buffer->index].name);
    add(list, name, STORED_OPTIMIZER, -1, buffer->type, (struct tensor_home){role, number, 0});
}

static void add_buffer(struct stored_list *list, const struct model *model, int role, int number,
                       const struct buffer *buffer)
{
    if (buffer->use == USE_OPTIMIZER)
        add_optimizer(list, model, role, number, buffer);
    if (buffer->use == USE_SCALER && buffer->index == 1)
        add(list, text_copy("scaler"), STORED_OPTIMIZER, -1, buffer->type,
            (struct tensor_home){role, number, 0});
}

void stored_list_make(struct stored_list *list, const struct model *model,
                      const struct strategy_plan *plan)
{
    *list = (struct stored_list){0};
    for (int i = 0; i < model->parameter_count; i++) {
        struct tensor_type type = {DTYPE_F32, model->parameters[i].shape};
        add(list, text_copy(model->parameters[i].name), STORED_PARAMETER, i, type,
            plan->parameters[i]);
    }
    for (int i = 0; i < model->state_count; i++)
        add(list, text_copy(model->states[i].name), STORED_STATE, i, model->states[i].type,
            plan->states[i]);
    for (int r = 0; r < plan->plan->role_count; r++)
        for (int b = 0; b < plan->plan->roles[r].buffer_count; b++)
            add_buffer(list, model, r, b, &plan->plan->roles[r].buffers[b]);
}

void stored_list_free(struct stored_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    *list = (struct stored_list){0};
}

enum rh_status stored_find(const struct stored *stored, const struct safetensors *file,
                           const char *path, const void **data)
{
    char got[64];
    char expected[64];
    const struct named_tensor *tensor = safetensors_find(file, stored->name);
    if (!tensor)
        return fail(RH_INVALID, "'%s' has no tensor '%s'", path, stored->name);
    if (tensor->type.dtype != stored->type.dtype ||
        !shape_equal(&tensor->type.shape, &stored->type.shape))
        return fail(RH_INVALID, "'%s': '%s' is %s %s, the model wants %s %s", path, stored->name,
                    dtype_name(tensor->type.dtype), shape_text(got, &tensor->type.shape),
                    dtype_name(stored->type.dtype), shape_text(expected, &stored->type.shape));
    *data = tensor->data;
    return RH_OK;
}

enum rh_status stored_check_names(const struct stored_list *list, const struct safetensors *file,
                                  const char *path)
{
    for (int i = 0; i < file->count; i++) {
        bool known = false;
        for (int k = 0; k < list->count && !known; k++)
            known = strcmp(file->tensors[i].name, list->items[k].name) == 0;
        if (!known)
            return fail(RH_INVALID,
                        "'%s': tensor '%s' is none of the %d of this model and optimizer", path,
                        file->tensors[i].name, list->count);
    }
    return RH_OK;
}
