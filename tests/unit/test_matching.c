/* Plans that would hang or mismatch are found before they run, and the instructions are named. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/check.h"
#include "plan/untimed.h"

/* Two roles on one axis: worker 0 and worker 1 may do different things. */
struct pair {
    struct plan *plan;
    int group;
    struct writer w[2];
    int stream[2], other[2]; /* two streams each */
    struct view view[2];
};

static struct pair pair_new(int64_t floats_0, int64_t floats_1)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"pp"}, .size = {2}};
    struct pair p = {.plan = plan_new("pair", &mesh, 0)};
    int64_t floats[2] = {floats_0, floats_1};
    p.group = plan_add_group(p.plan, "pp", 1, 0, NULL);
    for (int r = 0; r < 2; r++) {
        role_init(p.plan, r, r ? "second" : "first", 1);
        p.stream[r] = role_add_stream(p.plan, r, "a", 0);
        p.other[r] = role_add_stream(p.plan, r, "b", 0);
        p.w[r] = (struct writer){p.plan, r, role_add_list(p.plan, r, "list"), WORK_OTHER, -1};
        struct buffer buffer = {.name = "buffer",
                                .type = {DTYPE_F32, shape_of(1, &floats[r])},
                                .purpose = PURPOSE_COMMUNICATION,
                                .list = -1,
                                .index = -1};
        p.view[r] = view_of(&p.plan->roles[r], role_add_buffer(p.plan, r, buffer));
    }
    return p;
}

static void send(struct pair *p, int role, int stream, const char *message, const char *name)
{
    struct exchange_message m = {true, stream, {false, 1 - role}, message, p->view[role]};
    write_exchange(&p->w[role], name, p->group, &m, 1);
}

static void receive(struct pair *p, int role, int stream, const char *message, const char *name)
{
    struct exchange_message m = {false, stream, {false, 1 - role}, message, p->view[role]};
    write_exchange(&p->w[role], name, p->group, &m, 1);
}

static void collect(struct pair *p, int role, const char *name, enum collective_kind kind, int root)
{
    struct collect_part part = {p->stream[role], &p->view[role], &p->view[role]};
    write_collect(&p->w[role], name, kind, REDUCE_SUM, p->group, root, 0, &part, 1);
}

/* The check fails and names both parts; or, with NULL, passes. */
static void expect(struct pair *p, const char *part, const char *other)
{
    enum rh_status status = plan_check_matching(p->plan, 0);
    if (!part) {
        CU_ASSERT_EQUAL(status, RH_OK);
        if (status != RH_OK)
            fprintf(stderr, "    %s\n", fail_message());
    } else {
        CU_ASSERT_EQUAL(status, RH_INVALID);
        UNIT_ASSERT_CONTAINS(fail_message(), part);
        UNIT_ASSERT_CONTAINS(fail_message(), other);
    }
    plan_free(p->plan);
}

static void what_is_right_passes(void)
{
    struct pair p = pair_new(8, 8);
    send(&p, 0, p.stream[0], "m", "send m");
    receive(&p, 1, p.stream[1], "m", "receive m");
    for (int r = 0; r < 2; r++)
        collect(&p, r, "sum", COLLECTIVE_ALL_REDUCE, 0);
    expect(&p, NULL, NULL);
}

/* Every send has its receive and the collectives' orders agree; it hangs all the same. */
static void send_then_collective(void)
{
    struct pair p = pair_new(8, 8);
    send(&p, 0, p.stream[0], "m", "send m");
    collect(&p, 0, "sum of 0", COLLECTIVE_ALL_REDUCE, 0);
    collect(&p, 1, "sum of 1", COLLECTIVE_ALL_REDUCE, 0);
    receive(&p, 1, p.stream[1], "m", "receive m");
    expect(&p, "send m", "sum of 1");
}

static void swapped_collectives(void)
{
    struct pair p = pair_new(8, 8);
    collect(&p, 0, "sum", COLLECTIVE_ALL_REDUCE, 0);
    collect(&p, 0, "spread", COLLECTIVE_BROADCAST, 0);
    collect(&p, 1, "spread", COLLECTIVE_BROADCAST, 0);
    collect(&p, 1, "sum", COLLECTIVE_ALL_REDUCE, 0);
    expect(&p, "'sum'", "'spread'");
}

static void a_missing_receive(void)
{
    struct pair p = pair_new(8, 8);
    send(&p, 0, p.stream[0], "lost", "send lost");
    expect(&p, "deadlock", "send lost");
}

static void another_name(void)
{
    struct pair p = pair_new(8, 8);
    send(&p, 0, p.stream[0], "grad 1", "send grad 1");
    receive(&p, 1, p.stream[1], "grad 2", "receive grad 2");
    expect(&p, "send grad 1", "receive grad 2");
}

