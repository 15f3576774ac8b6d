/* The untimed engine's state, shared by its loop (untimed.c) and its meetings (meet.c). */
#ifndef REHEARSE_PLAN_ENGINE_H
#define REHEARSE_PLAN_ENGINE_H

#include "plan/queues.h"
#include "plan/untimed.h"

/* An exchange that has posted its messages and waits for the other halves. */
struct exchange {
    struct exchange *next; /* all of the run: freed with the engine */
    struct engine_worker *worker;
    int instruction, left;
};

/* Half a message, in a hash table until the other half comes. */
struct mail {
    const char *stream, *name; /* interned: the pointers tell */
    int group, from, to, view, stream_index;
    bool send;
    struct exchange *exchange;
    struct mail *next;
};

/* A communicator: who has arrived at the collective that is next there. */
struct place {
    int group, base, worker_count, arrived;
    const char *stream;
    int *workers;      /* rank order */
    int *instructions; /* of the arrived ones; -1 */
    struct place *next;
};

struct engine_worker {
    int worker, role;
    int *head;    /* per stream: position in its queue */
    bool *event;  /* recorded */
    bool *posted; /* per instruction: its messages are posted, or it stands at its communicator */
    int limit;    /* instructions from here on wait for a sync */
};

enum { TABLE_SIZE = 4096 };

struct engine {
    const struct plan *plan;
    const struct mesh *mesh;
    const struct untimed_hooks *hooks;
    int list, worker_count;
    struct engine_worker *workers;
    struct queues *queues; /* per role */
    struct exchange *exchanges;
    struct mail *mails[TABLE_SIZE];
    struct place *places[TABLE_SIZE];
    int *work; /* ring of worker * streams + stream to look at */
    bool *queued;
    int work_size, work_first, work_count, stride;
};

static inline const struct role *engine_role(const struct engine *e, const struct engine_worker *w)
{
    return &e->plan->roles[w->role];
}

static inline const struct instruction *engine_instruction(const struct engine *e,
                                                           const struct engine_worker *w, int index)
{
    return &engine_role(e, w)->lists[e->list].instructions[index];
}

/* The worker's number in the plan's mesh; the check may run on a smaller one. */
static inline int engine_number(const struct engine *e, const struct engine_worker *w)
{
    int coordinate[MESH_MAX_AXES];
    mesh_coordinate(e->mesh, w->worker, coordinate);
    return mesh_worker(&e->plan->mesh, coordinate);
}

/* Whether an instruction stands at the head of all queues that it occupies; taking it off them. */
bool engine_at_all_heads(const struct engine *e, const struct engine_worker *w, int index);
void engine_pop(struct engine *e, struct engine_worker *w, int index);

/* A collective or exchange at the head of its queues meets the others, if they are there. */
enum rh_status engine_arrive(struct engine *e, struct engine_worker *w, int index);
enum rh_status engine_post(struct engine *e, struct engine_worker *w, int index);
/* Frees what has not been met. */
void engine_free_meetings(struct engine *e);

#endif
