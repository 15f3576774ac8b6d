/* Random plans of two pipeline stages that meet as they should, and the same with one fault. */
#include "base/status.h"
#include "plan/check.h"
#include "tests/unit/plans.h"
#include "tests/unit/unit.h"

enum { PLANS = 300, SEED = 20240608 };

/* Two pipeline stages that meet in random collectives and messages on one stream. */
enum { FIRST_STAGE_SENDS, SECOND_STAGE_SENDS, MEETING, MEETING_KINDS };

struct meetings {
    int kind[24], elements[24], count;
};

static void write_meeting(struct plan *plan, int role, int group, const struct meetings *meetings,
                          int i)
{
    struct writer w = plans_writer(plan, role);
    const char *name = plan_text(plan, "meeting %d", i);
    int elements = meetings->elements[i];
    struct view x = view_of(&plan->roles[role], plans_buffer(plan, role, plan_text(plan, "x %d", i),
                                                             elements, LIFETIME_PERSISTENT));
    struct collect_part part = {1, &x, &x};
    struct exchange_message message = {meetings->kind[i] == role, 1, {false, 1 - role}, name, x};
    if (meetings->kind[i] == MEETING)
        write_collect(&w, name, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, group, 0, 0, &part, 1);
    else
        write_exchange(&w, name, group, &message, 1);
    plans_zero(&w, 0, "work",
               view_of(&plan->roles[role], plans_buffer(plan, role, plan_text(plan, "y %d", i), 4,
                                                        LIFETIME_PERSISTENT)));
}

static struct plan *two_stages(const struct meetings *meetings)
{
    struct mesh mesh = {2, {"dp", "pp"}, {2, 2}};
    struct plan *plan = plan_new("two stages", &mesh, 1);
    int group = plan_add_group(plan, "pp", 2, 0, NULL);
    for (int role = 0; role < 2; role++) {
        role_init(plan, role, plan_text(plan, "stage %d", role), 1);
        role_add_stream(plan, role, "compute", 0);
        role_add_stream(plan, role, "communication", 0);
        role_add_list(plan, role, "steady");
        for (int i = 0; i < meetings->count; i++)
            write_meeting(plan, role, group, meetings, i);
    }
    return plan;
}

static struct meetings random_meetings(struct random *random)
{
    struct meetings meetings = {.count = 6 + pick(random, 18)};
    for (int i = 0; i < meetings.count; i++) {
        meetings.kind[i] = pick(random, MEETING_KINDS);
        meetings.elements[i] = 4 * (i + 1);
    }
    meetings.kind[0] = FIRST_STAGE_SENDS; /* at least what the faults need */
    meetings.kind[1] = meetings.kind[2] = MEETING;
    return meetings;
}

/* Instructions stand in pairs: meeting i is at 2i. */
static void swap(struct plan *plan, int role, int meeting, int other)
{
    struct instruction *all = plan->roles[role].lists[0].instructions;
    struct instruction kept = all[2 * meeting];
    all[2 * meeting] = all[2 * other];
    all[2 * other] = kept;
}

static void expect_stuck(struct plan *plan, int number, const char *what)
{
    enum rh_status status = plan_check(plan);
    CU_ASSERT_EQUAL(status, RH_INVALID);
    if (status != RH_INVALID)
        fprintf(stderr, "    seed %d, plan %d: %s not found\n", SEED, number, what);
    else
        UNIT_ASSERT_CONTAINS(fail_message(), "meeting");
    plan_free(plan);
}

static void test_two_roles(void)
{
    struct random random = {SEED};
    for (int n = 0; n < PLANS; n++) {
        struct meetings meetings = random_meetings(&random);
        int role = pick(&random, 2);
        struct plan *plan = two_stages(&meetings);
        enum rh_status status = plan_check(plan);
        CU_ASSERT_EQUAL(status, RH_OK);
        if (status != RH_OK)
            fprintf(stderr, "    seed %d, plan %d refused: %s\n", SEED, n, fail_message());
        plan_free(plan);

        plan = two_stages(&meetings);
        swap(plan, role, 1, 2);
        expect_stuck(plan, n, "swapped collectives");

        plan = two_stages(&meetings);
        plan->roles[1].lists[0].instructions[0].kind = INSTRUCTION_BEGIN; /* the receive is gone */
        expect_stuck(plan, n, "a missing receive");

        /* Every send has its receive and the collectives agree, and yet. */
        plan = two_stages(&meetings);
        swap(plan, role, 0, 1);
        expect_stuck(plan, n, "send then collective against collective then receive");
    }
}

static const struct unit_test tests[] = {
    {"stages that meet", test_two_roles, NULL},
};

int main(void)
{
    return UNIT_MAIN("plan_meetings", tests);
}
