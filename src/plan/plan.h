/* A plan: a training step (or a collective) as lists of instructions, one set of lists a role. A
 * strategy writes it, the checks read it, a backend interprets it. Words: ARCHITECTURE.md, "Plan". */
#ifndef REHEARSE_PLAN_PLAN_H
#define REHEARSE_PLAN_PLAN_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "collective/collective.h"
#include "op/op.h"

enum { MESH_MAX_AXES = 4 };

/* The workers' grid; the last axis runs fastest. Worker number = row-major index of its coordinate. */
struct mesh {
    int axis_count;
    char axis[MESH_MAX_AXES][8]; /* "dp", "pp" */
    int size[MESH_MAX_AXES];
};
int mesh_workers(const struct mesh *mesh);
int mesh_axis(const struct mesh *mesh, const char *name); /* index, or -1 */
void mesh_coordinate(const struct mesh *mesh, int worker, int coordinate[MESH_MAX_AXES]);
int mesh_worker(const struct mesh *mesh, const int coordinate[MESH_MAX_AXES]);

enum purpose {
    PURPOSE_PARAMETERS, /* and running statistics, and low-precision copies */
    PURPOSE_GRADIENTS,
    PURPOSE_OPTIMIZER,
    PURPOSE_INPUTS, /* batch, labels, control, losses */
    PURPOSE_ACTIVATIONS, /* and their gradients */
    PURPOSE_WORKSPACE,
    PURPOSE_COMMUNICATION, /* buckets, replicas in flight, received pieces */
    PURPOSE_RUNTIME, /* context, libraries, communicators: from the device model, not a buffer */
    PURPOSE_COUNT
};
const char *purpose_name(enum purpose purpose); /* "parameters" … */

enum lifetime {
    LIFETIME_PERSISTENT, /* own bytes as long as the plan is loaded, shared by all lists of the role */
    LIFETIME_TRANSIENT   /* of one list; may share bytes with others; undefined when the list ends */
};

/* What a persistent buffer stands for, so that a caller can fill and read it. */
enum buffer_use {
    USE_NONE,
    USE_INPUT,     /* rows of the batch, see struct samples */
    USE_TARGET,    /* rows of the labels */
    USE_CONTROL,   /* fp32[CONTROL_ELEMENTS], fed each step */
    USE_LOSSES,    /* fp32[steps] */
    USE_PARAMETER, /* index */
    USE_STATE,     /* index */
    USE_OPTIMIZER, /* index = parameter, slot 0 momentum or m, 1 v; index -1: the step count */
    USE_GRADIENT,  /* index = parameter */
    USE_SCALER,    /* fp32[SCALER_ELEMENTS]; index 0: fixed, 1: its scale changes */
    USE_TENSOR     /* index = the caller's number (comm/) */
};

/* Which rows of the global batch a fed buffer holds: row i is sample
 *   (pass * samples_per_pass) + coordinate[axis] * samples_per_coordinate + first + i  (axis -1: no term). */
struct samples {
    int axis;
    int64_t samples_per_pass, samples_per_coordinate, first, count;
};

struct buffer {
    const char *name; /* owned by the plan (plan_text) */
    int device;       /* local: 0 … gpus-1, gpus = the node's host */
    struct tensor_type type;
    size_t bytes;
    enum purpose purpose;
    enum lifetime lifetime;
    int list; /* TRANSIENT: the list it belongs to; -1 */
    enum buffer_use use;
    int index, slot;
    struct samples samples;
    size_t offset; /* set by plan_place: in the device's persistent area or arena */
};

/* A strided window into a buffer. Offsets in bytes, strides in elements. */
struct view {
    int buffer;
    int64_t offset;
    struct tensor_type type;
    int64_t stride[MAX_RANK];
};
/* The elements lie back to back, in the order of the type's memory format. */
bool view_is_dense(const struct view *view);
/* Dense, and the last dimension runs fastest. */
bool view_is_row_major(const struct view *view);
/* Both dense, and element i in memory of one is element i of the other: bytes may be copied. */
bool view_same_order(const struct view *a, const struct view *b);
/* Bytes of the buffer that the view may touch: [offset, view_end). */
int64_t view_end(const struct view *view);

struct stream {
    const char *name; /* the same name in every role that meets over it: "compute", "communication" */
    int device;       /* local */
};

/* Who takes part in a collective or exchange: the workers that agree with this one in all axes but
 * `axes`; limited to listed coordinates of a single axis if coordinate_count > 0. axes 0: this
 * worker alone (its local devices). */
struct group {
    const char *name;
    unsigned axes; /* bit per mesh axis */
    int coordinate_count;
    int coordinates[8];
};

struct peer {
    bool relative; /* coordinate + value, wrapping; else the coordinate `value` */
    int value;
};

enum instruction_kind {
    INSTRUCTION_COMPUTE,
    INSTRUCTION_COPY,
    INSTRUCTION_COLLECT,
    INSTRUCTION_EXCHANGE,
    INSTRUCTION_RECORD,
    INSTRUCTION_WAIT,
    INSTRUCTION_SYNC,
    INSTRUCTION_BEGIN,
    INSTRUCTION_END
};
const char *instruction_kind_name(enum instruction_kind kind);

/* For breakdowns in reports. */
enum work { WORK_FORWARD, WORK_BACKWARD, WORK_OPTIMIZER, WORK_INPUT, WORK_COMMUNICATION, WORK_OTHER };
const char *work_name(enum work work);

/* One local device's share of a collective: its stream, what it gives and gets (indices into
 * role->views, -1: nothing; equal views: in place). */
struct part {
    int stream, send, receive;
};