static void another_stream(void)
{
    struct pair p = pair_new(8, 8);
    send(&p, 0, p.stream[0], "m", "send m");
    receive(&p, 1, p.other[1], "m", "receive m");
    expect(&p, "send m", "receive m");
}

/* One end fuses what the other takes one after the other: the first cannot end. */
static void fused_at_one_end(void)
{
    struct pair p = pair_new(8, 8);
    struct exchange_message both[2] = {{true, p.stream[0], {false, 1}, "x", p.view[0]},
                                       {false, p.other[0], {false, 1}, "y", p.view[0]}};
    write_exchange(&p.w[0], "fused", p.group, both, 2);
    receive(&p, 1, p.other[1], "z", "receive z");
    receive(&p, 1, p.stream[1], "x", "receive x");
    send(&p, 1, p.other[1], "y", "send y");
    expect(&p, "fused", "receive z");
}

static void sizes_differ(void)
{
    struct pair p = pair_new(8, 9);
    for (int r = 0; r < 2; r++)
        collect(&p, r, "sum", COLLECTIVE_ALL_REDUCE, 0);
    expect(&p, "32 bytes", "36");
    p = pair_new(8, 9);
    send(&p, 0, p.stream[0], "m", "send m");
    receive(&p, 1, p.stream[1], "m", "receive m");
    expect(&p, "sends 32", "receives 36");
}

static void roots_differ(void)
{
    struct pair p = pair_new(8, 8);
    collect(&p, 0, "spread", COLLECTIVE_BROADCAST, 0);
    collect(&p, 1, "spread", COLLECTIVE_BROADCAST, 1);
    expect(&p, "roots differ", "1");
}

static void streams_that_wait_for_each_other(void)
{
    struct pair p = pair_new(8, 8);
    int a = role_add_event(p.plan, 0, "a done");
    int b = role_add_event(p.plan, 0, "b done");
    write_wait(&p.w[0], p.stream[0], b);
    write_record(&p.w[0], p.stream[0], a);
    write_wait(&p.w[0], p.other[0], a);
    write_record(&p.w[0], p.other[0], b);
    expect(&p, "b done", "a done");
}

static void a_sync_lets_go(void)
{
    struct pair p = pair_new(8, 8);
    int done = role_add_event(p.plan, 0, "done");
    collect(&p, 0, "sum", COLLECTIVE_ALL_REDUCE, 0);
    write_record(&p.w[0], p.stream[0], done);
    write_sync(&p.w[0], done);
    collect(&p, 0, "sum again", COLLECTIVE_ALL_REDUCE, 0);
    collect(&p, 1, "sum", COLLECTIVE_ALL_REDUCE, 0);
    collect(&p, 1, "sum again", COLLECTIVE_ALL_REDUCE, 0);
    expect(&p, NULL, NULL);
}

/* A ring of relative neighbours on one role, any number of workers. */
static void rings_of_neighbours(void)
{
    for (int workers = 2; workers <= 5; workers++) {
        struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {workers}};
        struct plan *plan = plan_new("ring", &mesh, -1);
        int64_t floats = 4;
        role_init(plan, 0, "rank", 1);
        int group = plan_add_group(plan, "dp", 1, 0, NULL);
        int stream = role_add_stream(plan, 0, "a", 0);
        struct writer w = {plan, 0, role_add_list(plan, 0, "list"), WORK_OTHER, -1};
        struct buffer buffer = {.name = "buffer",
                                .type = {DTYPE_F32, shape_of(1, &floats)},
                                .purpose = PURPOSE_COMMUNICATION,
                                .list = -1,
                                .index = -1};
        struct view out = view_of(&plan->roles[0], role_add_buffer(plan, 0, buffer));
        struct view in = view_of(&plan->roles[0], role_add_buffer(plan, 0, buffer));
        struct exchange_message messages[2] = {{true, stream, {true, 1}, "right", out},
                                               {false, stream, {true, -1}, "right", in}};
        write_exchange(&w, "shift", group, messages, 2);
        CU_ASSERT_EQUAL(plan_check_matching(plan, 0), RH_OK);
        CU_ASSERT_EQUAL(untimed_run(plan, &mesh, 0, NULL), RH_OK);
        plan_free(plan);
    }
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"what is right passes", what_is_right_passes, NULL},
        {"send then collective", send_then_collective, NULL},
        {"swapped collectives", swapped_collectives, NULL},
        {"a missing receive", a_missing_receive, NULL},
        {"another name", another_name, NULL},
        {"another stream", another_stream, NULL},
        {"fused at one end", fused_at_one_end, NULL},
        {"sizes differ", sizes_differ, NULL},
        {"roots differ", roots_differ, NULL},
        {"streams that wait for each other", streams_that_wait_for_each_other, NULL},
        {"a sync lets go", a_sync_lets_go, NULL},
        {"rings of neighbours", rings_of_neighbours, NULL},
    };
    return UNIT_MAIN("matching", tests);
}
