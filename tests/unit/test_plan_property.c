/* Random plans that are right by construction, and the same with one fault. The judge is a
 * transitive closure of its own, edge by edge: it shares nothing with order.c and races.c. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/check.h"
#include "plan/order.h"
#include "plan/placement.h"
#include "tests/unit/plans.h"
#include "tests/unit/unit.h"

enum {
    PLANS = 300,
    MOST = 256,
    BUFFERS = 10,
    TRANSIENT = 8,
    STREAMS = 4,
    ELEMENTS = 128,
    SEED = 20240607
};

/* before[a][b]: there is a path from a to b. */
struct closure {
    int count;
    bool before[MOST][MOST];
};

static int streams_of(const struct role *role, const struct instruction *in, int streams[8])
{
    if (in->kind == INSTRUCTION_SYNC)
        return 0;
    streams[0] = in->stream;
    if (in->kind != INSTRUCTION_COLLECT)
        return 1;
    for (int i = 0; i < in->collect.part_count; i++)
        streams[i] = role->parts[in->collect.part_first + i].stream;
    return in->collect.part_count;
}

static bool edge(const struct role *role, int a, int b)
{
    const struct instruction *x = &role->lists[0].instructions[a];
    const struct instruction *y = &role->lists[0].instructions[b];
    int on_x[8], on_y[8];
    int xs = streams_of(role, x, on_x), ys = streams_of(role, y, on_y);
    for (int i = 0; i < xs; i++)
        for (int j = 0; j < ys; j++)
            if (on_x[i] == on_y[j])
                return true;
    if (x->kind == INSTRUCTION_RECORD &&
        (y->kind == INSTRUCTION_WAIT || y->kind == INSTRUCTION_SYNC))
        return x->event == y->event;
    return x->kind == INSTRUCTION_SYNC;
}

static void close_over(const struct role *role, struct closure *closure)
{
    closure->count = role->lists[0].count;
    memset(closure->before, 0, sizeof closure->before);
    for (int b = 0; b < closure->count; b++)
        for (int a = b - 1; a >= 0; a--)
            if (edge(role, a, b)) {
                closure->before[a][b] = true;
                for (int c = 0; c < a; c++)
                    closure->before[c][b] |= closure->before[c][a];
            }
}

/* Views that an instruction reads, then those that it writes. */
static int views_of(const struct role *role, const struct instruction *in, int views[16],
                    bool writes[16])
{
    int count = 0;
    if (in->kind == INSTRUCTION_COMPUTE)
        for (; count < in->compute.read_count + in->compute.write_count; count++) {
            views[count] = in->compute.view_first + count;
            writes[count] = count >= in->compute.read_count;
        }
    if (in->kind == INSTRUCTION_COLLECT)
        for (int i = 0; i < in->collect.part_count; i++) { /* all in place here */
            views[count] = role->parts[in->collect.part_first + i].receive;
            writes[count++] = true;
        }
    return count;
}

/* The two touch the same bytes of a buffer and one of them writes. */
static bool conflict(const struct role *role, int a, int b)
{
    int x[16], y[16];
    bool xw[16], yw[16];
    int xs = views_of(role, &role->lists[0].instructions[a], x, xw);
    int ys = views_of(role, &role->lists[0].instructions[b], y, yw);
    for (int i = 0; i < xs; i++)
        for (int j = 0; j < ys; j++) {
            const struct view *p = &role->views[x[i]], *q = &role->views[y[j]];
            if ((xw[i] || yw[j]) && p->buffer == q->buffer && p->offset < view_end(q) &&
                q->offset < view_end(p))
                return true;
        }
    return false;
}

static bool has_race(const struct role *role, const struct closure *closure)
{
    for (int b = 0; b < closure->count; b++)
        for (int a = 0; a < b; a++)
            if (!closure->before[a][b] && conflict(role, a, b))
                return true;
    return false;
}

static bool uses(const struct role *role, int instruction, int buffer)
{
    int views[16];
    bool writes[16];
    int count = views_of(role, &role->lists[0].instructions[instruction], views, writes);
    for (int i = 0; i < count; i++)
        if (role->views[views[i]].buffer == buffer)
            return true;
    return false;
}

/* Every use of `a` before every use of `b`. */
static bool all_before(const struct role *role, const struct closure *closure, int a, int b)
{
    for (int i = 0; i < closure->count; i++)
        for (int j = 0; j < closure->count; j++)
            if (uses(role, i, a) && uses(role, j, b) && !closure->before[i][j])
                return false;
    return true;
}

