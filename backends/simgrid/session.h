/* What is known before time starts to run: the loaded plan, who is simulated, and what every
 * instruction costs. Nothing here knows SimGrid. */
#ifndef REHEARSE_BACKENDS_SIMGRID_SESSION_H
#define REHEARSE_BACKENDS_SIMGRID_SESSION_H

#include "backends/backend.h"
#include "backends/reference/numbers.h"
#include "plan/order.h"
#include "plan/queues.h"

/* One list of one role on one set of device models. */
struct compiled {
    int role, list;
    const struct device_model **models; /* per local device */
    double *seconds; /* per instruction: device time of a compute, or of a copy on one device */
    double *issue;   /* per instruction: host time to issue it, eager */
    bool *exec;      /* per instruction: a compute that shares its device, or is slowed */
    struct queues queues;
    struct order *order; /* owned by the first compiled of (role, list) */
    bool owns_order;
};

/* A communicator of the run: one (group, stream name) at one place of the mesh. */
struct meeting_place {
    int group;
    const char *stream; /* interned by the plan */
    int base;           /* the worker whose coordinates on the group's axes are the first */
    int *workers;       /* in rank order */
    int worker_count;
    int parts; /* per worker */
    struct communicator *communicator;
    int simulated; /* members' workers that are simulated */
};

struct session {
    struct backend_options options;
    const struct plan *plan; /* NULL: nothing loaded */
    struct numbers *numbers;
    int workers, simulated; /* mesh workers, and the first of them that are simulated */
    bool folded;
    struct compiled *compiled;
    int compiled_count, compiled_capacity;
    struct compiled **of; /* worker * lists + list, for simulated workers */
    struct meeting_place *places;
    int place_count, place_capacity;
    bool **exclusive;  /* likewise: per instruction: nothing else can be on its links */
    bool any_flow;     /* some transfer is injected into SimGrid */
    bool network_flow; /* one of these is a collective or leaves its node: no folding */
    bool any_exec;     /* some compute is executed by SimGrid */
};

enum rh_status session_compile(struct session *session);
void session_forget(struct session *session);
struct compiled *session_compiled(const struct session *session, int worker, int list);

/* Global device of a worker's local one. */
int session_device(const struct session *session, int worker, int local);
/* The place where a collective of `worker` meets; made at the first call. */
enum rh_status session_place(struct session *session, int worker, int group, const char *stream,
                             int parts, const struct instruction *in, struct meeting_place **place);
int session_root(const struct session *session, const struct meeting_place *place,
                 const struct instruction *in);
/* The worker at the other end of a message. */
int session_peer(const struct session *session, int worker, int group, struct peer peer);
/* Bytes by which a collective is priced: of the whole (collective.h). */
double session_collective_bytes(const struct role *role, const struct instruction *in, int members);
bool is_local_copy(const struct role *role, const struct instruction *in);
bool is_transfer(const struct role *role, const struct instruction *in);

/* Fills session->exclusive and any_flow (exclusive.c). */
enum rh_status session_find_exclusive(struct session *session);

/* Runs the simulation in a child process and fills the result (child.c). */
enum rh_status session_simulate(struct session *session, const struct run_order *order,
                                struct result *result);

#endif
