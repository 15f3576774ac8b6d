/* T9 … T12, C65, C66, D54, Q31: operands, streams, copies and messages, on plans written by hand.
 */
#include "api/tensor.h"
#include "backends/backend.h"
#include "cases/cases.h"
#include "plan/check.h"

enum { GPUS = 2, ELEMENTS = 1 << 22 };

/* One worker with two GPUs: a tensor, and streams "main" and "side", on each. */
struct hand {
    struct plan *plan;
    struct writer writer;
    int tensor[GPUS], main[GPUS], side[GPUS];
};

static void hand_begin(struct hand *h)
{
    static const struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {1}};
    memset(h, 0, sizeof *h);
    h->plan = plan_new("hand", &mesh, -1);
    role_init(h->plan, 0, "worker", GPUS);
    for (int d = 0; d < GPUS; d++) {
        struct buffer buffer = {.name = plan_text(h->plan, "x%d", d),
                                .device = d,
                                .type = {DTYPE_F32, {1, {ELEMENTS}}},
                                .purpose = PURPOSE_COMMUNICATION,
                                .lifetime = LIFETIME_PERSISTENT,
                                .list = -1,
                                .use = USE_TENSOR,
                                .index = d};
        h->tensor[d] = role_add_buffer(h->plan, 0, buffer);
        h->main[d] = role_add_stream(h->plan, 0, plan_text(h->plan, "main %d", d), d);
        h->side[d] = role_add_stream(h->plan, 0, plan_text(h->plan, "side %d", d), d);
    }
    h->writer = (struct writer){h->plan, 0, role_add_list(h->plan, 0, "list"), WORK_OTHER, -1};
}

static struct view whole(const struct hand *h, int device)
{
    return view_of(&h->plan->roles[0], h->tensor[device]);
}

/* A scratch tensor of the list, so that nothing else touches it. */
static struct view scratch(struct hand *h, const char *name, int device)
{
    struct buffer buffer = {.name = name,
                            .device = device,
                            .type = {DTYPE_F32, {1, {ELEMENTS}}},
                            .purpose = PURPOSE_COMMUNICATION,
                            .lifetime = LIFETIME_PERSISTENT,
                            .list = -1,
                            .index = -1};
    return view_of(&h->plan->roles[0], role_add_buffer(h->plan, 0, buffer));
}

static void write_scaled(struct hand *h, int stream, struct view x, struct view y, double alpha,
                         double beta)
{
    struct op op = {.kind = OP_scale_add, .compute = DTYPE_F32};
    struct view reads[2] = {x, y};
    op.scale_add.alpha = alpha;
    op.scale_add.beta = beta;
    write_compute(&h->writer, stream, "scale", &op, reads, beta != 0 ? 2 : 1, &y, 1);
}

/* The two-way barrier of a copy between GPUs: after what both streams hold, before what follows. */
static void write_moved(struct hand *h, int from_stream, struct view from, int to_stream,
                        struct view to)
{
    write_join(&h->writer, to_stream, from_stream, "copy");
    write_copy(&h->writer, from_stream, "copy", from, to);
    write_join(&h->writer, from_stream, to_stream, "copy");
}

static enum rh_status hand_check(struct hand *h)
{
    enum rh_status status = plan_check(h->plan);
    plan_free(h->plan);
    return status;
}

/* Runs the list and gives its seconds; `values` (of ELEMENTS, or NULL) go into x0 and come from x1.
 */
static double hand_run(struct hand *h, float *values)
{
    struct rh_cluster *cluster = case_cluster();
    struct run_entry entry = {0, 1, true};
    struct run_order order = {&entry, 1, 0, 1};
    struct result result = {0};
    size_t bytes = ELEMENTS * sizeof *values;
    double seconds = 0;
    enum rh_status status = plan_check(h->plan);
    if (status == RH_OK)
        status = cluster->backend->load(cluster->session, h->plan);
    if (status == RH_OK) {
        if (values)
            status = cluster->backend->write(cluster->session, 0, h->tensor[0], values, bytes);
        if (status == RH_OK)
            status = cluster->backend->run(cluster->session, &order, NULL, &result);
        if (status == RH_OK && values)
            status = cluster->backend->read(cluster->session, 0, h->tensor[1], values, bytes);
        seconds = result.step_count ? result.step_seconds[0] : 0;
        result_free(&result);
        cluster->backend->unload(cluster->session);
    }
    plan_free(h->plan);
    CHECK_OK(status);
    return seconds;
}

CASE(T9, "x on cuda:0 and y on cuda:1 in one operator: device mismatch")
{
    struct hand h;
    hand_begin(&h);
    write_scaled(&h, h.main[0], whole(&h, 0), whole(&h, 1), 1, 1);
    CHECK_REFUSED(hand_check(&h), "device 1");
}

CASE(T10, "a number of the host times x on cuda:1: works, on cuda:1")
{
    struct hand h;
    float *values = malloc(ELEMENTS * sizeof *values);
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)i;
    hand_begin(&h);
    struct view x = scratch(&h, "x", 1);
    write_moved(&h, h.main[0], whole(&h, 0), h.main[1], x);
    write_scaled(&h, h.main[1], x, whole(&h, 1), 2, 0);
    hand_run(&h, values);
    CHECK(values[3] == 6 && values[ELEMENTS - 1] == 2.0f * (ELEMENTS - 1));
    free(values);
}

/* Seconds of a long computation on a stream of cuda:1 and a copy to it whose receiving stream is
 * `receiver`; either may be left out. */
