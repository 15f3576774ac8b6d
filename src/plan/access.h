/* Which streams an instruction occupies and which views it reads and writes, the same way for all
 * kinds: what order, placement, races and listings go through. */
#ifndef REHEARSE_PLAN_ACCESS_H
#define REHEARSE_PLAN_ACCESS_H

#include "plan/plan.h"

struct access {
    int view; /* index into role->views; -1: this operand is left out */
    bool write;
};

/* Reads come before writes of the same part or op, a workspace after both, as a write. Events and
 * spans have none. */
int access_count(const struct instruction *instruction);
struct access access_at(const struct role *role, const struct instruction *instruction, int i);

/* Streams occupied; SYNC has none. The same one may come twice. */
int access_stream_count(const struct instruction *instruction);
int access_stream(const struct role *role, const struct instruction *instruction, int i);

#endif
