/* Plans that would hang or mismatch are found before they run, and the instructions are named. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* Nothing can record what a stream waits for, if the record is queued behind the wait. */
static void a_wait_for_itself(void)
{
    struct pair p = pair_new(8, 8);
    int event = role_add_event(p.plan, 1, "own");
    write_wait(&p.w[1], p.stream[1], event);
    write_record(&p.w[1], p.stream[1], event);
    expect(&p, "list 'list'", "worker 1 waits at 'own' (wait on 'a')");
}

/* Nothing is left in any queue, and yet the worker is stuck. */
static void a_sync_that_nothing_lets_go(void)
{
    struct pair p = pair_new(8, 8);
    write_sync(&p.w[0], role_add_event(p.plan, 0, "never"));
    expect(&p, "deadlock", "worker 0 waits at 'never' (sync)");
    p = pair_new(8, 8);
    int late = role_add_event(p.plan, 0, "late");
    write_sync(&p.w[0], late);
    send(&p, 0, p.stream[0], "m", "send m");
    write_record(&p.w[0], p.stream[0], late);
    receive(&p, 1, p.stream[1], "m", "receive m");
    expect(&p, "worker 0 waits at 'late' (sync)", "worker 1 waits at 'receive m'");
}

/* Streams that only follow do not push what they follow out of the message. */
static void both_ends_are_named(void)
{
    struct pair p = pair_new(8, 8);
    int streams[6], event = role_add_event(p.plan, 0, "summed");
    collect(&p, 0, "sum", COLLECTIVE_ALL_REDUCE, 0);
    write_record(&p.w[0], p.stream[0], event);
    for (int i = 0; i < 6; i++) {
        streams[i] = role_add_stream(p.plan, 0, "follower", 0);
        write_wait(&p.w[0], streams[i], event);
    }
    receive(&p, 1, p.stream[1], "lost", "receive lost");
    expect(&p, "worker 0 waits at 'sum' (collect on 'a'), worker 1 waits at 'receive lost'",
           "worker 0 waits at 'summed' (wait on 'follower')");
}

/* The check runs on fewer workers; the message names those of the plan. */
static void workers_are_those_of_the_plan(void)
{
    struct mesh mesh = {.axis_count = 2, .axis = {"pp", "dp"}, .size = {2, 8}};
    struct plan *plan = plan_new("wide", &mesh, 0);
    int group = plan_add_group(plan, "pp", 1, 0, NULL);
    int64_t floats = 4;
    struct buffer buffer = {
        .name = "buffer", .type = {DTYPE_F32, shape_of(1, &floats)}, .list = -1, .index = -1};
    for (int r = 0; r < 2; r++) {
        role_init(plan, r, "stage", 1);
        role_add_stream(plan, r, "a", 0);
        role_add_list(plan, r, "list");
    }
    struct view view = view_of(&plan->roles[1], role_add_buffer(plan, 1, buffer));
    struct writer w = {plan, 1, 0, WORK_OTHER, -1};
    struct exchange_message message = {false, 0, {false, 0}, "lost", view};
    write_exchange(&w, "receive lost", group, &message, 1);
    CU_ASSERT_EQUAL(plan_check_matching(plan, 0), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "worker 8 waits at 'receive lost'");
    plan_free(plan);
}

