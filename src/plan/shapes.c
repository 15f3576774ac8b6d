#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/access.h"
#include "plan/check.h"
#include "plan/packing.h"
#include "plan/placement.h"

/* Where the check stands. */
struct place {
    const struct plan *plan;
    const struct role *role;
    int list, index;
    const struct instruction *instruction;
    struct tensor_type *types; /* room for the operands of one op */
    int type_capacity;
};

static enum rh_status within(const struct place *place, enum rh_status status)
{
    if (status == RH_OK)
        return RH_OK;
    return fail_within(status, "%s '%s' (instruction %d of list '%s', role '%s')",
                       instruction_kind_name(place->instruction->kind), place->instruction->name,
                       place->index, place->role->lists[place->list].name, place->role->name);
}

static enum rh_status check_index(const char *what, int index, int count)
{
    if (index < 0 || index >= count)
        return fail(RH_INVALID, "no such %s: index %d, %d there", what, index, count);
    return RH_OK;
}

static enum rh_status check_view(const struct place *place, int index)
{
    RETURN_IF_FAILED(check_index("view", index, place->role->view_count));
    const struct view *view = &place->role->views[index];
    RETURN_IF_FAILED(check_index("buffer", view->buffer, place->role->buffer_count));
    const struct buffer *buffer = &place->role->buffers[view->buffer];
    for (int d = 0; d < view->type.shape.rank; d++)
        if (view->type.shape.dim[d] < 0 || (view->type.shape.dim[d] > 1 && view->stride[d] < 1))
            return fail(
                RH_INVALID, "bad view of buffer '%s': dimension %d has %lld rows and stride %lld",
                buffer->name, d, (long long)view->type.shape.dim[d], (long long)view->stride[d]);
    if (view->offset < 0 || view_end(view) > (int64_t)buffer->bytes)
        return fail(RH_INVALID, "view outside buffer '%s': bytes [%lld, %lld) of %zu", buffer->name,
                    (long long)view->offset, (long long)view_end(view), buffer->bytes);
    if (buffer->lifetime == LIFETIME_TRANSIENT && buffer->list != place->list)
        return fail(RH_INVALID, "transient buffer '%s' belongs to list %d, used in list %d",
                    buffer->name, buffer->list, place->list);
    return RH_OK;
}

static const struct tensor_type *type_of(const struct place *place, int view)
{
    return &place->role->views[view].type;
}

static const struct buffer *buffer_of(const struct place *place, int view)
{
    return &place->role->buffers[place->role->views[view].buffer];
}

static enum rh_status check_device(const struct place *place, int stream, int view)
{
    const struct stream *s = &place->role->streams[stream];
    const struct buffer *buffer = buffer_of(place, view);
    if (s->device != buffer->device)
        return fail(RH_INVALID, "stream '%s' is of device %d, buffer '%s' of device %d", s->name,
                    s->device, buffer->name, buffer->device);
    return RH_OK;
}

static enum rh_status check_compute(struct place *place)
{
    const struct instruction *instruction = place->instruction;
    int reads = instruction->compute.read_count;
    int count = reads + instruction->compute.write_count;
    if (count > place->type_capacity) {
        place->type_capacity = 2 * count;
        place->types =
            memory_resize(place->types, (size_t)place->type_capacity, sizeof *place->types);
    }
    for (int i = 0; i < count; i++) {
        int view = access_at(place->role, instruction, i).view;
        RETURN_IF_FAILED(check_device(place, instruction->stream, view));
        place->types[i] = *type_of(place, view);
    }
    if (instruction->compute.workspace >= 0)
        RETURN_IF_FAILED(check_device(place, instruction->stream, instruction->compute.workspace));
    return op_check(&instruction->compute.op, place->types, reads, place->types + reads,
                    instruction->compute.write_count);
}

