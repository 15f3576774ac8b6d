/* Runs lists without time: every stream of every worker is a queue, and an instruction happens when
 * it is at the head of all its queues and its events and partners are there. With no hooks this is
 * the deadlock check; with hooks that compute, it gives the numbers of a run. */
#ifndef REHEARSE_PLAN_UNTIMED_H
#define REHEARSE_PLAN_UNTIMED_H

#include "plan/plan.h"

/* A collective's member: a worker's part. In rank order. */
struct untimed_member {
    int worker;
    const struct instruction *instruction;
    const struct part *part;
};

/* One end of a message: view and stream of the worker's role. */
struct untimed_end {
    int worker, view, stream;
};

/* Each may be NULL. A status other than RH_OK ends the run with it. The order of the calls is one in
 * which the instructions may be issued: what an instruction waits for was called before it. */
struct untimed_hooks {
    void *context;
    enum rh_status (*compute)(void *context, int worker, const struct instruction *instruction);
    enum rh_status (*copy)(void *context, int worker, const struct instruction *instruction);
    enum rh_status (*mark)(void *context, int worker, const struct instruction *instruction);
    /* ^ RECORD, WAIT, BEGIN, END */
    enum rh_status (*collect)(void *context, const struct untimed_member *members, int count,
                              int root); /* root: member index */
    enum rh_status (*transfer)(void *context, const struct untimed_end *from,
                               const struct untimed_end *to); /* one message */
};

/* `mesh` is the plan's own, or a smaller one with the same axes (check.h). Rendezvous semantics: a
 * send and its receive meet; an exchange ends when all its messages have met; a collective needs
 * all members at the head. Deterministic order. Fails with RH_INVALID and the instructions that are
 * stuck. */
enum rh_status untimed_run(const struct plan *plan, const struct mesh *mesh, int list,
                           const struct untimed_hooks *hooks);

#endif