/* Rank order is coordinate, then part: what differs in either is named. */
static void what_members_disagree_about(void)
{
    struct pair p = pair_new(8, 8);
    struct view view = p.view[0];
    view.type.dtype = DTYPE_I32; /* as many bytes */
    struct collect_part part = {p.stream[0], &view, &view};
    write_collect(&p.w[0], "sum", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, p.group, 0, 0, &part, 1);
    collect(&p, 1, "sum", COLLECTIVE_ALL_REDUCE, 0);
    expect(&p, "worker 0 has int32", "worker 1 fp32");

    p = pair_new(8, 8);
    part = (struct collect_part){p.stream[0], &p.view[0], &p.view[0]};
    write_collect(&p.w[0], "most", COLLECTIVE_ALL_REDUCE, REDUCE_MAX, p.group, 0, 0, &part, 1);
    collect(&p, 1, "sum", COLLECTIVE_ALL_REDUCE, 0);
    expect(&p, "worker 0 does all_reduce (max) 'most'", "worker 1 all_reduce (sum) 'sum'");

    p = pair_new(8, 8);
    struct collect_part parts[2] = {{p.stream[0], &p.view[0], &p.view[0]},
                                    {p.other[0], &p.view[0], &p.view[0]}};
    write_collect(&p.w[0], "two", COLLECTIVE_BROADCAST, REDUCE_SUM, p.group, 0, 0, parts, 2);
    collect(&p, 1, "one", COLLECTIVE_BROADCAST, 0);
    expect(&p, "worker 0 has 2 in 'two'", "worker 1 1 in 'one'");

    p = pair_new(8, 8);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 2; i++)
            parts[i] = (struct collect_part){i ? p.other[r] : p.stream[r], &p.view[r], &p.view[r]};
        write_collect(&p.w[r], "spread", COLLECTIVE_BROADCAST, REDUCE_SUM, p.group, 1, r, parts, 2);
    }
    expect(&p, "root parts differ: worker 0 has 0", "worker 1 1 in 'spread'");
}

/* An exchange stands in a queue once, however many of its messages name the stream: what comes
 * after it is not lost with it. */
static void two_messages_on_one_stream(void)
{
    struct pair p = pair_new(8, 8);
    for (int r = 0; r < 2; r++) {
        struct exchange_message both[2] = {
            {true, p.stream[r], {false, 1 - r}, r ? "up" : "down", p.view[r]},
            {false, p.stream[r], {false, 1 - r}, r ? "down" : "up", p.view[r]}};
        write_exchange(&p.w[r], "swap", p.group, both, 2);
    }
    send(&p, 0, p.stream[0], "lost", "send lost");
    expect(&p, "deadlock", "worker 0 waits at 'send lost'");
}

static void message_types_differ(void)
{
    struct pair p = pair_new(8, 8);
    p.view[0].type.dtype = DTYPE_I32;
    send(&p, 0, p.stream[0], "m", "send m");
    receive(&p, 1, p.stream[1], "m", "receive m");
    expect(&p, "worker 0 sends int32", "worker 1 receives fp32");
}

/* Four workers of one role in a collective over a group of listed coordinates. */
static void expect_listed(const int coordinates[2], const char *part, const char *other)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {4}};
    struct plan *plan = plan_new("ends", &mesh, -1);
    int64_t floats = 4;
    int group = plan_add_group(plan, "ends", 1, 2, coordinates);
    role_init(plan, 0, "rank", 1);
    int stream = role_add_stream(plan, 0, "a", 0);
    struct writer w = {plan, 0, role_add_list(plan, 0, "list"), WORK_OTHER, -1};
    struct buffer buffer = {
        .name = "buffer", .type = {DTYPE_F32, shape_of(1, &floats)}, .list = -1, .index = -1};
    struct view view = view_of(&plan->roles[0], role_add_buffer(plan, 0, buffer));
    struct collect_part one = {stream, &view, &view};
    write_collect(&w, "sum", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, group, coordinates[0], 0, &one, 1);
    CU_ASSERT_EQUAL(plan_check_matching(plan, 0), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), part);
    UNIT_ASSERT_CONTAINS(fail_message(), other);
    plan_free(plan);
}

static void groups_that_do_not_fit(void)
{
    expect_listed((int[]){0, 3}, "'sum' is for group 'ends'", "coordinate 1 of axis 'dp'");
    expect_listed((int[]){0, 9}, "coordinate 9", "axis 'dp' has 4");
}

/* One role of `workers`, all of which send to one offset and receive from another. */
static struct plan *shift_new(int workers, int to, int from)
{
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
    struct exchange_message messages[2] = {{true, stream, {true, to}, "right", out},
                                           {false, stream, {true, from}, "right", in}};
    write_exchange(&w, "shift", group, messages, 2);
    return plan;
}

/* A ring of relative neighbours on one role, any number of workers. */
static void rings_of_neighbours(void)
{
    for (int workers = 2; workers <= 5; workers++) {
        struct plan *plan = shift_new(workers, 1, -1);
        CU_ASSERT_EQUAL(plan_check_matching(plan, 0), RH_OK);
        CU_ASSERT_EQUAL(untimed_run(plan, &plan->mesh, 0, NULL), RH_OK);
        plan_free(plan);
    }
}