static double busy_and_copy(bool busy, bool copy, bool same_stream)
{
    struct hand h;
    hand_begin(&h);
    struct view work = scratch(&h, "work", 1);
    for (int i = 0; busy && i < 50; i++)
        write_scaled(&h, h.main[1], work, work, 1, 1);
    if (copy)
        write_moved(&h, h.main[0], whole(&h, 0), same_stream ? h.main[1] : h.side[1], whole(&h, 1));
    return hand_run(&h, NULL);
}

CASE(T11, "a copy to a GPU whose current stream is busy starts after that work")
{
    if (!case_has_times())
        case_skip("needs the simulator");
    double work = busy_and_copy(true, false, true);
    double copy = busy_and_copy(false, true, true);
    CHECK(work > 2e-3 && copy > 2e-4);
    CHECK_NEAR(busy_and_copy(true, true, true), work + copy, 0.02);
}

CASE(T12, "if another stream of that GPU is busy, the copy starts at once")
{
    if (!case_has_times())
        case_skip("needs the simulator");
    double work = busy_and_copy(true, false, false);
    CHECK_NEAR(busy_and_copy(true, true, false), work, 0.02);
}

CASE(C65, "a copy on a stream of a GPU that is not its own: stream on the wrong device")
{
    struct hand h;
    hand_begin(&h);
    write_copy(&h.writer, h.main[1], "copy", whole(&h, 0), scratch(&h, "there", 0));
    CHECK_REFUSED(hand_check(&h), "stream");
}

CASE(C66, "a copy on a stream that is named; the consumer must wait for it")
{
    struct hand h;
    float *values = malloc(ELEMENTS * sizeof *values);
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)(i + 1);
    hand_begin(&h);
    struct view there = scratch(&h, "there", 1);
    write_copy(&h.writer, h.side[1], "copy", whole(&h, 0), there);
    write_join(&h.writer, h.side[1], h.main[1], "copy");
    write_scaled(&h, h.main[1], there, whole(&h, 1), 1, 0);
    hand_run(&h, values);
    CHECK(values[0] == 1 && values[6] == 7);
    free(values);
    hand_begin(&h); /* without the wait: a race, found before it runs */
    there = scratch(&h, "there", 1);
    write_copy(&h.writer, h.side[1], "copy", whole(&h, 0), there);
    write_scaled(&h, h.main[1], there, whole(&h, 1), 1, 0);
    CHECK_REFUSED(hand_check(&h), "race");
}

/* Two workers of different roles, each with a stream and a tensor. */
static struct plan *two_roles(const char *axis, int stream[2], int buffer[2], int *group)
{
    struct mesh mesh = {.axis_count = 1, .size = {2}};
    snprintf(mesh.axis[0], sizeof mesh.axis[0], "%s", axis);
    struct plan *plan = plan_new("hand", &mesh, 0);
    *group = plan_add_group(plan, axis, 1, 0, NULL);
    for (int r = 0; r < 2; r++) {
        struct buffer x = {.name = "x",
                           .type = {DTYPE_F32, {1, {4}}},
                           .purpose = PURPOSE_COMMUNICATION,
                           .lifetime = LIFETIME_PERSISTENT,
                           .list = -1,
                           .index = -1};
        role_init(plan, r, plan_text(plan, "rank %d", r), 1);
        stream[r] = role_add_stream(plan, r, "communication", 0);
        buffer[r] = role_add_buffer(plan, r, x);
        role_add_list(plan, r, "list");
    }
    return plan;
}

DIFFERS(D54, "ranks with different numbers of batches hang until a time-out",
        "collectives that not all members reach are found before anything runs")
CASE(D54, "one rank reduces twice, the other once: refused, with the collective's name")
{
    int stream[2];
    int buffer[2];
    int group = 0;
    struct plan *plan = two_roles("dp", stream, buffer, &group);
    for (int r = 0; r < 2; r++) {
        struct writer w = {plan, r, 0, WORK_COMMUNICATION, -1};
        struct view x = view_of(&plan->roles[r], buffer[r]);
        struct collect_part part = {stream[r], &x, &x};
        write_collect(&w, "bucket 0", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, group, 0, 0, &part, 1);
        if (r == 0)
            write_collect(&w, "bucket 1", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, group, 0, 0, &part, 1);
    }
    enum rh_status status = plan_check(plan);
    plan_free(plan);
    CHECK_REFUSED(status, "bucket 1");
}

CASE(Q31, "stages that wait for each other's first message: no progress, and no hang")
{
    int stream[2];
    int buffer[2];
    int group = 0;
    struct plan *plan = two_roles("pp", stream, buffer, &group);
    for (int r = 0; r < 2; r++) {
        struct writer w = {plan, r, 0, WORK_COMMUNICATION, -1};
        struct exchange_message receive = {.stream = stream[r],
                                           .peer = {false, 1 - r},
                                           .name = r ? "forward" : "backward",
                                           .view = view_of(&plan->roles[r], buffer[r])};
        struct exchange_message send = receive;
        send.send = true;
        send.name = r ? "backward" : "forward";
        write_exchange(&w, r ? "receive forward" : "receive backward", group, &receive, 1);
        write_exchange(&w, r ? "send backward" : "send forward", group, &send, 1);
    }
    enum rh_status status = plan_check(plan);
    plan_free(plan);
    CHECK_REFUSED(status, "receive");
    CHECK(strstr(rh_error(), "deadlock") != NULL);
}
