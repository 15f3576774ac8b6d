/* Planned spans, which the CUDA backend measures, are those that the simulator draws: the same
 * names on the same tracks, as often. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/spans.h"
#include "base/memory.h"
#include "experiment/experiment.h"

struct lines {
    char **items;
    int count, capacity;
};

static void add_line(struct lines *lines, const struct span *s, int step)
{
    *ARRAY_ADD(lines->items, lines->count, lines->capacity) =
        text_format("device %d '%s' %s '%s' %s, step %d, microbatch %d", s->device, s->stream,
                    s->mark            ? "range"
                    : s->communication ? "communication"
                                       : "compute",
                    s->name, work_name(s->work), step, s->microbatch);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_lines(struct lines *lines)
{
    qsort(lines->items, (size_t)lines->count, sizeof *lines->items, compare_lines);
}

static void free_lines(struct lines *lines)
{
    for (int i = 0; i < lines->count; i++)
        free(lines->items[i]);
    free(lines->items);
}

static const char *needs_simgrid(void)
{
    char version[128];
    const struct backend *backend = NULL;
    bool is_there = backend_find("simgrid", &backend) == RH_OK && backend->probe(version) == RH_OK;
    return is_there ? NULL : "the simulator was not built";
}

static void plan_lines(const struct experiment *e, const struct strategy_plan *built,
                       struct lines *lines)
{
    const struct backend_options options = {
        .cluster = e->cluster, .devices = e->devices, .device_count = e->device_count};
    const struct run_order *order = &built->order;
    for (int step = 0, at = 0; step < order->steps;
         at = at + 1 < order->count ? at + 1 : order->loop_first)
        for (int k = 0; k < order->entries[at].repeat; k++) {
            struct planned_spans spans;
            CU_ASSERT_EQUAL_FATAL(
                spans_plan(built->plan, &options, order->entries[at].list, &spans), RH_OK);
            for (int i = 0; i < spans.count; i++)
                add_line(lines, &spans.items[i].span, step);
            spans_free(&spans);
            step += order->entries[at].ends_step;
        }
}

static void compare(struct lines *planned, struct lines *drawn, const char *setting)
{
    int wrong = 0;
    sort_lines(planned);
    sort_lines(drawn);
    for (int i = 0; i < planned->count && i < drawn->count && !wrong; i++)
        if (strcmp(planned->items[i], drawn->items[i]) != 0) {
            fprintf(stderr, "    %s: %s is planned, %s is drawn\n", setting, planned->items[i],
                    drawn->items[i]);
            wrong++;
        }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(planned->count > 10);
    CU_ASSERT_EQUAL(planned->count, drawn->count);
}

static void check(struct platform *platform, const char *file, const char *const settings[4])
{
    cJSON *json = NULL;
    struct experiment *experiment = NULL;
    struct outcome outcome;
    struct lines planned = {0}, drawn = {0};
    int count = 0;
    while (count < 4 && settings[count])
        count++;
    const struct run_options options = {.trace = true, .no_fold = true};
    CU_ASSERT_EQUAL_FATAL(experiment_read(unit_source(file), settings, count, &json), RH_OK);
    CU_ASSERT_EQUAL_FATAL(experiment_open(platform, json, &experiment), RH_OK);
    CU_ASSERT_EQUAL_FATAL(experiment_run(experiment, &options, &outcome), RH_OK);
    plan_lines(experiment, &outcome.plan, &planned);
    for (int i = 0; i < outcome.result.span_count; i++)
        add_line(&drawn, &outcome.result.spans[i], outcome.result.spans[i].step);
    compare(&planned, &drawn, settings[0]);
    free_lines(&planned);
    free_lines(&drawn);
    outcome_free(&outcome);
    experiment_close(experiment);
}

static void test_as_simulated(void)
{
    static const struct {
        const char *file, *settings[4];
    } cases[] = {
        {"experiments/seeds/toy-ddp.json", {"strategy.type=single"}},
        {"experiments/seeds/toy-ddp.json", {"strategy.type=data_parallel", "launch=graph"}},
        {"experiments/seeds/toy-ddp.json", {"strategy.type=ddp", "train.accumulate=2"}},
        {"experiments/seeds/toy-ddp.json", {"strategy.type=model_parallel"}},
        {"experiments/seeds/toy-ddp.json", {"strategy.type=pipeline"}},
        {"experiments/seeds/toy-ddp.json",
         {"strategy.type=pipeline", "strategy.pipeline.schedule=1f1b"}},
        {"experiments/seeds/embedding-on-host.json", {"launch=eager"}},
        {"experiments/resnet50-8xv100.json",
         {"strategy.type=pipeline", "devices=4", "strategy.pipeline.microbatches=4",
          "mesh={\"dp\":2,\"pp\":2}"}},
    };
    struct platform *platform = NULL;
    CU_ASSERT_EQUAL_FATAL(platform_open(&platform), RH_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(platform, cases[i].file, cases[i].settings);
    platform_close(platform);
}

/* Ranges of one stream nest, those of two do not disturb each other. */
static void test_walk(void)
{
    struct planned_span items[] = {{.worker = 0, .stream = 0},
                                   {.worker = 0, .stream = 0},
                                   {.worker = 1, .stream = 0},
                                   {.worker = 0, .stream = 0}};
    const struct planned_spans spans = {items, 4, 4};
    struct span_walk walk = {0};
    for (int again = 0; again < 2; again++) {
        span_walk_start(&walk, &spans);
        CU_ASSERT_EQUAL(span_walk_end(&walk, 0, 0), -1);
        CU_ASSERT_EQUAL(span_walk_begin(&walk), 0);
        CU_ASSERT_EQUAL(span_walk_begin(&walk), 1);
        CU_ASSERT_EQUAL(span_walk_begin(&walk), 2);
        CU_ASSERT_EQUAL(span_walk_end(&walk, 0, 0), 1);
        CU_ASSERT_EQUAL(span_walk_take(&walk, 1), 3);
        CU_ASSERT_EQUAL(span_walk_end(&walk, 0, 0), 0);
        CU_ASSERT_EQUAL(span_walk_end(&walk, 0, 0), -1);
        CU_ASSERT_EQUAL(span_walk_end(&walk, 1, 0), 2);
    }
    span_walk_free(&walk);
}

static const struct unit_test tests[] = {
    {"as simulated", test_as_simulated, needs_simgrid},
    {"walk", test_walk, NULL},
};

int main(void)
{
    return UNIT_MAIN("spans", tests);
}
