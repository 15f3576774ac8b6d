#include <string.h>

#include "base/status.h"
#include "plan/check.h"
#include "plan/placement.h"
#include "tests/unit/plans.h"
#include "tests/unit/unit.h"

/* Places and checks; an error must hold all the words (NULL ends them). */
static void expect(struct plan *plan, const char *const *words)
{
    CU_ASSERT_EQUAL(plan_check_shapes(plan), RH_OK);
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    enum rh_status status = plan_check_races(plan, 0, 0);
    CU_ASSERT_EQUAL(status, words ? RH_INVALID : RH_OK);
    if (!words && status != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    for (; words && *words; words++)
        UNIT_ASSERT_CONTAINS(fail_message(), *words);
    plan_free(plan);
}
#define EXPECT_FAULT(plan, ...) expect(plan, (const char *const[]){__VA_ARGS__, NULL})

static struct plan *writer_and_reader(bool waits)
{
    struct plan *plan = plans_new(1, 2);
    struct writer w = plans_writer(plan, 0);
    struct view x = plans_view(plan, plans_transient(plan, "x", 64));
    struct view y = plans_view(plan, plans_persistent(plan, "y", 64));
    plans_zero(&w, 0, "fill", x);
    if (waits)
        write_join(&w, 0, 1, "filled");
    plans_relu(&w, 1, "use", x, y);
    return plan;
}

static void test_forgotten_wait(void)
{
    expect(writer_and_reader(true), NULL);
    EXPECT_FAULT(writer_and_reader(false), "race in list 'steady'", "'fill' (instruction 0",
                 "stream 'compute') writes", "'use' (instruction 1",
                 "stream 'communication') reads", "bytes [0, 256) of buffer 'x'", "neither waits");
}

/* The writer must also wait for those that still read. */
static void test_write_after_read(void)
{
    for (int waits = 0; waits < 2; waits++) {
        struct plan *plan = plans_new(1, 3);
        struct writer w = plans_writer(plan, 0);
        struct view x = plans_view(plan, plans_persistent(plan, "x", 64));
        struct view y = plans_view(plan, plans_persistent(plan, "y", 64));
        struct view z = plans_view(plan, plans_persistent(plan, "z", 64));
        plans_relu(&w, 1, "read on 1", x, y);
        plans_relu(&w, 2, "read on 2", x, z); /* two readers are no race */
        write_join(&w, 2, 0, "second reader");
        if (waits)
            write_join(&w, 1, 0, "first reader");
        plans_zero(&w, 0, "overwrite", x);
        if (waits)
            expect(plan, NULL);
        else
            EXPECT_FAULT(plan, "'read on 1'", "'overwrite'", "buffer 'x'");
    }
}

/* Rows are apart; one row too many is not. */
static void test_slices(void)
{
    for (int rows = 32; rows < 34; rows++) {
        struct plan *plan = plans_new(1, 2);
        struct writer w = plans_writer(plan, 0);
        struct view x = plans_view(plan, plans_transient(plan, "x", 64));
        plans_zero(&w, 0, "first half", view_narrow(x, 0, 0, rows));
        plans_zero(&w, 1, "second half", view_narrow(x, 0, 32, 32));
        if (rows == 32)
            expect(plan, NULL);
        else
            EXPECT_FAULT(plan, "'first half'", "'second half'", "bytes [128, 132)");
    }
}

/* Columns of one matrix lie in each other's range without sharing a byte, as gather's do. */
static void test_columns(void)
{
    for (int kind = 0; kind < 3; kind++) {
        struct plan *plan = plans_new(1, 2);
        struct writer w = plans_writer(plan, 0);
        struct buffer buffer = {.name = "x", .lifetime = LIFETIME_TRANSIENT};
        buffer.type = (struct tensor_type){DTYPE_F32, shape_of(2, (int64_t[]){8, 6})};
        struct view x = plans_view(plan, role_add_buffer(plan, 0, buffer));
        buffer.name = "y";
        struct view y = plans_view(plan, role_add_buffer(plan, 0, buffer));
        plans_zero(&w, 0, "left", view_narrow(x, 1, 0, kind == 1 ? 4 : 3));
        plans_zero(&w, 1, "right", view_narrow(x, 1, kind == 2 ? 4 : 3, kind == 2 ? 2 : 3));
        write_join(&w, 1, 0, "both");
        plans_relu(&w, 0, "all", x, y);
        if (kind == 0)
            expect(plan, NULL);
        if (kind == 1)
            EXPECT_FAULT(plan, "race", "'left'", "'right'");
        if (kind == 2) /* column 3 was never written */
            EXPECT_FAULT(plan, "unwritten bytes", "'all'", "buffer 'x'");
    }
}

static void test_unwritten(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    struct view x = plans_view(plan, plans_transient(plan, "x", 64));
    struct view y = plans_view(plan, plans_transient(plan, "y", 64));
    plans_zero(&w, 0, "half", view_narrow(x, 0, 0, 32));
    plans_relu(&w, 0, "use", x, y);
    EXPECT_FAULT(plan, "unwritten bytes", "'use' (instruction 1", "bytes [128, 256)", "'x'");

    struct op op = {.kind = OP_scale_add, .accumulate = true, .scale_add = {.alpha = 1}};
    plan = plans_new(1, 1);
    w = plans_writer(plan, 0);
    struct view from = plans_view(plan, plans_persistent(plan, "from", 64));
    struct view sum = plans_view(plan, plans_transient(plan, "sum", 64));
    write_compute(&w, 0, "add up", &op, &from, 1, &sum, 1);
    EXPECT_FAULT(plan, "unwritten bytes", "'add up'", "adds to", "'sum'");

    plan = plans_new(1, 1); /* persistent bytes come from outside */
    w = plans_writer(plan, 0);
    from = plans_view(plan, plans_persistent(plan, "from", 64));
    plans_relu(&w, 0, "use", from, plans_view(plan, plans_transient(plan, "x", 64)));
    expect(plan, NULL);
}

/* A broadcast's receivers need hold nothing before; its local root must. */
static void test_broadcast(void)
{
    for (int kind = 0; kind < 3; kind++) {
        struct plan *plan = plans_new(2, 2);
        struct writer w = plans_writer(plan, 0);
        int group = plan_add_group(plan, "g", kind ? 0 : 1, 0, NULL);
        struct view x = plans_view(plan, plans_transient(plan, "x", 64));
        struct view y = plans_view(plan, plans_transient(plan, "y", 64));
        struct collect_part parts[] = {{0, &x, &x}, {1, NULL, &y}};
        if (kind == 2)
            plans_zero(&w, 0, "fill", x);
        write_collect(&w, "start", COLLECTIVE_BROADCAST, REDUCE_SUM, group, 0, 0, parts,
                      kind ? 2 : 1);
        if (kind == 1)
            EXPECT_FAULT(plan, "unwritten", "'start'", "'x'");
        else
            expect(plan, NULL);
    }
}

/* By hand: 'b' lies where 'a' is still read. On one stream it is no race, and wrong all the same.
 */
static void test_reused_too_early(void)
{
    for (int streams = 1; streams <= 2; streams++) {
        struct plan *plan = plans_new(1, 2);
        struct writer w = plans_writer(plan, 0);
        int a = plans_transient(plan, "a", 64), b = plans_transient(plan, "b", 64);
        struct view out = plans_view(plan, plans_persistent(plan, "out", 64));
        plans_zero(&w, 0, "fill a", plans_view(plan, a));
        write_join(&w, 0, 1, "a");
        if (streams == 2)
            plans_relu(&w, 1, "send a", plans_view(plan, a), out);
        plans_zero(&w, 0, "fill b", plans_view(plan, b));
        if (streams == 1)
            plans_relu(&w, 0, "read a", plans_view(plan, a), out);
        CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
        CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_OK);
        plan->roles[0].buffers[b].offset = plan->roles[0].buffers[a].offset + 128;
        CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_INVALID);
        UNIT_ASSERT_CONTAINS(fail_message(), streams == 2 ? "race in list" : "reused too early");
        UNIT_ASSERT_CONTAINS(fail_message(), streams == 2 ? "'send a'" : "'read a'");
        UNIT_ASSERT_CONTAINS(fail_message(), streams == 2 ? "share bytes [128, 256)" : "'a'");
        UNIT_ASSERT_CONTAINS(fail_message(), "'fill b'");
        plan_free(plan);
    }
}

