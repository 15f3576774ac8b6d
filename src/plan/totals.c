#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/plan.h"

static double view_bytes(const struct role *role, int view)
{
    return view < 0 ? 0 : (double)type_bytes(&role->views[view].type);
}

static void add_compute(struct plan_totals *totals, const struct role *role,
                        const struct instruction *instruction, struct tensor_type *types)
{
    const struct op *op = &instruction->compute.op;
    int reads = instruction->compute.read_count, writes = instruction->compute.write_count;
    for (int i = 0; i < reads + writes; i++)
        types[i] = role->views[instruction->compute.view_first + i].type;
    totals->flops += op_flops(op, types, reads, types + reads, writes);
    totals->memory_bytes += op_bytes(op, types, reads, types + reads, writes);
}

/* What the worker hands in: what an algorithm makes of it on the wire is collective/'s to say. */
static void add_collect(struct plan_totals *totals, const struct role *role,
                        const struct instruction *instruction)
{
    totals->collects++;
    for (int i = 0; i < instruction->collect.part_count; i++)
        totals->collect_bytes +=
            view_bytes(role, role->parts[instruction->collect.part_first + i].send);
}

static void add_exchange(struct plan_totals *totals, const struct role *role,
                         const struct instruction *instruction)
{
    totals->exchanges++;
    for (int i = 0; i < instruction->exchange.message_count; i++) {
        const struct message *message = &role->messages[instruction->exchange.message_first + i];
        if (message->send)
            totals->exchange_bytes += view_bytes(role, message->view);
    }
}

void plan_totals(const struct plan *plan, int role, int list, struct plan_totals *totals)
{
    const struct role *r = &plan->roles[role];
    const struct list *l = &r->lists[list];
    struct tensor_type *types = memory_new_array((size_t)r->view_count, sizeof *types);
    memset(totals, 0, sizeof *totals);
    for (int i = 0; i < l->count; i++) {
        const struct instruction *instruction = &l->instructions[i];
        totals->launches += instruction->kind <= INSTRUCTION_EXCHANGE;
        switch (instruction->kind) {
        case INSTRUCTION_COMPUTE: add_compute(totals, r, instruction, types); break;
        case INSTRUCTION_COPY:
            totals->copies++;
            totals->copy_bytes += view_bytes(r, instruction->copy.from);
            break;
        case INSTRUCTION_COLLECT: add_collect(totals, r, instruction); break;
        case INSTRUCTION_EXCHANGE: add_exchange(totals, r, instruction); break;
        default: break;
        }
    }
    free(types);
}
