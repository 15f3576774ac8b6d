#include "plan/access.h"

#include <assert.h>

static int operand_count(const struct instruction *instruction)
{
    return instruction->compute.read_count + instruction->compute.write_count;
}

int access_count(const struct instruction *instruction)
{
    switch (instruction->kind) {
    case INSTRUCTION_COMPUTE:
        return operand_count(instruction) + (instruction->compute.workspace >= 0);
    case INSTRUCTION_COPY: return 2;
    case INSTRUCTION_COLLECT: return 2 * instruction->collect.part_count;
    case INSTRUCTION_EXCHANGE: return instruction->exchange.message_count;
    default: return 0;
    }
}

struct access access_at(const struct role *role, const struct instruction *instruction, int i)
{
    assert(i >= 0 && i < access_count(instruction));
    if (instruction->kind == INSTRUCTION_COMPUTE && i == operand_count(instruction))
        return (struct access){instruction->compute.workspace, true};
    if (instruction->kind == INSTRUCTION_COMPUTE)
        return (struct access){instruction->compute.view_first + i,
                               i >= instruction->compute.read_count};
    if (instruction->kind == INSTRUCTION_COPY)
        return (struct access){i ? instruction->copy.to : instruction->copy.from, i == 1};
    if (instruction->kind == INSTRUCTION_COLLECT) {
        const struct part *part = &role->parts[instruction->collect.part_first + i / 2];
        return (struct access){i % 2 ? part->receive : part->send, i % 2 == 1};
    }
    const struct message *message = &role->messages[instruction->exchange.message_first + i];
    return (struct access){message->view, !message->send};
}

int access_stream_count(const struct instruction *instruction)
{
    switch (instruction->kind) {
    case INSTRUCTION_COLLECT: return instruction->collect.part_count;
    case INSTRUCTION_EXCHANGE: return instruction->exchange.message_count;
    case INSTRUCTION_SYNC: return 0;
    default: return 1;
    }
}

int access_stream(const struct role *role, const struct instruction *instruction, int i)
{
    assert(i >= 0 && i < access_stream_count(instruction));
    switch (instruction->kind) {
    case INSTRUCTION_COLLECT: return role->parts[instruction->collect.part_first + i].stream;
    case INSTRUCTION_EXCHANGE:
        return role->messages[instruction->exchange.message_first + i].stream;
    default: return instruction->stream;
    }
}
