/* The communicators of a plan: one a (group, stream), ranks and colours of its instances. */
#include <stdlib.h>

#include "plan/communicators.h"
#include "tests/unit/plans.h"
#include "tests/unit/unit.h"

/* Two stages × two ranks; each stage all-reduces, and stage 0 sends to stage 1. */
static struct plan *mixed(int *dp, int *ends)
{
    struct mesh mesh = {2, {"dp", "pp"}, {2, 3}};
    const int coordinates[] = {0, 2};
    struct plan *plan = plan_new("mixed", &mesh, 1);
    *dp = plan_add_group(plan, "dp", 1, 0, NULL);
    *ends = plan_add_group(plan, "ends", 2, 2, coordinates);
    for (int role = 0; role < 3; role++) {
        role_init(plan, role, plan_text(plan, "stage %d", role), 1);
        role_add_stream(plan, role, "compute", 0);
        role_add_stream(plan, role, "communication", 0);
        role_add_list(plan, role, "steady");
        struct writer w = plans_writer(plan, role);
        struct view x =
            view_of(&plan->roles[role], plans_buffer(plan, role, "x", 8, LIFETIME_PERSISTENT));
        struct collect_part part = {1, &x, &x};
        struct exchange_message message = {role == 0, 0, {false, 2 - role}, "x", x};
        write_collect(&w, "sum", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, *dp, 0, 0, &part, 1);
        write_collect(&w, "sum", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, *dp, 0, 0, &part, 1);
        if (role != 1)
            write_exchange(&w, "x", *ends, &message, 1);
    }
    return plan;
}

static void test_each_once_in_order(void)
{
    int dp, ends, count = 0;
    struct communicator_use *uses = NULL;
    struct plan *plan = mixed(&dp, &ends);
    communicators_list(plan, &uses, &count);
    CU_ASSERT_EQUAL_FATAL(count, 2);
    CU_ASSERT_EQUAL(uses[0].group, dp);
    CU_ASSERT_STRING_EQUAL(uses[0].stream, "communication");
    CU_ASSERT_EQUAL(uses[1].group, ends);
    CU_ASSERT_STRING_EQUAL(uses[1].stream, "compute");
    CU_ASSERT_EQUAL(communicators_find(uses, count, ends, plan->roles[2].streams[0].name), 1);
    CU_ASSERT_EQUAL(communicators_find(uses, count, dp, plan->roles[2].streams[0].name), -1);
    free(uses);
    plan_free(plan);
}

static void test_ranks_and_colours(void)
{
    int dp, ends;
    struct plan *plan = mixed(&dp, &ends); /* workers: (0,0) (0,1) (0,2) (1,0) (1,1) (1,2) */
    const int dp_rank[] = {0, 0, 0, 1, 1, 1}, dp_color[] = {0, 1, 2, 0, 1, 2};
    const int ends_rank[] = {0, -1, 1, 0, -1, 1}, ends_color[] = {0, 0, 0, 3, 3, 3};
    for (int w = 0; w < 6; w++) {
        CU_ASSERT_EQUAL(communicators_rank(plan, dp, w), dp_rank[w]);
        CU_ASSERT_EQUAL(communicators_color(plan, dp, w), dp_color[w]);
        CU_ASSERT_EQUAL(communicators_rank(plan, ends, w), ends_rank[w]);
        CU_ASSERT_EQUAL(communicators_color(plan, ends, w), ends_color[w]);
    }
    plan_free(plan);
}

static void test_none(void)
{
    int count = -1;
    struct communicator_use *uses = NULL;
    struct plan *plan = plans_new(2, 1);
    communicators_list(plan, &uses, &count);
    CU_ASSERT_EQUAL(count, 0);
    CU_ASSERT_PTR_NULL(uses);
    plan_free(plan);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"each once, in order", test_each_once_in_order, NULL},
        {"ranks and colours", test_ranks_and_colours, NULL},
        {"a plan that does not communicate", test_none, NULL},
    };
    return UNIT_MAIN("communicators", tests);
}
