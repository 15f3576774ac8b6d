/* In every strategy and every schedule, each wait is forgotten in turn: where that lets two
 * instructions touch the same bytes unordered, the checks must refuse the plan, and only there. The
 * judge is a transitive closure of its own over buffers, before any memory is shared. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "experiment/experiment.h"
#include "plan/access.h"
#include "plan/check.h"
#include "tests/unit/unit.h"

static const char *const ways[] = {
    "\"devices\":1,\"strategy\":\"single\"",
    "\"devices\":3,\"strategy\":\"data_parallel\"",
    "\"devices\":2,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"bucket_cap_mb\":0.0002}}",
    "\"devices\":2,\"strategy\":\"model_parallel\"",
    "\"devices\":4,\"mesh\":{\"dp\":2},\"strategy\":\"model_parallel\"",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"split_size\":4}",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"gpipe\",\"microbatches\":3}",
    "\"devices\":3,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"1f1b\",\"microbatches\":3}",
    "\"devices\":3,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"1f1b\",\"microbatches\":4,"
    "\"recompute\":true}",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"interleaved_1f1b\","
    "\"microbatches\":4}",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"looped_bfs\","
    "\"microbatches\":"
    "2}",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"zb_h1\",\"microbatches\":4}",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"interleaved_zb\","
    "\"microbatches\":2}",
    "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"zbv\",\"microbatches\":3}",
    "\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":{\"type\":\"pipeline\"}",
};

static struct experiment *open_way(struct platform *platform, const char *way)
{
    struct experiment *experiment = NULL;
    cJSON *json = NULL;
    char *text = text_format(
        "{\"name\":\"f\",\"model\":{\"name\":\"mlp\",\"sizes\":[6,8,7,8,6,7,5]},\"data\":{"
        "\"batch\":12},"
        "\"train\":{\"steps\":2,\"clip_grad_norm\":1,\"loss_scale\":8},\"cluster\":\"dgx-1v\",%s}",
        way);
    CU_ASSERT_EQUAL_FATAL(json_read_text("test", text, &json), RH_OK);
    CU_ASSERT_EQUAL_FATAL(experiment_open(platform, json, &experiment), RH_OK);
    free(text);
    return experiment;
}

/* ---- the judge ---- */
struct closure {
    int count, words;
    uint64_t *before; /* row b, bit a: there is a path from a to b */
};

static bool is_before(const struct closure *c, int a, int b)
{
    return c->before[b * c->words + a / 64] >> (a % 64) & 1;
}

static void add_path(struct closure *c, int a, int b)
{
    for (int w = 0; w < c->words; w++)
        c->before[b * c->words + w] |= c->before[a * c->words + w];
    c->before[b * c->words + a / 64] |= UINT64_C(1) << (a % 64);
}

static void close_over(const struct role *role, const struct list *list, struct closure *c)
{
    c->count = list->count;
    c->words = list->count / 64 + 1;
    c->before = memory_new_array((size_t)c->count * (size_t)c->words, sizeof(uint64_t));
    int *last = memory_new_array((size_t)role->stream_count, sizeof *last);
    int *recorded = memory_new_array((size_t)role->event_count + 1, sizeof *recorded);
    memset(last, -1, (size_t)role->stream_count * sizeof *last);
    memset(recorded, -1, (size_t)role->event_count * sizeof *recorded);
    for (int b = 0; b < list->count; b++) {
        const struct instruction *in = &list->instructions[b];
        for (int i = 0; i < access_stream_count(in); i++) {
            int *before = &last[access_stream(role, in, i)];
            if (*before >= 0 && *before != b)
                add_path(c, *before, b);
            *before = b;
        }
        if (in->kind == INSTRUCTION_WAIT && recorded[in->event] >= 0)
            add_path(c, recorded[in->event], b);
        if (in->kind == INSTRUCTION_RECORD)
            recorded[in->event] = b;
    }
    free(last);
    free(recorded);
}

static bool overlap(const struct view *a, const struct view *b)
{
    return a->buffer == b->buffer && a->offset < view_end(b) && b->offset < view_end(a);
}

static bool conflict(const struct role *role, const struct instruction *a,
                     const struct instruction *b)
{
    for (int i = 0; i < access_count(a); i++)
        for (int k = 0; k < access_count(b); k++) {
            struct access x = access_at(role, a, i);
            struct access y = access_at(role, b, k);
            if (x.view >= 0 && y.view >= 0 && (x.write || y.write) &&
                overlap(&role->views[x.view], &role->views[y.view]))
                return true;
        }
    return false;
}

static bool has_race(const struct role *role, const struct list *list)
{
    struct closure c;
    bool found = false;
    close_over(role, list, &c);
    for (int b = 0; b < list->count && !found; b++)
        for (int a = 0; a < b && !found; a++)
            found = !is_before(&c, a, b) &&
                    conflict(role, &list->instructions[a], &list->instructions[b]);
    free(c.before);
    return found;
}

/* ---- forgetting ---- */
struct tally {
    int waits, needed, found, missed, wrong;
};

/* The wait at `at` of a fresh plan of the experiment. */
static void forget(const struct experiment *experiment, int role, int list, int at,
                   struct tally *tally)
{
    struct strategy_plan plan;
    CU_ASSERT_EQUAL_FATAL(experiment_plan(experiment, &plan), RH_OK);
    struct list *l = &plan.plan->roles[role].lists[list];
    memmove(&l->instructions[at], &l->instructions[at + 1],
            (size_t)(l->count - at - 1) * sizeof *l->instructions);
    l->count--;
    bool expected = has_race(&plan.plan->roles[role], l);
    bool found = plan_check(plan.plan) != RH_OK;
    tally->waits++;
    tally->needed += expected;
    tally->found += expected && found;
    tally->missed += expected && !found;
    tally->wrong += !expected && found;
    strategy_plan_free(&plan);
}

static void forget_each(const struct experiment *experiment, struct tally *tally)
{
    struct strategy_plan plan;
    CU_ASSERT_EQUAL_FATAL(experiment_plan(experiment, &plan), RH_OK);
    for (int r = 0; r < plan.plan->role_count; r++)
        for (int l = 0; l < plan.plan->roles[r].list_count; l++) {
            const struct list *list = &plan.plan->roles[r].lists[l];
            CU_ASSERT_FALSE(has_race(&plan.plan->roles[r], list));
            for (int i = 0; i < list->count; i++)
                if (list->instructions[i].kind == INSTRUCTION_WAIT)
                    forget(experiment, r, l, i, tally);
        }
    strategy_plan_free(&plan);
}

static void each_wait_of_each_strategy(void)
{
    struct platform *platform = NULL;
    CU_ASSERT_EQUAL_FATAL(platform_open(&platform), RH_OK);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        struct tally tally = {0};
        struct experiment *experiment = open_way(platform, ways[w]);
        forget_each(experiment, &tally);
        printf("    %s: %d waits, %d needed, %d found\n", ways[w], tally.waits, tally.needed,
               tally.found);
        CU_ASSERT_EQUAL(tally.missed, 0);
        CU_ASSERT_EQUAL(tally.wrong, 0);
        CU_ASSERT_TRUE(w == 0 || tally.needed > 0); /* one stream needs no wait */
        experiment_close(experiment);
    }
    platform_close(platform);
}

static const struct unit_test tests[] = {
    {"each wait of each strategy and schedule", each_wait_of_each_strategy, NULL},
};

int main(void)
{
    return UNIT_MAIN("forgotten", tests);
}