/* Orders the instruction behind what it conflicts with, by joins where there is no path yet. */
static void add_ordered(struct plan *plan, struct writer *w, int stream, const struct op *op,
                        const struct view *reads, int read_count, struct view write,
                        struct closure *closure)
{
    struct role *role = &plan->roles[0];
    bool joined[STREAMS] = {false};
    write_compute(w, stream, plan_text(plan, "op %d", role->lists[0].count), op, reads, read_count,
                  &write, 1);
    close_over(role, closure);
    int last = closure->count - 1;
    struct instruction moved = role->lists[0].instructions[last];
    for (int a = 0; a < last; a++)
        if (!closure->before[a][last] && conflict(role, a, last))
            joined[role->lists[0].instructions[a].stream] = true;
    role->lists[0].count--;
    for (int s = 0; s < STREAMS; s++)
        if (joined[s])
            write_join(w, s, stream, plan_text(plan, "join %d", role->event_count));
    *ARRAY_ADD(role->lists[0].instructions, role->lists[0].count, role->lists[0].capacity) = moved;
}

/* Buffers differ in size; ops use as much as the smallest has. */
static struct view window(const struct plan *plan, int buffer)
{
    return view_narrow(plans_view(plan, buffer), 0, 0, ELEMENTS);
}

/* A collective on two streams, behind everything. */
static void add_collective(struct plan *plan, struct writer *w, int streams)
{
    int group = plan_add_group(plan, "local", 0, 0, NULL);
    struct view x = window(plan, 0), y = window(plan, 1);
    struct collect_part parts[] = {{0, &x, &x}, {1, &y, &y}};
    for (int s = 1; s < streams; s++)
        write_join(w, s, 0, plan_text(plan, "join %d", plan->roles[0].event_count));
    write_collect(w, plan_text(plan, "collect %d", plan->roles[0].lists[0].count),
                  COLLECTIVE_ALL_REDUCE, REDUCE_SUM, group, 0, 0, parts, 2);
}

/* An op on whole buffers or on one half of each; the first that touches a buffer fills it. Buffers
 * below `written` hold something. */
static void add_operation(struct plan *plan, struct writer *w, struct random *random, int stream,
                          int *written, struct closure *closure)
{
    int to = pick(random, *written < BUFFERS ? *written + 1 : BUFFERS);
    if (*written < BUFFERS && pick(random, 3) == 0)
        to = *written;
    int half = to == *written ? 2 : pick(random, 3); /* 2: the whole */
    int read_count = *written == 0 ? 0 : pick(random, 3);
    struct op op = {.kind = read_count == 0 ? OP_zero : read_count == 1 ? OP_relu : OP_add};
    struct view operand[3];
    for (int k = 0; k <= read_count; k++) {
        operand[k] = window(plan, k == read_count ? to : pick(random, *written));
        if (half < 2)
            operand[k] = view_narrow(operand[k], 0, half * ELEMENTS / 2, ELEMENTS / 2);
    }
    if (to == *written)
        ++*written;
    add_ordered(plan, w, stream, &op, operand, read_count, operand[read_count], closure);
}

static struct plan *random_plan(struct random *random, struct closure *closure)
{
    int streams = 2 + pick(random, STREAMS - 1), written = 0;
    struct plan *plan = plans_new(1, streams);
    struct writer w = plans_writer(plan, 0);
    for (int i = 0; i < BUFFERS; i++)
        plans_buffer(plan, 0, plan_text(plan, "buffer %d", i), ELEMENTS * (1 + i % 3),
                     i < TRANSIENT ? LIFETIME_TRANSIENT : LIFETIME_PERSISTENT);
    for (int i = 8 + pick(random, 22); i > 0; i--) {
        int stream = pick(random, streams), choice = pick(random, 12);
        if (choice == 0 && written >= 2) {
            add_collective(plan, &w, streams);
            continue;
        }
        if (choice == 1) {
            int event = role_add_event(plan, 0, "sync");
            write_record(&w, stream, event);
            write_sync(&w, event);
        }
        if (choice == 2) /* maybe needless */
            write_join(&w, stream, (stream + 1) % streams, plan_text(plan, "extra %d", i));
        add_operation(plan, &w, random, stream, &written, closure);
    }
    return plan;
}

static void expect_order(const struct plan *plan, const struct closure *closure)
{
    struct order *order;
    bool same = true;
    CU_ASSERT_EQUAL_FATAL(order_new(plan, 0, 0, &order), RH_OK);
    for (int a = 0; a < closure->count; a++)
        for (int b = 0; b < closure->count; b++)
            same = same && order_before(order, a, b) == closure->before[a][b];
    CU_ASSERT_TRUE(same);
    order_free(order);
}