static void expect_shape_fault(struct plan *plan, const char *words)
{
    CU_ASSERT_EQUAL(plan_check_shapes(plan), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), words);
    UNIT_ASSERT_CONTAINS(fail_message(), "'bad' (instruction 0 of list 'steady', role 'worker')");
    plan_free(plan);
}

static void test_shapes(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    struct view x = plans_view(plan, plans_persistent(plan, "x", 64));
    struct view y = plans_view(plan, plans_persistent(plan, "y", 65));
    plans_relu(&w, 0, "bad", x, y);
    expect_shape_fault(plan, "relu");

    plan = plans_new(1, 1);
    w = plans_writer(plan, 0);
    x = plans_view(plan, plans_persistent(plan, "x", 64));
    y = plans_view(plan, plans_persistent(plan, "y", 65));
    write_copy(&w, 0, "bad", x, y);
    expect_shape_fault(plan, "copy of 64 elements of 'x' to 65 of 'y'");

    plan = plans_new(1, 1);
    w = plans_writer(plan, 0);
    x = plans_view(plan, plans_persistent(plan, "x", 64));
    x.offset = 4;
    plans_zero(&w, 0, "bad", x);
    expect_shape_fault(plan, "view outside buffer 'x': bytes [4, 260) of 256");

    plan = plans_new(1, 1);
    w = plans_writer(plan, 0);
    int host = plans_persistent(plan, "x", 64);
    plan->roles[0].buffers[host].device = 1;
    plans_zero(&w, 0, "bad", plans_view(plan, host));
    expect_shape_fault(plan, "stream 'compute' is of device 0, buffer 'x' of device 1");

    plan = plans_new(1, 1);
    w = plans_writer(plan, 0);
    int other = plans_transient(plan, "x", 64);
    plan->roles[0].buffers[other].list = 7;
    plans_zero(&w, 0, "bad", plans_view(plan, other));
    expect_shape_fault(plan, "belongs to list 7, used in list 0");

    plan = plans_new(1, 1);
    w = plans_writer(plan, 0);
    plans_zero(&w, 3, "bad", plans_view(plan, plans_persistent(plan, "x", 64)));
    expect_shape_fault(plan, "no such stream: index 3, 1 there");
}