static enum rh_status check_copy(const struct place *place)
{
    int from = place->instruction->copy.from, to = place->instruction->copy.to;
    const struct tensor_type *a = type_of(place, from), *b = type_of(place, to);
    long long x = (long long)shape_elements(&a->shape), y = (long long)shape_elements(&b->shape);
    if (x != y)
        return fail(RH_INVALID, "copy of %lld elements of '%s' to %lld of '%s'", x,
                    buffer_of(place, from)->name, y, buffer_of(place, to)->name);
    if (dtype_bytes(a->dtype) != dtype_bytes(b->dtype))
        return fail(RH_INVALID, "copy of %s '%s' to %s '%s'", dtype_name(a->dtype),
                    buffer_of(place, from)->name, dtype_name(b->dtype), buffer_of(place, to)->name);
    const struct stream *stream = &place->role->streams[place->instruction->stream];
    int source = buffer_of(place, from)->device, target = buffer_of(place, to)->device;
    if (stream->device != source && stream->device != target)
        return fail(RH_INVALID, "copy from device %d to device %d on stream '%s' of device %d",
                    source, target, stream->name, stream->device);
    return RH_OK;
}

/* What goes through a communicator is dense, as NCCL wants it. */
static enum rh_status check_dense(const struct place *place, int view)
{
    if (!view_is_dense(&place->role->views[view]))
        return fail(RH_INVALID, "view of buffer '%s' is not dense", buffer_of(place, view)->name);
    return RH_OK;
}

/* Coordinates that take part, without the parts of each. */
static int group_size(const struct plan *plan, const struct group *group)
{
    int size = 1;
    if (group->coordinate_count > 0)
        return group->coordinate_count;
    for (int i = 0; i < plan->mesh.axis_count; i++)
        if (group->axes & 1u << i)
            size *= plan->mesh.size[i];
    return size;
}

static enum rh_status check_root(const struct place *place, const struct group *group)
{
    int root = place->instruction->collect.root_coordinate;
    int kind = (int)place->instruction->collect.kind;
    if (kind != COLLECTIVE_REDUCE && kind != COLLECTIVE_BROADCAST)
        return RH_OK;
    RETURN_IF_FAILED(check_index("root part", place->instruction->collect.root_part,
                                 place->instruction->collect.part_count));
    for (int i = 0; i < group->coordinate_count; i++)
        if (group->coordinates[i] == root)
            return RH_OK;
    if (group->coordinate_count > 0)
        return fail(RH_INVALID, "root coordinate %d is not in group '%s'", root, group->name);
    return check_index("root coordinate", root, group_size(place->plan, group));
}

/* Elements that a part gives and gets must fit this: give * of_send = get * of_receive. */
static enum rh_status check_ratio(const struct place *place, const struct part *part, int members)
{
    enum collective_kind kind = place->instruction->collect.kind;
    int64_t gives = shape_elements(&type_of(place, part->send)->shape);
    int64_t gets = shape_elements(&type_of(place, part->receive)->shape);
    int64_t wanted = gives;
    bool divides = true;
    if (kind == COLLECTIVE_ALL_GATHER)
        wanted = gives * members;
    if (kind == COLLECTIVE_REDUCE_SCATTER)
        wanted = gives / members;
    if (kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_ALL_TO_ALL)
        divides = gives % members == 0;
    if (gets != wanted || !divides)
        return fail(
            RH_INVALID, "%s over %d members gives %lld elements of '%s' and gets %lld of '%s'",
            collective_name(kind), members, (long long)gives, buffer_of(place, part->send)->name,
            (long long)gets, buffer_of(place, part->receive)->name);
    return RH_OK;
}

/* Who must give and get. Over several workers the root is a coordinate: other roles than the root's
 * may leave out what they do not need. */
