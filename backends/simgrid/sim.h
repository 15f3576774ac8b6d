/* The simulation while time runs, inside the child process: SimGrid actors, one a stream, each with
 * a clock of its own that may be ahead of SimGrid's. */
#ifndef REHEARSE_BACKENDS_SIMGRID_SIM_H
#define REHEARSE_BACKENDS_SIMGRID_SIM_H

#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>

#include "backends/simgrid/session.h"

struct sim;
struct sim_worker;

/* Work that was added up and not yet executed: a stretch of consecutive computes. */
struct piece {
    const char *name;
    enum work work;
    int microbatch;
    double seconds;
};

struct sim_stream {
    struct sim *sim;
    struct sim_worker *worker;
    int stream, device; /* of the role; global device */
    double clock;
    sg_sem_t wake;
    const char *at; /* the instruction that it is busy with, for errors */
    bool finished;
    double pending_start; /* executions not yet handed to SimGrid */
    struct piece *pieces;
    int piece_count, piece_capacity;
    double pending_seconds;
    double *marks; /* beginnings of open ranges */
    int mark_count, mark_capacity;
};

struct sim_event {
    int execution; /* the list execution in which it was recorded; -1 */
    double seconds;
};

struct sim_worker {
    struct sim *sim;
    int worker, role;
    struct sim_stream *streams;
    int stream_count;
    struct sim_event *events;
    double
        *issue; /* per instruction of the running list: when the host has issued it; < 0: not yet */
    int issue_next;
    int issue_list, execution;
    double host_clock;
    double step_end[2]; /* of the last two steps */
    int joined;
    double join_seconds;
};

/* One list of the run. */
struct execution {
    int list, step, pass;
    bool ends_step;
};

struct sim {
    struct session *session;
    const struct run_order *order;
    struct execution *executions;
    int execution_count, steps; /* simulated steps */
    struct sim_worker *workers;
    sg_host_t *hosts; /* per global device: where its streams compute; NULL */
    int *collectives; /* per global device: how many run now */
    struct meetings *meetings;
    double *step_end; /* per simulated step, over all workers */
    struct span *spans;
    int span_count, span_capacity;
    double link_class_bytes[LINK_CLASS_COUNT]; /* of the last simulated step */
    int unfinished;
    enum rh_status status;
    char error[1024];
};

/* xml.c: writes the platform of this run to an open file. */
enum rh_status sim_write_platform(const struct sim *sim, FILE *file);
/* Name of the SimGrid host for flows of a device on a channel. */
void sim_host_name(const struct sim *sim, int device, int channel, char out[64]);

/* stream.c */
void sim_start_actors(struct sim *sim);
void stream_flush(struct sim_stream *stream); /* executes what was added up */
void sim_sleep_until(double seconds);
void sim_add_span(struct sim *sim, struct sim_stream *stream, const char *name, enum work work,
                  int microbatch, double start, double end, bool communication, bool mark);
void sim_fail(struct sim *sim, enum rh_status status);
bool sim_counts(const struct sim *sim, const struct sim_worker *worker);

/* issue.c: the host thread as arithmetic. */
void issue_begin(struct sim_worker *worker, double not_before);
void issue_advance(struct sim_worker *worker);

/* meet.c */
struct meetings *meetings_new(void);
void meetings_free(struct meetings *meetings);
void stream_collect(struct sim_stream *stream, int index, const struct instruction *in);
void stream_exchange(struct sim_stream *stream, int index, const struct instruction *in);

/* flow.c */
struct flow {
    int from, to; /* global devices */
    int channel;
    double bytes;
    double end_seconds; /* set when it has arrived */
};
/* Injects flows now and blocks the stream until all have arrived. */
void stream_flows(struct sim_stream *stream, struct flow *flows, int count);
/* Every step of a ring as a communication of its own. */
void stream_ring_messages(struct sim_stream *stream, struct communicator *communicator,
                          const struct collective_cost *cost);
void sim_count_route(struct sim *sim, struct sim_stream *stream, int from, int to, double bytes);
/* A collective occupies a share of the device between two times. */
void stream_hold(struct sim_stream *stream, double start, double end);

#endif