/* Counts of each kind of collective over four workers: what is given, what is got, is it right. */
static void test_collective_counts(void)
{
    static const struct {
        enum collective_kind kind;
        int gives, gets;
        bool right;
    } cases[] = {
        {COLLECTIVE_ALL_REDUCE, 64, 64, true},      {COLLECTIVE_ALL_REDUCE, 64, 32, false},
        {COLLECTIVE_REDUCE, 64, 64, true},          {COLLECTIVE_REDUCE, 64, 16, false},
        {COLLECTIVE_BROADCAST, 64, 64, true},       {COLLECTIVE_BROADCAST, 16, 64, false},
        {COLLECTIVE_ALL_GATHER, 16, 64, true},      {COLLECTIVE_ALL_GATHER, 64, 16, false},
        {COLLECTIVE_REDUCE_SCATTER, 64, 16, true},  {COLLECTIVE_REDUCE_SCATTER, 65, 16, false},
        {COLLECTIVE_REDUCE_SCATTER, 16, 64, false}, {COLLECTIVE_ALL_TO_ALL, 64, 64, true},
        {COLLECTIVE_ALL_TO_ALL, 62, 62, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan *plan = plans_new(4, 1);
        struct writer w = plans_writer(plan, 0);
        int group = plan_add_group(plan, "dp", 1, 0, NULL);
        struct view x = plans_view(plan, plans_persistent(plan, "x", cases[i].gives));
        struct view y = plans_view(plan, plans_persistent(plan, "y", cases[i].gets));
        struct collect_part part = {0, &x, &y};
        write_collect(&w, "bad", cases[i].kind, REDUCE_SUM, group, 0, 0, &part, 1);
        if (cases[i].right) {
            CU_ASSERT_EQUAL(plan_check_shapes(plan), RH_OK);
            plan_free(plan);
        } else {
            expect_shape_fault(plan, collective_name(cases[i].kind));
        }
    }
}

static void test_collective_roots(void)
{
    for (int kind = 0; kind < 3; kind++) {
        struct plan *plan = plans_new(4, 1);
        struct writer w = plans_writer(plan, 0);
        int group = plan_add_group(plan, "dp", 1, kind ? 0 : 2, (int[]){1, 3});
        struct view x = plans_view(plan, plans_persistent(plan, "x", 64));
        struct collect_part part = {0, &x, &x};
        write_collect(&w, "bad", COLLECTIVE_BROADCAST, REDUCE_SUM, group, kind == 1 ? 4 : 2,
                      kind == 2, &part, 1);
        expect_shape_fault(plan, kind == 0   ? "root coordinate 2 is not in group 'dp'"
                                 : kind == 1 ? "no such root coordinate: index 4, 4 there"
                                             : "no such root part: index 1, 1 there");
    }
}

static const struct unit_test tests[] = {
    {"a forgotten wait", test_forgotten_wait, NULL},
    {"write after read", test_write_after_read, NULL},
    {"slices", test_slices, NULL},
    {"columns", test_columns, NULL},
    {"unwritten bytes", test_unwritten, NULL},
    {"broadcast", test_broadcast, NULL},
    {"reused too early", test_reused_too_early, NULL},
    {"shapes", test_shapes, NULL},
    {"collective counts", test_collective_counts, NULL},
    {"collective roots", test_collective_roots, NULL},
};

int main(void)
{
    return UNIT_MAIN("races", tests);
}
