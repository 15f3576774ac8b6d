/* Small plans for tests: one role on one GPU unless said otherwise, fp32 vectors, cheap ops. */
#ifndef REHEARSE_TESTS_PLANS_H
#define REHEARSE_TESTS_PLANS_H

#include "plan/plan.h"

/* Mesh dp=workers; streams "compute", "communication", "copy", "side" on device 0, as many as
 * asked; list 0 is "steady". */
static inline struct plan *plans_new(int workers, int streams)
{
    static const char *const names[] = {"compute", "communication", "copy", "side"};
    struct mesh mesh = {1, {"dp"}, {workers}};
    struct plan *plan = plan_new("test", &mesh, -1);
    role_init(plan, 0, "worker", 1);
    for (int s = 0; s < streams; s++)
        role_add_stream(plan, 0, names[s], 0);
    role_add_list(plan, 0, "steady");
    return plan;
}

static inline struct writer plans_writer(struct plan *plan, int role)
{
    return (struct writer){plan, role, 0, WORK_FORWARD, -1};
}

static inline int plans_buffer(struct plan *plan, int role, const char *name, int64_t elements,
                               enum lifetime lifetime)
{
    struct buffer buffer = {.name = name, .lifetime = lifetime, .purpose = PURPOSE_ACTIVATIONS};
    buffer.type = (struct tensor_type){DTYPE_F32, shape_of(1, &elements)};
    if (lifetime == LIFETIME_PERSISTENT)
        buffer.purpose = PURPOSE_PARAMETERS;
    return role_add_buffer(plan, role, buffer);
}

static inline int plans_transient(struct plan *plan, const char *name, int64_t elements)
{
    return plans_buffer(plan, 0, name, elements, LIFETIME_TRANSIENT);
}

static inline int plans_persistent(struct plan *plan, const char *name, int64_t elements)
{
    return plans_buffer(plan, 0, name, elements, LIFETIME_PERSISTENT);
}

static inline void plans_zero(struct writer *w, int stream, const char *name, struct view to)
{
    struct op op = {.kind = OP_zero};
    write_compute(w, stream, name, &op, NULL, 0, &to, 1);
}

static inline void plans_relu(struct writer *w, int stream, const char *name, struct view from,
                              struct view to)
{
    struct op op = {.kind = OP_relu};
    write_compute(w, stream, name, &op, &from, 1, &to, 1);
}

static inline struct view plans_view(const struct plan *plan, int buffer)
{
    return view_of(&plan->roles[0], buffer);
}

struct random {
    uint64_t state;
};

/* The same on every machine: a linear congruential generator (Knuth, MMIX). */
static inline int pick(struct random *random, int below)
{
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((random->state >> 33) % (uint64_t)below);
}

#endif
