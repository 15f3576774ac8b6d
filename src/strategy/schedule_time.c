/* A schedule as soon as possible: bubbles and memory without a model. */
#include <stdlib.h>

#include "base/memory.h"
#include "strategy/schedule.h"

double schedule_seconds(const struct schedule_times *times, const struct action *a)
{
    bool whole = times->first_stage_whole && a->stage == 0;
    switch (a->kind) {
    case ACTION_FORWARD: return times->forward;
    case ACTION_BACKWARD: return times->input + times->weight;
    case ACTION_INPUT: return whole ? 0 : times->input;
    default: return times->weight + (whole ? times->input : 0);
    }
}

/* Ends per (stage, microbatch): of F, and of B or I; -1: not yet. */
struct ends {
    const struct schedule_table *table;
    double *forward, *backward;
};

static double *end_of(const struct ends *e, double *ends, int stage, int microbatch)
{
    return &ends[(size_t)stage * (size_t)e->table->microbatches + (size_t)microbatch];
}

/* When what an action needs from another stage is there; < 0: not yet. */
static double ready_at(const struct ends *e, const struct action *a)
{
    if (a->kind == ACTION_FORWARD && a->stage > 0)
        return *end_of(e, e->forward, a->stage - 1, a->microbatch);
    bool backward = a->kind == ACTION_BACKWARD || a->kind == ACTION_INPUT;
    if (backward && a->stage + 1 < e->table->stages)
        return *end_of(e, e->backward, a->stage + 1, a->microbatch);
    return 0;
}

static void count_live(const struct schedule_table *t, int rank, struct schedule_result *result)
{
    int input = 0;
    int weight = 0;
    for (int i = 0; i < t->counts[rank]; i++) {
        enum action_kind kind = t->actions[rank][i].kind;
        input += kind == ACTION_FORWARD;
        weight += kind == ACTION_FORWARD;
        result->live_input[rank] =
            input > result->live_input[rank] ? input : result->live_input[rank];
        result->live_weight[rank] =
            weight > result->live_weight[rank] ? weight : result->live_weight[rank];
        input -= kind == ACTION_BACKWARD || kind == ACTION_INPUT;
        weight -= kind == ACTION_BACKWARD || kind == ACTION_WEIGHT;
    }
}

static void new_result(const struct schedule_table *t, struct schedule_result *result)
{
    size_t ranks = (size_t)t->ranks;
    *result = (struct schedule_result){.busy = memory_new_array(ranks, sizeof(double)),
                                       .live_input = memory_new_array(ranks, sizeof(int)),
                                       .live_weight = memory_new_array(ranks, sizeof(int)),
                                       .starts = memory_new_array(ranks, sizeof(double *))};
    for (int r = 0; r < t->ranks; r++)
        result->starts[r] = memory_new_array((size_t)t->counts[r], sizeof(double));
}

void schedule_run(const struct schedule_table *t, const struct schedule_times *times,
                  struct schedule_result *result)
{
    size_t cells = (size_t)t->stages * (size_t)t->microbatches;
    struct ends e = {t, memory_new_array(cells, sizeof(double)),
                     memory_new_array(cells, sizeof(double))};
    int *at = memory_new_array((size_t)t->ranks, sizeof *at);
    double *free_at = memory_new_array((size_t)t->ranks, sizeof *free_at);
    new_result(t, result);
    for (size_t i = 0; i < cells; i++)
        e.forward[i] = e.backward[i] = -1;
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < t->ranks; r++)
            for (; at[r] < t->counts[r]; at[r]++) {
                const struct action *a = &t->actions[r][at[r]];
                double ready = ready_at(&e, a);
                if (ready < 0)
                    break;
                double start = ready > free_at[r] ? ready : free_at[r];
                double end = start + schedule_seconds(times, a);
                result->starts[r][at[r]] = start;
                result->busy[r] += end - start;
                result->total = end > result->total ? end : result->total;
                free_at[r] = end;
                if (a->kind == ACTION_FORWARD)
                    *end_of(&e, e.forward, a->stage, a->microbatch) = end;
                else if (a->kind != ACTION_WEIGHT)
                    *end_of(&e, e.backward, a->stage, a->microbatch) = end;
                moved = true;
            }
    }
    for (int r = 0; r < t->ranks; r++)
        count_live(t, r, result);
    free(e.forward);
    free(e.backward);
    free(at);
    free(free_at);
}

void schedule_result_free(const struct schedule_table *t, struct schedule_result *result)
{
    for (int r = 0; result->starts && r < t->ranks; r++)
        free(result->starts[r]);
    free(result->starts);
    free(result->busy);
    free(result->live_input);
    free(result->live_weight);
    *result = (struct schedule_result){0};
}