static enum rh_status check_presence(const struct place *place, const struct group *group, int i,
                                     const struct part *part)
{
    enum collective_kind kind = place->instruction->collect.kind;
    bool root = i == place->instruction->collect.root_part, alone = group->axes == 0;
    bool needs_send = kind == COLLECTIVE_BROADCAST ? root && alone : true;
    bool needs_receive = kind == COLLECTIVE_BROADCAST ? !root
                         : kind == COLLECTIVE_REDUCE  ? root && alone
                                                      : true;
    if ((needs_send && part->send < 0) || (needs_receive && part->receive < 0))
        return fail(RH_INVALID, "%s '%s': part %d has nothing to %s", collective_name(kind),
                    place->instruction->name, i, needs_send && part->send < 0 ? "send" : "receive");
    if (part->send < 0 && part->receive < 0)
        return fail(RH_INVALID, "%s '%s': part %d neither sends nor receives",
                    collective_name(kind), place->instruction->name, i);
    return RH_OK;
}

/* `first` is the first operand of the same side of an earlier part; -1 at first. */
static enum rh_status check_same(const struct place *place, int view, int *first)
{
    if (view < 0)
        return RH_OK;
    if (*first < 0)
        *first = view;
    const struct tensor_type *a = type_of(place, *first), *b = type_of(place, view);
    long long x = (long long)shape_elements(&a->shape), y = (long long)shape_elements(&b->shape);
    if (x != y || a->dtype != b->dtype)
        return fail(RH_INVALID, "parts of a collective differ: %lld %s of '%s' and %lld %s of '%s'",
                    x, dtype_name(a->dtype), buffer_of(place, *first)->name, y,
                    dtype_name(b->dtype), buffer_of(place, view)->name);
    return RH_OK;
}

static enum rh_status check_collect(const struct place *place)
{
    const struct instruction *instruction = place->instruction;
    RETURN_IF_FAILED(check_index("group", instruction->collect.group, place->plan->group_count));
    const struct group *group = &place->plan->groups[instruction->collect.group];
    int members = group_size(place->plan, group) * instruction->collect.part_count;
    int send = -1, receive = -1;
    RETURN_IF_FAILED(check_root(place, group));
    for (int i = 0; i < instruction->collect.part_count; i++) {
        const struct part *part = &place->role->parts[instruction->collect.part_first + i];
        RETURN_IF_FAILED(check_presence(place, group, i, part));
        for (int side = 0; side < 2; side++) {
            int view = side ? part->receive : part->send;
            if (view < 0)
                continue;
            RETURN_IF_FAILED(check_dense(place, view));
            RETURN_IF_FAILED(check_device(place, part->stream, view));
        }
        RETURN_IF_FAILED(check_same(place, part->send, &send));
        RETURN_IF_FAILED(check_same(place, part->receive, &receive));
        if (part->send >= 0 && part->receive >= 0)
            RETURN_IF_FAILED(check_ratio(place, part, members));
    }
    if (send >= 0 && receive >= 0 && type_of(place, send)->dtype != type_of(place, receive)->dtype)
        return fail(RH_INVALID, "%s gives %s '%s' and gets %s '%s'",
                    collective_name(instruction->collect.kind),
                    dtype_name(type_of(place, send)->dtype), buffer_of(place, send)->name,
                    dtype_name(type_of(place, receive)->dtype), buffer_of(place, receive)->name);
    /* Local parts only of the same size both ways, where no part has both (a broadcast). */
    if (send >= 0 && receive >= 0 &&
        (instruction->collect.kind == COLLECTIVE_BROADCAST ||
         instruction->collect.kind == COLLECTIVE_REDUCE))
        return check_ratio(place, &(struct part){-1, send, receive}, members);
    return RH_OK;
}