static bool overlap(const struct buffer *a, const struct buffer *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool is_used(const struct role *role, int buffer)
{
    for (int i = 0; i < role->lists[0].count; i++)
        if (uses(role, i, buffer))
            return true;
    return false;
}

/* Buffers that share bytes are used one wholly before the other. */
static bool placement_is_right(const struct role *role, const struct closure *closure)
{
    for (int a = 0; a < TRANSIENT; a++)
        for (int b = 0; b < a; b++)
            if (is_used(role, a) && is_used(role, b) &&
                overlap(&role->buffers[a], &role->buffers[b]) && !all_before(role, closure, a, b) &&
                !all_before(role, closure, b, a))
                return false;
    return true;
}

/* Returns how many of the waits were needed; each is dropped in turn and put back. */
static int drop_waits(struct plan *plan, struct closure *closure, int number)
{
    struct list *list = &plan->roles[0].lists[0];
    int needed = 0;
    for (int i = 0; i < list->count; i++) {
        struct instruction kept = list->instructions[i];
        if (kept.kind != INSTRUCTION_WAIT)
            continue;
        list->instructions[i].kind = INSTRUCTION_BEGIN;
        close_over(&plan->roles[0], closure);
        bool fault = has_race(&plan->roles[0], closure);
        enum rh_status status = plan_check(plan);
        CU_ASSERT_EQUAL(status, fault ? RH_INVALID : RH_OK);
        if (status != (fault ? RH_INVALID : RH_OK))
            fprintf(stderr, "    seed %d, plan %d, wait %d dropped: %s\n", SEED, number, i,
                    status == RH_OK ? "not found" : fail_message());
        if (fault)
            UNIT_ASSERT_CONTAINS(fail_message(), "race in list 'steady'");
        needed += fault;
        list->instructions[i] = kept;
    }
    close_over(&plan->roles[0], closure);
    CU_ASSERT_EQUAL(plan_check(plan), RH_OK);
    return needed;
}

/* Puts one buffer on another that is still in use, each pair in turn; returns how many. */
static int shift_buffers(struct plan *plan, const struct closure *closure, int number)
{
    struct role *role = &plan->roles[0];
    int shifted = 0;
    for (int a = 0; a < TRANSIENT; a++)
        for (int b = 0; b < TRANSIENT; b++) {
            if (a == b || !is_used(role, a) || !is_used(role, b) ||
                all_before(role, closure, a, b) || all_before(role, closure, b, a))
                continue;
            size_t kept = role->buffers[b].offset;
            role->buffers[b].offset = role->buffers[a].offset;
            enum rh_status status = plan_check_races(plan, 0, 0);
            CU_ASSERT_EQUAL(status, RH_INVALID);
            if (status != RH_INVALID)
                fprintf(stderr, "    seed %d, plan %d: %d on %d not found\n", SEED, number, b, a);
            role->buffers[b].offset = kept;
            shifted++;
        }
    CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_OK);
    return shifted;
}

static void test_one_role(void)
{
    struct random random = {SEED};
    struct closure *closure = memory_new(sizeof *closure);
    int needed = 0, shifted = 0, waits_in = 0, shifts_in = 0;
    for (int n = 0; n < PLANS; n++) {
        struct plan *plan = random_plan(&random, closure);
        close_over(&plan->roles[0], closure);
        CU_ASSERT_FALSE(has_race(&plan->roles[0], closure));
        enum rh_status status = plan_check(plan);
        CU_ASSERT_EQUAL(status, RH_OK);
        if (status != RH_OK)
            fprintf(stderr, "    seed %d, plan %d refused: %s\n", SEED, n, fail_message());
        expect_order(plan, closure);
        CU_ASSERT_TRUE(placement_is_right(&plan->roles[0], closure));
        int dropped = drop_waits(plan, closure, n), moved = shift_buffers(plan, closure, n);
        needed += dropped;
        shifted += moved;
        waits_in += dropped > 0;
        shifts_in += moved > 0;
        plan_free(plan);
    }
    printf("    %d plans: %d needed waits dropped in %d plans, %d buffers shifted in %d plans\n",
           PLANS, needed, waits_in, shifted, shifts_in);
    CU_ASSERT_TRUE(waits_in > PLANS / 2);
    CU_ASSERT_TRUE(shifts_in > PLANS / 2);
    free(closure);
}

static const struct unit_test tests[] = {
    {"waits and bytes", test_one_role, NULL},
};

int main(void)
{
    return UNIT_MAIN("plan_property", tests);
}
