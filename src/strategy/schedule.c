#include "strategy/schedule.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

/* Where the rules write the actions of one rank. */
struct row {
    const struct schedule_table *table;
    int rank;
    struct action *actions;
    int count;
};

static void put(struct row *row, int stage, enum action_kind kind, int microbatch)
{
    row->actions[row->count++] = (struct action){stage, kind, microbatch};
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

static void gpipe(struct row *row)
{
    int microbatches = row->table->microbatches;
    for (int m = 0; m < microbatches; m++)
        put(row, row->rank, ACTION_FORWARD, m);
    for (int m = 0; m < microbatches; m++)
        put(row, row->rank, ACTION_BACKWARD, m);
}

static void one_forward_one_backward(struct row *row)
{
    int microbatches = row->table->microbatches;
    int warm_up = least(microbatches, row->table->ranks - row->rank);
    int forward = 0;
    int backward = 0;
    while (forward < warm_up)
        put(row, row->rank, ACTION_FORWARD, forward++);
    while (backward < microbatches) {
        put(row, row->rank, ACTION_BACKWARD, backward++);
        if (forward < microbatches)
            put(row, row->rank, ACTION_FORWARD, forward++);
    }
}

/* Microbatches go through the rank's stages in rounds of k. */
struct loop {
    int stages, k;           /* of this rank; microbatches of a round */
    int *forward, *backward; /* next microbatch, per stage of this rank */
};

static int microbatches_of_round(const struct schedule_table *t)
{
    int rounds = most(1, t->microbatches / t->ranks);
    return t->microbatches / rounds;
}

static void loop_new(struct loop *loop, const struct schedule_table *t)
{
    *loop = (struct loop){.stages = t->stages / t->ranks, .k = microbatches_of_round(t)};
    loop->forward = memory_new_array((size_t)loop->stages, sizeof(int));
    loop->backward = memory_new_array((size_t)loop->stages, sizeof(int));
}

static void loop_free(struct loop *loop)
{
    free(loop->forward);
    free(loop->backward);
}

static void loop_forward(const struct loop *loop, struct row *row, int number)
{
    int local = number / loop->k % loop->stages;
    put(row, row->rank + local * row->table->ranks, ACTION_FORWARD, loop->forward[local]++);
}

static void loop_backward(const struct loop *loop, struct row *row, enum action_kind kind,
                          int number)
{
    int local = loop->stages - 1 - number / loop->k % loop->stages;
    put(row, row->rank + local * row->table->ranks, kind, loop->backward[local]++);
}

static void interleaved(struct row *row)
{
    const struct schedule_table *t = row->table;
    struct loop loop;
    loop_new(&loop, t);
    int all = loop.stages * t->microbatches;
    int warm_up = least(all, (loop.stages - 1) * loop.k + 2 * (t->ranks - 1 - row->rank));
    int backward = 0;
    for (int i = 0; i < warm_up; i++)
        loop_forward(&loop, row, i);
    for (int i = warm_up; i < all; i++) {
        loop_forward(&loop, row, i);
        loop_backward(&loop, row, ACTION_BACKWARD, backward++);
    }
    while (backward < all)
        loop_backward(&loop, row, ACTION_BACKWARD, backward++);
    loop_free(&loop);
}

/* Weights' gradients follow the inputs', in the same order, `rank` of them behind. */
static void interleaved_zero_bubble(struct row *row)
{
    const struct schedule_table *t = row->table;
    struct loop loop;
    struct loop weights;
    loop_new(&loop, t);
    loop_new(&weights, t);
    int all = loop.stages * t->microbatches;
    int warm_up = least(all, (loop.stages - 1) * loop.k + t->ranks - 1 - row->rank);
    int weight = 0;
    for (int i = 0; i < warm_up; i++)
        loop_forward(&loop, row, i);
    for (int input = 0; input < all; input++) {
        if (warm_up + input < all)
            loop_forward(&loop, row, warm_up + input);
        loop_backward(&loop, row, ACTION_INPUT, input);
        if (input >= row->rank)
            loop_backward(&weights, row, ACTION_WEIGHT, weight++);
    }
    while (weight < all)
        loop_backward(&weights, row, ACTION_WEIGHT, weight++);
    loop_free(&loop);
    loop_free(&weights);
}

static void looped_breadth_first(struct row *row)
{
    const struct schedule_table *t = row->table;
    for (int stage = row->rank; stage < t->stages; stage += t->ranks)
        for (int m = 0; m < t->microbatches; m++)
            put(row, stage, ACTION_FORWARD, m);
    for (int stage = t->stages - t->ranks + row->rank; stage >= 0; stage -= t->ranks)
        for (int m = t->microbatches - 1; m >= 0; m--)
            put(row, stage, ACTION_BACKWARD, m);
}

/* The two stages of a rank in the V, and how far each kind of action has come. */
struct v {
    struct row *row;
    int stage[2];
    int next[2][ACTION_WEIGHT + 1];
};

static void v_put(struct v *v, int which, enum action_kind kind)
{
    int microbatch = v->next[which][kind]++;
    if (microbatch < v->row->table->microbatches) /* the rule is for more, and is cut */
        put(v->row, v->stage[which], kind, microbatch);
}

static void v_pair(struct v *v, int which)
{
    v_put(v, which, ACTION_INPUT);
    v_put(v, which, ACTION_WEIGHT);
}

static void zero_bubble_v(struct row *row)
{
    int ranks = row->table->ranks;
    int rank = row->rank;
    int all = most(2 * ranks - 1, row->table->microbatches);
    struct v v = {.row = row, .stage = {rank, 2 * ranks - 1 - rank}};
    for (int i = 0; i < 2 * (ranks - rank) - 1; i++)
        v_put(&v, 0, ACTION_FORWARD);
    for (int i = 0; i < rank; i++) {
        v_put(&v, 1, ACTION_FORWARD);
        v_put(&v, 0, ACTION_FORWARD);
    }
    for (int i = 0; i < ranks - rank; i++) {
        v_put(&v, 1, ACTION_FORWARD);
        v_pair(&v, 1);
    }
    while (v.next[1][ACTION_FORWARD] < v.next[0][ACTION_FORWARD] ||
           v.next[0][ACTION_FORWARD] < all) {
        if (v.next[0][ACTION_FORWARD] < all)
            v_put(&v, 0, ACTION_FORWARD);
        v_pair(&v, 0);
        v_put(&v, 1, ACTION_FORWARD);
        v_pair(&v, 1);
    }
    for (int i = 0; i < rank; i++) {
        v_put(&v, 0, ACTION_INPUT);
        v_put(&v, 1, ACTION_INPUT);
    }
    for (int i = 0; i < ranks - rank; i++)
        v_pair(&v, 0);
    for (int which = 1; which >= 0; which--)
        while (v.next[which][ACTION_WEIGHT] < all)
            v_put(&v, which, ACTION_WEIGHT);
}

struct schedule {
    const char *name, *torch_name, *description;
    void (*write)(struct row *row);
    int stages_per_rank; /* the usual number */
    bool any_stages;     /* and any other */
    bool v;              /* stages go 0 … p-1 and back */
    bool full;           /* wants a microbatch for each rank */
    bool rounds;         /* wants whole rounds of microbatches */
};

static const struct schedule schedules[] = {
    {"gpipe", "gpipe", "all forwards, then all backwards", gpipe, 1, false, false, false, false},
    {"1f1b", "1f1b", "a backward as early as possible, in turn with forwards",
     one_forward_one_backward, 1, false, false, true, false},
    {"interleaved_1f1b", "interleaved1f1b", "1f1b with several stages a rank", interleaved, 2, true,
     false, false, true},
    {"looped_bfs", "loopedbfs", "several stages a rank, breadth first", looped_breadth_first, 2,
     true, false, false, false},
    {"zb_h1", "zbh1", "1f1b with the weights' gradients in the bubbles", interleaved_zero_bubble, 1,
     false, false, false, true},
    {"interleaved_zb", "interleavedzerobubble", "zb_h1 with several stages a rank",
     interleaved_zero_bubble, 2, true, false, false, true},
    {"zbv", "zbvzerobubble", "two stages a rank in a V, no bubble but the start", zero_bubble_v, 2,
     false, true, false, false},
};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

const char *schedule_name(int index, const char **description)
{
    if (index < 0 || index >= SCHEDULES)
        return NULL;
    *description = schedules[index].description;
    return schedules[index].name;
}

/* Letters and digits alone, in lower case. */
static void plain(const char *name, char out[32])
{
    int length = 0;
    for (; *name && length < 31; name++)
        if (isalnum((unsigned char)*name))
            out[length++] = (char)tolower((unsigned char)*name);
    out[length] = '\0';
}

static enum rh_status find(const char *name, const char *where, const struct schedule **schedule)
{
    const char *names[SCHEDULES];
    char wanted[32];
    char known[32];
    int index = 0;
    plain(name, wanted);
    for (int i = 0; i < SCHEDULES; i++) {
        names[i] = schedules[i].name;
        plain(names[i], known);
        *schedule = &schedules[i];
        if (strcmp(wanted, known) == 0 || strcmp(wanted, schedules[i].torch_name) == 0)
            return RH_OK;
    }
    enum rh_status status = json_choice("schedule", name, names, SCHEDULES, &index);
    return status == RH_OK ? RH_OK : fail_within(status, "%s", where);
}

static enum rh_status check_shape(const struct schedule *s, const char *where, int ranks,
                                  int stages, int microbatches)
{
    if (stages % ranks != 0 || stages < ranks ||
        (!s->any_stages && stages != ranks * s->stages_per_rank))
        return fail(RH_INVALID, "%s: %s wants %s%d stages on %d ranks; there are %d", where,
                    s->name, s->any_stages ? "a multiple of " : "",
                    s->any_stages ? ranks : ranks * s->stages_per_rank, ranks, stages);
    if (s->full && microbatches < ranks)
        return fail(RH_INVALID, "%s: too few microbatches for %s: %d on %d stages", where, s->name,
                    microbatches, ranks);
    int rounds = most(1, microbatches / ranks);
    if (s->rounds && microbatches % rounds != 0)
        return fail(RH_INVALID,
                    "%s: %s goes in %d rounds over %d ranks: %d microbatches do not divide", where,
                    s->name, rounds, ranks, microbatches);
    return RH_OK;
}

enum rh_status schedule_make(const char *name, const char *where, int ranks, int stages,
                             int microbatches, struct schedule_table *table)
{
    const struct schedule *schedule = NULL;
    RETURN_IF_FAILED(find(name, where, &schedule));
    if (stages == 0)
        stages = ranks * schedule->stages_per_rank;
    RETURN_IF_FAILED(check_shape(schedule, where, ranks, stages, microbatches));
    *table = (struct schedule_table){ranks, stages, microbatches, NULL, NULL, NULL};
    table->rank_of_stage = memory_new_array((size_t)stages, sizeof(int));
    table->actions = memory_new_array((size_t)ranks, sizeof *table->actions);
    table->counts = memory_new_array((size_t)ranks, sizeof(int));
    for (int s = 0; s < stages; s++)
        table->rank_of_stage[s] = schedule->v && s >= ranks ? stages - 1 - s : s % ranks;
    for (int r = 0; r < ranks; r++) {
        size_t room = 3 * (size_t)(stages / ranks) * (size_t)microbatches;
        struct row row = {table, r, memory_new_array(room, sizeof(struct action)), 0};
        schedule->write(&row);
        table->actions[r] = row.actions;
        table->counts[r] = row.count;
    }
    return RH_OK;
}

void schedule_free(struct schedule_table *table)
{
    for (int r = 0; table->actions && r < table->ranks; r++)
        free(table->actions[r]);
    free(table->actions);
    free(table->counts);
    free(table->rank_of_stage);
    *table = (struct schedule_table){0};
}