/* On too few workers +1 and -2 are the same peer: the check takes as many as tell them apart. */
static void fewer_workers_say_what_all_say(void)
{
    for (int workers = 1; workers <= 10; workers++)
        for (int to = -4; to <= 4; to++)
            for (int from = -4; from <= 4; from++) {
                struct plan *plan = shift_new(workers, to, from);
                enum rh_status all = (to + from) % workers ? RH_INVALID : RH_OK;
                CU_ASSERT_EQUAL(untimed_run(plan, &plan->mesh, 0, NULL), all);
                CU_ASSERT_EQUAL(plan_check_matching(plan, 0), all);
                plan_free(plan);
            }
}

/* 100,000 instructions of four workers: each stream is looked at when something came for it. */
static void a_long_list(void)
{
    struct plan *plan = shift_new(4, 1, -1);
    struct writer w = {plan, 0, 0, WORK_OTHER, -1};
    int other = role_add_stream(plan, 0, "b", 0);
    struct view view = view_of(&plan->roles[0], 0);
    struct collect_part part = {other, &view, &view};
    struct op zero = {.kind = OP_zero};
    for (int i = 0; i < 25000; i++) {
        write_compute(&w, 0, "zero", &zero, NULL, 0, &view, 1);
        write_join(&w, 0, other, "zeroed");
        write_collect(&w, "sum", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, 0, 0, &part, 1);
    }
    CU_ASSERT_TRUE(plan->roles[0].lists[0].count > 100000);
    clock_t start = clock();
    CU_ASSERT_EQUAL(untimed_run(plan, &plan->mesh, 0, NULL), RH_OK);
    CU_ASSERT_TRUE((double)(clock() - start) / CLOCKS_PER_SEC < 1);
    plan_free(plan);
}

/* A root on one axis does not make the check run all coordinates of another. */
static void a_root_on_another_axis(void)
{
    struct mesh mesh = {.axis_count = 2, .axis = {"dp", "pp"}, .size = {4096, 4}};
    struct plan *plan = plan_new("wide", &mesh, 1);
    int64_t floats = 4;
    struct buffer buffer = {
        .name = "buffer", .type = {DTYPE_F32, shape_of(1, &floats)}, .list = -1, .index = -1};
    int group = plan_add_group(plan, "pp", 2, 0, NULL);
    for (int r = 0; r < 4; r++) {
        role_init(plan, r, "stage", 1);
        role_add_stream(plan, r, "a", 0);
        struct writer w = {plan, r, role_add_list(plan, r, "list"), WORK_OTHER, -1};
        struct view view = view_of(&plan->roles[r], role_add_buffer(plan, r, buffer));
        struct collect_part part = {0, &view, &view};
        for (int i = 0; i < 1000; i++)
            write_collect(&w, "spread", COLLECTIVE_BROADCAST, REDUCE_SUM, group, 3, 0, &part, 1);
    }
    clock_t start = clock();
    CU_ASSERT_EQUAL(plan_check_matching(plan, 0), RH_OK);
    CU_ASSERT_TRUE((double)(clock() - start) / CLOCKS_PER_SEC < 0.5);
    plan_free(plan);
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
        {"a wait for itself", a_wait_for_itself, NULL},
        {"a sync that nothing lets go", a_sync_that_nothing_lets_go, NULL},
        {"both ends are named", both_ends_are_named, NULL},
        {"workers are those of the plan", workers_are_those_of_the_plan, NULL},
        {"fewer workers say what all say", fewer_workers_say_what_all_say, NULL},
        {"a long list", a_long_list, NULL},
        {"what members disagree about", what_members_disagree_about, NULL},
        {"two messages on one stream", two_messages_on_one_stream, NULL},
        {"message types differ", message_types_differ, NULL},
        {"groups that do not fit", groups_that_do_not_fit, NULL},
        {"a root on another axis", a_root_on_another_axis, NULL},
    };
    return UNIT_MAIN("matching", tests);
}