/* One half of a message: matched by (group, stream name, message name, both coordinates). The group
 * has exactly one axis. */
struct message {
    bool send;
    int stream;
    struct peer peer;
    const char *name;
    int view;
};

struct instruction {
    enum instruction_kind kind;
    int stream; /* of the role; COLLECT and EXCHANGE: the first part's or message's */
    const char *name; /* "layer1.0.conv1", "bucket 3"; owned by the plan */
    enum work work;
    int microbatch; /* -1: none */
    union {
        struct {
            struct op op;
            int view_first, read_count, write_count; /* role->views: reads, then writes */
            int workspace; /* view, set by plan_add_workspace; -1: none. Written, never read */
        } compute;
        struct {
            int from, to;  /* views; same element count and type size. Queued on `stream`, a stream of
                              either end's device */
        } copy;
        struct {
            enum collective_kind kind;
            enum reduce_op reduce;
            int group;
            int root_coordinate, root_part; /* rank order is coordinate, then part */
            int part_first, part_count;     /* role->parts */
        } collect;
        struct {
            int group;
            int message_first, message_count; /* role->messages */
        } exchange;
        int event; /* RECORD, WAIT, SYNC */
    };
};

/* One recorded list. */
struct list {
    const char *name; /* "first", "steady", "accumulate", … ; the same names, in the same order, in all roles */
    struct instruction *instructions;
    int count, capacity;
};

/* The workers that run the same lists: all of them, or those at one coordinate of plan->role_axis. */
struct role {
    const char *name;
    int gpus; /* local devices are 0 … gpus-1 and gpus (host) */
    struct buffer *buffers;
    int buffer_count, buffer_capacity;
    struct view *views;
    int view_count, view_capacity;
    struct part *parts;
    int part_count, part_capacity;
    struct message *messages;
    int message_count, message_capacity;
    struct stream *streams;
    int stream_count, stream_capacity;
    const char **events; /* names */
    int event_count, event_capacity;
    struct list *lists;
    int list_count, list_capacity;
    size_t *persistent_bytes, *arena_bytes; /* [gpus + 1], set by plan_place */
};

struct plan {
    const char *name;
    struct mesh mesh;
    int role_axis; /* workers with coordinate r on it have role r; -1: one role */
    struct role *roles;
    int role_count;
    struct group *groups;
    int group_count, group_capacity;
    struct plan_texts *texts;
};

struct plan *plan_new(const char *name, const struct mesh *mesh, int role_axis);
void plan_free(struct plan *plan);
/* A formatted string owned (and shared) by the plan. */
const char *plan_text(struct plan *plan, const char *format, ...) __attribute__((format(printf, 2, 3)));
int plan_role_of(const struct plan *plan, int worker);
int plan_add_group(struct plan *plan, const char *name, unsigned axes, int coordinate_count,
                   const int *coordinates);

/* Building a role. Names given are copied into the plan. Each gives an index. */
void role_init(struct plan *plan, int role, const char *name, int gpus);
int role_add_stream(struct plan *plan, int role, const char *name, int device);
int role_add_event(struct plan *plan, int role, const char *name);
int role_add_list(struct plan *plan, int role, const char *name);
/* bytes and offset are set here; `buffer.name` is copied. */
int role_add_buffer(struct plan *plan, int role, struct buffer buffer);

/* A dense window at an offset, in the order of the type's memory format. */
struct view view_dense(int buffer, int64_t offset, const struct tensor_type *type);
struct view view_of(const struct role *role, int buffer); /* the whole buffer, as its type lies */
/* Rows [first, first + count) of dimension `dim`. */
struct view view_narrow(struct view view, int dim, int64_t first, int64_t count);
/* The same dense bytes under another type, which must not be larger. */
struct view view_as(struct view view, const struct tensor_type *type);

/* Appending instructions to a list (the order in which the worker issues). */
struct writer {
    struct plan *plan;
    int role, list;
    enum work work;
    int microbatch;
};
void write_compute(struct writer *w, int stream, const char *name, const struct op *op,
                   const struct view *reads, int read_count, const struct view *writes,
                   int write_count);
void write_copy(struct writer *w, int stream, const char *name, struct view from, struct view to);
struct collect_part {
    int stream;
    const struct view *send, *receive; /* NULL: nothing */
};
void write_collect(struct writer *w, const char *name, enum collective_kind kind,
                   enum reduce_op reduce, int group, int root_coordinate, int root_part,
                   const struct collect_part *parts, int part_count);
struct exchange_message {
    bool send;
    int stream;
    struct peer peer;
    const char *name;
    struct view view;
};
void write_exchange(struct writer *w, const char *name, int group,
                    const struct exchange_message *messages, int count);
void write_record(struct writer *w, int stream, int event);
void write_wait(struct writer *w, int stream, int event);
void write_sync(struct writer *w, int event);
void write_begin(struct writer *w, int stream, const char *span);
void write_end(struct writer *w, int stream, const char *span);
/* A new event, recorded on `from` and waited for on `to`: `to` goes on after all work queued on `from`. */
void write_join(struct writer *w, int from, int to, const char *why);

/* Copies lists that can be read and diffed; the JSON form holds the same. */
void plan_print(const struct plan *plan, FILE *out);
cJSON *plan_to_json(const struct plan *plan);

/* FLOPs, memory bytes, launches of one list of one role; messages and bytes by collective kind. */
struct plan_totals {
    double flops, memory_bytes;
    int launches;       /* compute, copy, collect and exchange instructions */
    int collects, exchanges, copies;
    double collect_bytes, exchange_bytes, copy_bytes; /* sent by this worker */
};
void plan_totals(const struct plan *plan, int role, int list, struct plan_totals *totals);

#endif
