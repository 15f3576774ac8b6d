#include <assert.h>

#include "base/memory.h"
#include "plan/plan.h"

static struct role *role_of(const struct writer *w)
{
    return &w->plan->roles[w->role];
}

static struct instruction *add(struct writer *w, enum instruction_kind kind, int stream,
                               const char *name)
{
    struct list *list = &role_of(w)->lists[w->list];
    assert(w->list >= 0 && w->list < role_of(w)->list_count);
    struct instruction *added = ARRAY_ADD(list->instructions, list->count, list->capacity);
    added->kind = kind;
    added->stream = stream;
    added->name = plan_text(w->plan, "%s", name);
    added->work = w->work;
    added->microbatch = w->microbatch;
    return added;
}

static int add_view(struct writer *w, const struct view *view)
{
    struct role *role = role_of(w);
    struct view copy = *view; /* which may lie in the array that moves */
    *ARRAY_ADD(role->views, role->view_count, role->view_capacity) = copy;
    return role->view_count - 1;
}

static bool same_view(const struct view *a, const struct view *b)
{
    if (a->buffer != b->buffer || a->offset != b->offset || a->type.dtype != b->type.dtype ||
        !shape_equal(&a->type.shape, &b->type.shape))
        return false;
    for (int i = 0; i < a->type.shape.rank; i++)
        if (a->stride[i] != b->stride[i])
            return false;
    return true;
}

void write_compute(struct writer *w, int stream, const char *name, const struct op *op,
                   const struct view *reads, int read_count, const struct view *writes,
                   int write_count)
{
    struct instruction *added = add(w, INSTRUCTION_COMPUTE, stream, name);
    added->compute.op = *op;
    added->compute.view_first = role_of(w)->view_count;
    added->compute.read_count = read_count;
    added->compute.write_count = write_count;
    added->compute.workspace = -1;
    for (int i = 0; i < read_count; i++)
        add_view(w, &reads[i]);
    for (int i = 0; i < write_count; i++)
        add_view(w, &writes[i]);
}

void write_copy(struct writer *w, int stream, const char *name, struct view from, struct view to)
{
    struct instruction *added = add(w, INSTRUCTION_COPY, stream, name);
    added->copy.from = add_view(w, &from);
    added->copy.to = add_view(w, &to);
}

/* In place is one view, so that a backend can tell it by the index. */
static void add_part(struct writer *w, const struct collect_part *given)
{
    struct role *role = role_of(w);
    struct part part = {given->stream, -1, -1};
    if (given->send)
        part.send = add_view(w, given->send);
    if (given->send && given->receive && same_view(given->send, given->receive))
        part.receive = part.send;
    else if (given->receive)
        part.receive = add_view(w, given->receive);
    *ARRAY_ADD(role->parts, role->part_count, role->part_capacity) = part;
}

void write_collect(struct writer *w, const char *name, enum collective_kind kind,
                   enum reduce_op reduce, int group, int root_coordinate, int root_part,
                   const struct collect_part *parts, int part_count)
{
    assert(part_count > 0);
    struct instruction *added = add(w, INSTRUCTION_COLLECT, parts[0].stream, name);
    added->collect.kind = kind;
    added->collect.reduce = reduce;
    added->collect.group = group;
    added->collect.root_coordinate = root_coordinate;
    added->collect.root_part = root_part;
    added->collect.part_first = role_of(w)->part_count;
    added->collect.part_count = part_count;
    for (int i = 0; i < part_count; i++)
        add_part(w, &parts[i]);
}

void write_exchange(struct writer *w, const char *name, int group,
                    const struct exchange_message *messages, int count)
{
    assert(count > 0);
    struct role *role = role_of(w);
    struct instruction *added = add(w, INSTRUCTION_EXCHANGE, messages[0].stream, name);
    added->exchange.group = group;
    added->exchange.message_first = role->message_count;
    added->exchange.message_count = count;
    for (int i = 0; i < count; i++) {
        const struct exchange_message *given = &messages[i];
        struct message message = {given->send, given->stream, given->peer,
                                  plan_text(w->plan, "%s", given->name), -1};
        message.view = add_view(w, &given->view);
        *ARRAY_ADD(role->messages, role->message_count, role->message_capacity) = message;
    }
}

static void add_event(struct writer *w, enum instruction_kind kind, int stream, int event)
{
    assert(event >= 0 && event < role_of(w)->event_count);
    add(w, kind, stream, role_of(w)->events[event])->event = event;
}

void write_record(struct writer *w, int stream, int event)
{
    add_event(w, INSTRUCTION_RECORD, stream, event);
}

void write_wait(struct writer *w, int stream, int event)
{
    add_event(w, INSTRUCTION_WAIT, stream, event);
}

/* The worker itself waits: a sync stands in no stream. */
void write_sync(struct writer *w, int event)
{
    add_event(w, INSTRUCTION_SYNC, -1, event);
}

void write_begin(struct writer *w, int stream, const char *span)
{
    add(w, INSTRUCTION_BEGIN, stream, span);
}

void write_end(struct writer *w, int stream, const char *span)
{
    add(w, INSTRUCTION_END, stream, span);
}

/* A stream follows its own work anyway. */
void write_join(struct writer *w, int from, int to, const char *why)
{
    if (from == to)
        return;
    int event = role_add_event(w->plan, w->role, why);
    write_record(w, from, event);
    write_wait(w, to, event);
}
