#include <inttypes.h>
#include <stdlib.h>

#include "plan/describe.h"

/* One role at a time into a text, so that the same words serve listing and JSON. */
struct listing {
    const struct plan *plan;
    const struct role *role;
    struct text out;
};

static void list_buffer(struct listing *l, int index)
{
    const struct buffer *b = &l->role->buffers[index];
    char shape[64];
    text_add(&l->out, "  buffer %d '%s': device %d %s at %zu, %zu bytes, %s %s, %s", index, b->name,
             b->device, b->lifetime == LIFETIME_PERSISTENT ? "persistent" : "arena", b->offset,
             b->bytes, dtype_name(b->type.dtype), shape_text(shape, &b->type.shape),
             purpose_name(b->purpose));
    if (b->lifetime == LIFETIME_TRANSIENT)
        text_add(&l->out, ", list '%s'", l->role->lists[b->list].name);
    if (b->use != USE_NONE)
        text_add(&l->out, ", %s %d", use_name(b->use), b->index);
    if (b->use == USE_OPTIMIZER)
        text_add(&l->out, " slot %d", b->slot);
    if (b->use == USE_INPUT || b->use == USE_TARGET) {
        text_add(&l->out, ", rows %" PRId64 " x pass + ", b->samples.samples_per_pass);
        if (b->samples.axis >= 0)
            text_add(&l->out, "%" PRId64 " x %s + ", b->samples.samples_per_coordinate,
                     l->plan->mesh.axis[b->samples.axis]);
        text_add(&l->out, "%" PRId64 " ... %" PRId64, b->samples.first,
                 b->samples.first + b->samples.count - 1);
    }
    text_add(&l->out, "\n");
}

static void list_views(struct listing *l, int first, int count)
{
    for (int i = 0; i < count; i++) {
        if (i)
            text_add(&l->out, ", ");
        describe_view(&l->out, l->role, &l->role->views[first + i]);
    }
}

static void list_compute(struct listing *l, const struct instruction *in)
{
    int reads = in->compute.read_count;
    struct text attributes = {0};
    describe_op(&attributes, &in->compute.op);
    text_add(&l->out, ": %s%s%s%s ", op_name(in->compute.op.kind), attributes.data ? " [" : "",
             attributes.data ? attributes.data : "", attributes.data ? "]" : "");
    free(attributes.data);
    list_views(l, in->compute.view_first, reads);
    text_add(&l->out, "%s-> ", reads ? " " : "");
    list_views(l, in->compute.view_first + reads, in->compute.write_count);
    if (in->compute.workspace < 0)
        return;
    text_add(&l->out, "; in ");
    list_views(l, in->compute.workspace, 1);
}

static void list_collect(struct listing *l, const struct instruction *in)
{
    enum collective_kind kind = in->collect.kind;
    text_add(&l->out, ": %s", collective_name(kind));
    if (kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE ||
        kind == COLLECTIVE_REDUCE_SCATTER)
        text_add(&l->out, " %s", reduce_name(in->collect.reduce));
    text_add(&l->out, " over '%s'", l->plan->groups[in->collect.group].name);
    if (kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST)
        text_add(&l->out, " root %d.%d", in->collect.root_coordinate, in->collect.root_part);
    for (int i = 0; i < in->collect.part_count; i++) {
        const struct part *part = &l->role->parts[in->collect.part_first + i];
        text_add(&l->out, "%s%s: ", i ? "; " : " ", l->role->streams[part->stream].name);
        if (part->send >= 0)
            describe_view(&l->out, l->role, &l->role->views[part->send]);
        text_add(&l->out, "%s", part->send == part->receive ? " in place" : " -> ");
        if (part->receive >= 0 && part->receive != part->send)
            describe_view(&l->out, l->role, &l->role->views[part->receive]);
    }
}

static void list_exchange(struct listing *l, const struct instruction *in)
{
    text_add(&l->out, ": over '%s'", l->plan->groups[in->exchange.group].name);
    for (int i = 0; i < in->exchange.message_count; i++) {
        const struct message *m = &l->role->messages[in->exchange.message_first + i];
        text_add(&l->out, "%s%s: %s ", i ? "; " : " ", l->role->streams[m->stream].name,
                 m->send ? "send" : "receive");
        describe_view(&l->out, l->role, &l->role->views[m->view]);
        text_add(&l->out, " %s ", m->send ? "to" : "from");
        describe_peer(&l->out, &m->peer);
        text_add(&l->out, " as '%s'", m->name);
    }
}

