#include <stdlib.h>

#include "plan/attributes.h"
#include "plan/describe.h"

static void add_int(cJSON *object, const char *key, double value)
{
    cJSON_AddNumberToObject(object, key, value);
}

static cJSON *ints(const int64_t *values, int count)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)values[i]));
    return array;
}

static void add_type(cJSON *object, const struct tensor_type *type)
{
    cJSON_AddStringToObject(object, "dtype", dtype_name(type->dtype));
    cJSON_AddItemToObject(object, "shape", ints(type->shape.dim, type->shape.rank));
    if (type->channels_last)
        cJSON_AddTrueToObject(object, "channels_last");
}

static cJSON *view_json(const struct role *role, int index)
{
    if (index < 0)
        return cJSON_CreateNull();
    const struct view *view = &role->views[index];
    cJSON *object = cJSON_CreateObject();
    add_int(object, "buffer", view->buffer);
    add_int(object, "offset", (double)view->offset);
    add_type(object, &view->type);
    if (!view_is_dense(view))
        cJSON_AddItemToObject(object, "strides", ints(view->stride, view->type.shape.rank));
    return object;
}

static cJSON *views_json(const struct role *role, int first, int count)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(array, view_json(role, first + i));
    return array;
}

static cJSON *buffer_json(const struct buffer *buffer)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", buffer->name);
    add_int(object, "device", buffer->device);
    add_type(object, &buffer->type);
    add_int(object, "bytes", (double)buffer->bytes);
    cJSON_AddStringToObject(object, "purpose", purpose_name(buffer->purpose));
    cJSON_AddStringToObject(object, "lifetime",
                            buffer->lifetime == LIFETIME_PERSISTENT ? "persistent" : "transient");
    add_int(object, "offset", (double)buffer->offset);
    if (buffer->lifetime == LIFETIME_TRANSIENT)
        add_int(object, "list", buffer->list);
    if (buffer->use != USE_NONE) {
        cJSON_AddStringToObject(object, "use", use_name(buffer->use));
        add_int(object, "index", buffer->index);
        add_int(object, "slot", buffer->slot);
    }
    if (buffer->use == USE_INPUT || buffer->use == USE_TARGET) {
        cJSON *samples = cJSON_AddObjectToObject(object, "samples");
        add_int(samples, "axis", buffer->samples.axis);
        add_int(samples, "samples_per_pass", (double)buffer->samples.samples_per_pass);
        add_int(samples, "samples_per_coordinate", (double)buffer->samples.samples_per_coordinate);
        add_int(samples, "first", (double)buffer->samples.first);
        add_int(samples, "count", (double)buffer->samples.count);
    }
    return object;
}

static void add_compute(cJSON *object, const struct role *role, const struct instruction *in)
{
    cJSON_AddStringToObject(object, "op", op_name(in->compute.op.kind));
    cJSON_AddItemToObject(object, "attributes", attributes_json(&in->compute.op));
    cJSON_AddItemToObject(object, "reads",
                          views_json(role, in->compute.view_first, in->compute.read_count));
    cJSON_AddItemToObject(
        object, "writes",
        views_json(role, in->compute.view_first + in->compute.read_count, in->compute.write_count));
    if (in->compute.workspace >= 0)
        cJSON_AddItemToObject(object, "workspace", view_json(role, in->compute.workspace));
}

static void add_collect(cJSON *object, const struct role *role, const struct instruction *in)
{
    cJSON_AddStringToObject(object, "collective", collective_name(in->collect.kind));
    cJSON_AddStringToObject(object, "reduce", reduce_name(in->collect.reduce));
    add_int(object, "group", in->collect.group);
    add_int(object, "root_coordinate", in->collect.root_coordinate);
    add_int(object, "root_part", in->collect.root_part);
    cJSON *parts = cJSON_AddArrayToObject(object, "parts");
    for (int i = 0; i < in->collect.part_count; i++) {
        const struct part *part = &role->parts[in->collect.part_first + i];
        cJSON *item = cJSON_CreateObject();
        add_int(item, "stream", part->stream);
        cJSON_AddItemToObject(item, "send", view_json(role, part->send));
        cJSON_AddItemToObject(item, "receive", view_json(role, part->receive));
        cJSON_AddItemToArray(parts, item);
    }
}