static enum rh_status check_exchange(const struct place *place)
{
    const struct instruction *instruction = place->instruction;
    RETURN_IF_FAILED(check_index("group", instruction->exchange.group, place->plan->group_count));
    const struct group *group = &place->plan->groups[instruction->exchange.group];
    int axis = __builtin_ffs((int)group->axes) - 1;
    if (axis < 0 || group->axes != 1u << axis)
        return fail(RH_INVALID, "an exchange wants a group of one axis: '%s' has %d", group->name,
                    __builtin_popcount(group->axes));
    for (int i = 0; i < instruction->exchange.message_count; i++) {
        const struct message *message =
            &place->role->messages[instruction->exchange.message_first + i];
        RETURN_IF_FAILED(check_dense(place, message->view));
        RETURN_IF_FAILED(check_device(place, message->stream, message->view));
        if (!message->peer.relative)
            RETURN_IF_FAILED(
                check_index("peer coordinate", message->peer.value, place->plan->mesh.size[axis]));
    }
    return RH_OK;
}

static enum rh_status check_indices(const struct place *place)
{
    const struct instruction *instruction = place->instruction;
    const struct role *role = place->role;
    for (int i = 0; i < access_stream_count(instruction); i++)
        RETURN_IF_FAILED(
            check_index("stream", access_stream(role, instruction, i), role->stream_count));
    for (int i = 0; i < access_count(instruction); i++) {
        int view = access_at(role, instruction, i).view;
        if (view >= 0 || instruction->kind != INSTRUCTION_COLLECT)
            RETURN_IF_FAILED(check_view(place, view));
    }
    switch (instruction->kind) {
    case INSTRUCTION_RECORD:
    case INSTRUCTION_WAIT:
    case INSTRUCTION_SYNC: return check_index("event", instruction->event, role->event_count);
    default: return RH_OK;
    }
}

static enum rh_status check_instruction(struct place *place)
{
    RETURN_IF_FAILED(check_indices(place));
    switch (place->instruction->kind) {
    case INSTRUCTION_COMPUTE: return check_compute(place);
    case INSTRUCTION_COPY: return check_copy(place);
    case INSTRUCTION_COLLECT: return check_collect(place);
    case INSTRUCTION_EXCHANGE: return check_exchange(place);
    default: return RH_OK;
    }
}

static enum rh_status check_role(const struct plan *plan, const struct role *role)
{
    struct place place = {.plan = plan, .role = role};
    enum rh_status status = RH_OK;
    if (!role->name)
        return fail(RH_INVALID, "plan '%s' has a role that was never given a name", plan->name);
    if (role->list_count != plan->roles[0].list_count)
        return fail(RH_INVALID, "roles have different lists: '%s' has %d, '%s' has %d",
                    plan->roles[0].name, plan->roles[0].list_count, role->name, role->list_count);
    for (int b = 0; b < role->buffer_count; b++)
        RETURN_IF_FAILED(packing_check_bytes(role, &role->buffers[b]));
    for (int l = 0; l < role->list_count && status == RH_OK; l++) {
        if (role->lists[l].name != plan->roles[0].lists[l].name)
            return fail(RH_INVALID, "roles have different lists: '%s' has '%s' where '%s' has '%s'",
                        plan->roles[0].name, plan->roles[0].lists[l].name, role->name,
                        role->lists[l].name);
        place.list = l;
        for (int i = 0; i < role->lists[l].count && status == RH_OK; i++) {
            place.index = i;
            place.instruction = &role->lists[l].instructions[i];
            status = within(&place, check_instruction(&place));
        }
    }
    free(place.types);
    return status;
}

enum rh_status plan_check_shapes(const struct plan *plan)
{
    for (int r = 0; r < plan->role_count; r++)
        RETURN_IF_FAILED(check_role(plan, &plan->roles[r]));
    return RH_OK;
}

enum rh_status plan_check(struct plan *plan)
{
    RETURN_IF_FAILED(plan_check_shapes(plan));
    for (int list = 0; list < plan->roles[0].list_count; list++)
        RETURN_IF_FAILED(plan_check_matching(plan, list));
    RETURN_IF_FAILED(plan_place(plan));
    for (int r = 0; r < plan->role_count; r++)
        for (int list = 0; list < plan->roles[r].list_count; list++)
            RETURN_IF_FAILED(plan_check_races(plan, r, list));
    return RH_OK;
}