static void list_instruction(struct listing *l, const struct instruction *in, int index)
{
    text_add(&l->out, "    %5d %-14s %-8s %s", index,
             in->stream < 0 ? "-" : l->role->streams[in->stream].name,
             instruction_kind_name(in->kind), in->name);
    switch (in->kind) {
    case INSTRUCTION_COMPUTE:
    case INSTRUCTION_COPY:
    case INSTRUCTION_COLLECT:
    case INSTRUCTION_EXCHANGE:
        text_add(&l->out, " (%s", work_name(in->work));
        if (in->microbatch >= 0)
            text_add(&l->out, ", microbatch %d", in->microbatch);
        text_add(&l->out, ")");
        break;
    default: break;
    }
    switch (in->kind) {
    case INSTRUCTION_COMPUTE: list_compute(l, in); break;
    case INSTRUCTION_COPY:
        text_add(&l->out, ": ");
        describe_view(&l->out, l->role, &l->role->views[in->copy.from]);
        text_add(&l->out, " -> ");
        describe_view(&l->out, l->role, &l->role->views[in->copy.to]);
        break;
    case INSTRUCTION_COLLECT: list_collect(l, in); break;
    case INSTRUCTION_EXCHANGE: list_exchange(l, in); break;
    case INSTRUCTION_RECORD:
    case INSTRUCTION_WAIT:
    case INSTRUCTION_SYNC: text_add(&l->out, " (event %d)", in->event); break;
    case INSTRUCTION_BEGIN:
    case INSTRUCTION_END: break;
    }
    text_add(&l->out, "\n");
}

static void list_role(struct listing *l, int index)
{
    const struct role *role = l->role;
    text_add(&l->out, "\nrole %d '%s': %d gpu%s\n", index, role->name, role->gpus,
             role->gpus == 1 ? "" : "s");
    for (int d = 0; d <= role->gpus; d++)
        text_add(&l->out, "  device %d%s: persistent %zu bytes, arena %zu bytes\n", d,
                 d == role->gpus ? " (host)" : "", role->persistent_bytes[d], role->arena_bytes[d]);
    for (int s = 0; s < role->stream_count; s++)
        text_add(&l->out, "  stream %d '%s': device %d\n", s, role->streams[s].name,
                 role->streams[s].device);
    for (int b = 0; b < role->buffer_count; b++)
        list_buffer(l, b);
    for (int i = 0; i < role->list_count; i++) {
        const struct list *list = &role->lists[i];
        text_add(&l->out, "  list %d '%s': %d instructions\n", i, list->name, list->count);
        for (int k = 0; k < list->count; k++)
            list_instruction(l, &list->instructions[k], k);
    }
}

void plan_print(const struct plan *plan, FILE *out)
{
    struct listing l = {.plan = plan};
    text_add(&l.out, "plan '%s': mesh", plan->name);
    for (int i = 0; i < plan->mesh.axis_count; i++)
        text_add(&l.out, " %s=%d", plan->mesh.axis[i], plan->mesh.size[i]);
    text_add(&l.out, ", %d worker%s, %d role%s", mesh_workers(&plan->mesh),
             mesh_workers(&plan->mesh) == 1 ? "" : "s", plan->role_count,
             plan->role_count == 1 ? "" : "s");
    if (plan->role_axis >= 0)
        text_add(&l.out, " along %s", plan->mesh.axis[plan->role_axis]);
    text_add(&l.out, "\n");
    for (int i = 0; i < plan->group_count; i++) {
        text_add(&l.out, "group %d '%s': ", i, plan->groups[i].name);
        describe_group(&l.out, plan, &plan->groups[i]);
        text_add(&l.out, "\n");
    }
    for (int r = 0; r < plan->role_count; r++) {
        l.role = &plan->roles[r];
        list_role(&l, r);
        fwrite(l.out.data, 1, l.out.length, out);
        l.out.length = 0;
    }
    free(l.out.data);
}