static void add_exchange(cJSON *object, const struct role *role, const struct instruction *in)
{
    add_int(object, "group", in->exchange.group);
    cJSON *messages = cJSON_AddArrayToObject(object, "messages");
    for (int i = 0; i < in->exchange.message_count; i++) {
        const struct message *message = &role->messages[in->exchange.message_first + i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", message->name);
        cJSON_AddStringToObject(item, "direction", message->send ? "send" : "receive");
        add_int(item, "stream", message->stream);
        cJSON *peer = cJSON_AddObjectToObject(item, "peer");
        if (message->peer.relative)
            cJSON_AddTrueToObject(peer, "relative");
        add_int(peer, "value", message->peer.value);
        cJSON_AddItemToObject(item, "view", view_json(role, message->view));
        cJSON_AddItemToArray(messages, item);
    }
}

static cJSON *instruction_json(const struct role *role, const struct instruction *in)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", instruction_kind_name(in->kind));
    cJSON_AddStringToObject(object, "name", in->name);
    add_int(object, "stream", in->stream);
    cJSON_AddStringToObject(object, "work", work_name(in->work));
    if (in->microbatch >= 0)
        add_int(object, "microbatch", in->microbatch);
    switch (in->kind) {
    case INSTRUCTION_COMPUTE: add_compute(object, role, in); break;
    case INSTRUCTION_COPY:
        cJSON_AddItemToObject(object, "from", view_json(role, in->copy.from));
        cJSON_AddItemToObject(object, "to", view_json(role, in->copy.to));
        break;
    case INSTRUCTION_COLLECT: add_collect(object, role, in); break;
    case INSTRUCTION_EXCHANGE: add_exchange(object, role, in); break;
    case INSTRUCTION_RECORD:
    case INSTRUCTION_WAIT:
    case INSTRUCTION_SYNC: add_int(object, "event", in->event); break;
    case INSTRUCTION_BEGIN:
    case INSTRUCTION_END: break;
    }
    return object;
}

static void add_lists(cJSON *object, const struct role *role)
{
    cJSON *lists = cJSON_AddArrayToObject(object, "lists");
    for (int i = 0; i < role->list_count; i++) {
        const struct list *list = &role->lists[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", list->name);
        cJSON *instructions = cJSON_AddArrayToObject(item, "instructions");
        for (int k = 0; k < list->count; k++)
            cJSON_AddItemToArray(instructions, instruction_json(role, &list->instructions[k]));
        cJSON_AddItemToArray(lists, item);
    }
}

static cJSON *role_json(const struct role *role)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", role->name);
    add_int(object, "gpus", role->gpus);
    cJSON *devices = cJSON_AddArrayToObject(object, "devices");
    for (int d = 0; d <= role->gpus; d++) {
        cJSON *item = cJSON_CreateObject();
        add_int(item, "persistent_bytes", (double)role->persistent_bytes[d]);
        add_int(item, "arena_bytes", (double)role->arena_bytes[d]);
        cJSON_AddItemToArray(devices, item);
    }
    cJSON *streams = cJSON_AddArrayToObject(object, "streams");
    for (int i = 0; i < role->stream_count; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", role->streams[i].name);
        add_int(item, "device", role->streams[i].device);
        cJSON_AddItemToArray(streams, item);
    }
    cJSON *events = cJSON_AddArrayToObject(object, "events");
    for (int i = 0; i < role->event_count; i++)
        cJSON_AddItemToArray(events, cJSON_CreateString(role->events[i]));
    cJSON *buffers = cJSON_AddArrayToObject(object, "buffers");
    for (int i = 0; i < role->buffer_count; i++)
        cJSON_AddItemToArray(buffers, buffer_json(&role->buffers[i]));
    add_lists(object, role);
    return object;
}

cJSON *plan_to_json(const struct plan *plan)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", plan->name);
    cJSON *mesh = cJSON_AddObjectToObject(object, "mesh");
    for (int i = 0; i < plan->mesh.axis_count; i++)
        add_int(mesh, plan->mesh.axis[i], plan->mesh.size[i]);
    if (plan->role_axis >= 0)
        cJSON_AddStringToObject(object, "role_axis", plan->mesh.axis[plan->role_axis]);
    cJSON *groups = cJSON_AddArrayToObject(object, "groups");
    for (int i = 0; i < plan->group_count; i++) {
        const struct group *group = &plan->groups[i];
        int64_t coordinates[8];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", plan->groups[i].name);
        cJSON *axes = cJSON_AddArrayToObject(item, "axes");
        for (int axis = 0; axis < plan->mesh.axis_count; axis++)
            if (group->axes & 1u << axis)
                cJSON_AddItemToArray(axes, cJSON_CreateString(plan->mesh.axis[axis]));
        for (int k = 0; k < group->coordinate_count; k++)
            coordinates[k] = group->coordinates[k];
        if (group->coordinate_count)
            cJSON_AddItemToObject(item, "coordinates", ints(coordinates, group->coordinate_count));
        cJSON_AddItemToArray(groups, item);
    }
    cJSON *roles = cJSON_AddArrayToObject(object, "roles");
    for (int i = 0; i < plan->role_count; i++)
        cJSON_AddItemToArray(roles, role_json(&plan->roles[i]));
    return object;
}
