/* Q1 … Q37: pipelines, by hand and by schedule. */
#include "cases/training.h"

#include "base/memory.h"
#include "strategy/schedule.h"

enum { MOST_STAGES = 8, MOST_ACTIONS = 64 };

/* Two stages: w1 = 2, w2 = 3; x = [1, 2, 3, 4], mean squared error against 0. */
static struct case_training two_stages(const char *rest)
{
    static const float w1[] = {2};
    static const float w2[] = {3};
    static const float x[] = {1, 2, 3, 4};
    return (struct case_training){
        .model = "{\"name\":\"m\",\"input\":[1],\"layers\":[{\"name\":\"w1\",\"op\":\"linear\","
                 "\"out\":1,\"bias\":false},{\"name\":\"w2\",\"op\":\"linear\",\"out\":1,\"bias\":"
                 "false}]}",
        .rest = rest,
        .init = {{"w1.weight", 2, {1, 1}, w1}, {"w2.weight", 2, {1, 1}, w2}},
        .rows = 4,
        .inputs = x};
}

static void check_gradients(const struct case_training *t, double g1, double g2)
{
    const struct trained *trained = case_trained(t);
    CHECK_NEAR(2 - trained_value(trained, "w1.weight", 0), g1, 1e-6);
    CHECK_NEAR(3 - trained_value(trained, "w2.weight", 0), g2, 1e-6);
}

static void pipeline_keys(char rest[256], int devices, const char *keys)
{
    snprintf(rest, 256, "\"devices\":%d,\"strategy\":{\"type\":\"pipeline\",%s}", devices, keys);
}

/* Rows of the pieces that the hand pipeline makes of 120. */
static void check_pieces(int split_size, const int *rows, int count)
{
    char rest[256];
    char keys[64];
    snprintf(keys, sizeof keys, "\"split_size\":%d", split_size);
    pipeline_keys(rest, 2, keys);
    struct case_training t = {.model = "\"toy\"", .rest = rest, .rows = 120};
    const struct strategy_plan *plan = case_plan(&t);
    const struct role *role = &plan->plan->roles[0];
    const struct list *list = &role->lists[0];
    int found = 0;
    for (int i = 0; i < list->count; i++) {
        const struct instruction *in = &list->instructions[i];
        if (in->kind != INSTRUCTION_COMPUTE || strncmp(in->name, "net1", 4) != 0 ||
            in->compute.op.kind != OP_linear)
            continue;
        const struct view *x = &role->views[in->compute.view_first];
        CHECK(found < count && x->type.shape.dim[0] == rows[found]);
        found++;
    }
    CHECK(found == count);
}

CASE(Q1, "120 rows split by 20, 50 and 200: six 20s; 50, 50, 20; one 120")
{
    check_pieces(20, (const int[]){20, 20, 20, 20, 20, 20}, 6);
    check_pieces(50, (const int[]){50, 50, 20}, 3);
    check_pieces(200, (const int[]){120}, 1);
}

CASE(Q4, "the hand pipeline gives the numbers of the unsplit model")
{
    static const char *const sizes[] = {"\"split_size\":1", "\"split_size\":2", "\"split_size\":3",
                                        "\"split_size\":4"};
    for (int i = 0; i < 4; i++) {
        char rest[256];
        pipeline_keys(rest, 2, sizes[i]);
        struct case_training t = two_stages(rest);
        check_gradients(&t, 270, 180);
        CHECK_NEAR(case_trained(&t)->losses[0], 270, 1e-6);
    }
}

/* Batch norm counts its batches, in a model of two stages. */
static double batches_counted(const char *rest, int64_t rows)
{
    static const float one[] = {1};
    static const float zero[] = {0};
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct case_training t = {
        .model = "{\"name\":\"m\",\"input\":[1,1,1],\"layers\":[{\"name\":\"bn\",\"op\":"
                 "\"batch_norm2d\"},{\"name\":\"f\",\"op\":\"flatten\"},{\"name\":\"w\",\"op\":"
                 "\"linear\",\"out\":1,\"bias\":false}]}",
        .rest = rest,
        .init = {{"bn.weight", 1, {1}, one},
                 {"bn.bias", 1, {1}, zero},
                 {"bn.running_mean", 1, {1}, zero},
                 {"bn.running_var", 1, {1}, one},
                 {"w.weight", 2, {1, 1}, one}},
        .rows = rows,
        .pictures = true,
        .inputs = x};
    return trained_value(case_trained(&t), "bn.num_batches_tracked", 0);
}

CASE(Q5, "batch norm counts each of six pieces")
{
    char rest[256];
    pipeline_keys(rest, 2, "\"split_size\":2,\"split_at\":[\"w\"]");
    CHECK(batches_counted(rest, 12) == 6);
}

static void refuse_batch(int64_t rows, int microbatches)
{
    char rest[256];
    char keys[64];
    static const float x[40] = {0};
    snprintf(keys, sizeof keys, "\"schedule\":\"gpipe\",\"microbatches\":%d", microbatches);
    pipeline_keys(rest, 2, keys);
    struct case_training t = two_stages(rest);
    t.rows = rows;
    t.inputs = x;
    CHECK_NOT_TRAINED(&t, "does not divide into 1 ranks times");
}

DIFFERS(Q6, "10 rows in 4 microbatches are cut into 3, 3, 2, 2 (and then refused at run time)",
        "a batch that the microbatches do not divide is refused before the run")
CASE(Q6, "10 into 4, 5 into 4, 36 into 7")
{
    refuse_batch(10, 4);
    refuse_batch(5, 4);
    refuse_batch(36, 7);
}

static void check_microbatches(const char *loss, double g1, double g2)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (int s = 0; s < 2; s++)
        for (int m = 1; m <= 4; m *= 2) {
            char rest[256];
            char keys[64];
            if (s == 1 && m == 1)
                continue; /* fewer than stages: refused */
            snprintf(keys, sizeof keys, "\"schedule\":\"%s\",\"microbatches\":%d", schedules[s], m);
            pipeline_keys(rest, 2, keys);
            struct case_training t = two_stages(rest);
            t.loss = loss;
            check_gradients(&t, g1, g2);
        }
}

CASE(Q7, "w1 = 2, w2 = 3, x = [1, 2, 3, 4]: gradients 270 and 180 with 1, 2 and 4 microbatches")
{
    check_microbatches("\"mse\"", 270, 180);
}

DOES_NOT_APPLY(Q8, "without scaling by the number of microbatches: 540 and 360, 1080 and 720",
               "a mean loss is always the mean of the batch")

CASE(Q9, "a summed loss: 1080 and 720 with any number of microbatches")
{
    check_microbatches("{\"type\":\"mse\",\"reduction\":\"sum\"}", 1080, 720);
}

CASE(Q10, "the same gradients under every schedule that there is")
{
    check_microbatches("\"mse\"", 270, 180);
}

DIFFERS(Q11, "each step divides what it accumulated, the steps before included: 1, then 1.25",
        "each microbatch's loss is divided, so two passes give the sum of their parts")
CASE(Q11, "accumulating over two passes: the parts add up")
{
    char rest[256];
    static const float x[] = {1, 2, 3, 4, 1, 2, 3, 4};
    pipeline_keys(rest, 2, "\"schedule\":\"gpipe\",\"microbatches\":4");
    struct case_training t = two_stages(rest);
    t.loss = "{\"type\":\"mse\",\"reduction\":\"sum\"}";
    t.train = ",\"accumulate\":2";
    t.rows = 8;
    t.batch = 4;
    t.inputs = x;
    check_gradients(&t, 2 * 1080, 2 * 720);
    t.loss = "\"mse\""; /* the mean over both passes */
    check_gradients(&t, 270, 180);
}

DIFFERS(Q12, "the third microbatch has another shape: fails when it comes",
        "refused before the run")
CASE(Q12, "10 rows in 4 microbatches")
{
    refuse_batch(10, 4);
}

CASE(Q13, "4 rows in 8 microbatches are refused, for all ranks at once")
{
    refuse_batch(4, 8);
}

static const char *const four_layers =
    "{\"name\":\"m\",\"input\":[1],\"layers\":[{\"name\":\"a\",\"op\":\"linear\",\"out\":1},"
    "{\"name\":\"b\",\"op\":\"linear\",\"out\":1},{\"name\":\"c\",\"op\":\"linear\",\"out\":1},"
    "{\"name\":\"d\",\"op\":\"linear\",\"out\":1}]}";

static struct case_training four_stages(const char *rest, int64_t rows)
{
    static const float one[] = {1};
    static const float x[16] = {1};
    return (struct case_training){.model = four_layers,
                                  .rest = rest,
                                  .rows = rows,
                                  .inputs = x,
                                  .init = {{"-", 1, {1}, one}}};
}

static void four_keys(char rest[256], const char *schedule, int microbatches)
{
    char keys[128];
    snprintf(keys, sizeof keys,
             "\"schedule\":\"%s\",\"microbatches\":%d,\"split_at\":[\"b\",\"c\",\"d\"]", schedule,
             microbatches);
    pipeline_keys(rest, 4, keys);
}

CASE(Q14, "4 stages, 3 microbatches: 1F1B has too few, GPipe runs")
{
    char rest[256];
    four_keys(rest, "1f1b", 3);
    struct case_training t = four_stages(rest, 6);
    CHECK_NOT_TRAINED(&t, "too few microbatches for 1f1b: 3 on 4 stages");
    four_keys(rest, "gpipe", 3);
    CHECK(case_plan(&t)->microbatches == 3);
}

NOT_YET(Q15, "interleaved: which numbers of microbatches it takes", "interleaved schedules")
NOT_YET(Q16, "ZBV with one stage a rank is refused", "ZBV")

static int actions_of(const char *name, int stage, int stages, int microbatches,
                      struct action *actions)
{
    const struct schedule *schedule = NULL;
    CHECK_OK(schedule_find(name, &schedule));
    schedule->actions(stage, stages, microbatches, actions);
    return 2 * microbatches;
}

static void check_table(const char *name, const char *const *rows, int stages, int microbatches)
{
    for (int stage = 0; stage < stages; stage++) {
        struct action actions[MOST_ACTIONS];
        char text[512] = "";
        int count = actions_of(name, stage, stages, microbatches, actions);
        for (int i = 0; i < count; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d%c%d", i ? " " : "",
                     stage, actions[i].kind == ACTION_FORWARD ? 'F' : 'B', actions[i].microbatch);
        if (strcmp(text, rows[stage]) != 0)
            fprintf(stderr, "    stage %d: %s\n", stage, text);
        CHECK(strcmp(text, rows[stage]) == 0);
    }
}

CASE(Q17, "GPipe, 4 stages, 8 microbatches, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 0B0 0B1 0B2 0B3 0B4 0B5 0B6 0B7",
        "1F0 1F1 1F2 1F3 1F4 1F5 1F6 1F7 1B0 1B1 1B2 1B3 1B4 1B5 1B6 1B7",
        "2F0 2F1 2F2 2F3 2F4 2F5 2F6 2F7 2B0 2B1 2B2 2B3 2B4 2B5 2B6 2B7",
        "3F0 3F1 3F2 3F3 3F4 3F5 3F6 3F7 3B0 3B1 3B2 3B3 3B4 3B5 3B6 3B7",
    };
    check_table("gpipe", rows, 4, 8);
}

CASE(Q18, "1F1B, 4 stages, 8 microbatches, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7",
        "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7",
        "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7",
        "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7",
    };
    check_table("1f1b", rows, 4, 8);
}

NOT_YET(Q19, "interleaved 1F1B, 2 ranks of 2 stages, action by action", "interleaved schedules")
NOT_YET(Q20, "interleaved 1F1B, 4 ranks of 2 stages, action by action", "interleaved schedules")
NOT_YET(Q21, "ZB-H1, action by action", "zero-bubble schedules")
NOT_YET(Q22, "interleaved zero bubble, 2 ranks of 2 stages, action by action",
        "zero-bubble schedules")
NOT_YET(Q23, "looped BFS, action by action", "looped BFS")
NOT_YET(Q24, "ZBV, action by action", "ZBV")

/* As soon as possible, a forward 1 slot, a backward 2. The idle slots of each stage must be equal.
 */
static void check_times(const char *name, int stages, int microbatches, int total, int idle)
{
    struct action actions[MOST_STAGES][MOST_ACTIONS];
    int end[2][MOST_STAGES + 1][MOST_ACTIONS];
    int next[MOST_STAGES] = {0};
    int clock[MOST_STAGES] = {0};
    int count = 0;
    for (int s = 0; s < stages; s++)
        count = actions_of(name, s, stages, microbatches, actions[s]);
    memset(end, -1, sizeof end);
    for (int done = 0, before = -1; done < stages * count && done != before;) {
        before = done;
        for (int s = 0; s < stages; s++)
            while (next[s] < count) {
                struct action a = actions[s][next[s]];
                int forward = a.kind == ACTION_FORWARD;
                int ready = forward ? (s == 0 ? 0 : end[0][s - 1][a.microbatch])
                                    : end[s + 1 < stages][s + 1 < stages ? s + 1 : s][a.microbatch];
                if (ready < 0)
                    break;
                clock[s] = (ready > clock[s] ? ready : clock[s]) + (forward ? 1 : 2);
                end[!forward][s][a.microbatch] = clock[s];
                next[s]++;
                done++;
            }
    }
    int last = 0;
    for (int s = 0; s < stages; s++) {
        CHECK(next[s] == count);
        last = clock[s] > last ? clock[s] : last;
    }
    if (last != total)
        fprintf(stderr, "    %s: %d slots, expected %d\n", name, last, total);
    CHECK(last == total && last - 3 * microbatches == idle);
}

CASE(Q25, "slots in all and idle ones: GPipe and 1F1B 33 and 9 with 4 stages and 8 microbatches")
{
    check_times("gpipe", 4, 8, 33, 9);
    check_times("1f1b", 4, 8, 33, 9);
    check_times("gpipe", 2, 2, 9, 3);
    check_times("1f1b", 2, 4, 15, 3);
    check_times("gpipe", 4, 4, 21, 9);
    check_times("1f1b", 4, 4, 21, 9);
    check_times("gpipe", 4, 1, 12, 9);
}

static void check_live(const char *name, const int expected[4])
{
    for (int stage = 0; stage < 4; stage++) {
        struct action actions[MOST_ACTIONS];
        int count = actions_of(name, stage, 4, 8, actions);
        int live = 0;
        int most = 0;
        for (int i = 0; i < count; i++) {
            live += actions[i].kind == ACTION_FORWARD ? 1 : -1;
            most = live > most ? live : most;
        }
        CHECK(most == expected[stage]);
    }
}

CASE(Q26, "microbatches held at a time: GPipe 8 8 8 8, 1F1B 4 3 2 1")
{
    check_live("gpipe", (const int[]){8, 8, 8, 8});
    check_live("1f1b", (const int[]){4, 3, 2, 1});
}

NOT_YET(Q27, "8 stages on 4 ranks: in a loop, or as a V", "several stages a rank")

CASE(Q28, "messages of a step, 4 stages and 8 microbatches: 48")
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (int s = 0; s < 2; s++) {
        char rest[256];
        four_keys(rest, schedules[s], 8);
        struct case_training t = four_stages(rest, 8);
        const struct strategy_plan *plan = case_plan(&t);
        CHECK(plan_count(plan, "steady", INSTRUCTION_EXCHANGE, "send") == 48);
        CHECK(plan_count(plan, "steady", INSTRUCTION_EXCHANGE, "receive") == 48);
    }
}

CASE(Q29, "DDP over stages, 8 microbatches: one all-reduce a bucket and step")
{
    struct case_training t = four_stages(
        "\"devices\":4,\"mesh\":{\"dp\":2,\"pp\":2},\"strategy\":{\"type\":\"pipeline\","
        "\"microbatches\":8}",
        16);
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(plan_count(plan, "steady", INSTRUCTION_COLLECT, "bucket") == 2); /* one a stage */
}

NOT_YET(Q30, "tables that are wrong: four refusals", "schedules given as tables")

DIFFERS(Q32, "the first step infers shapes by an extra forward, which batch norm counts: 5",
        "shapes are known from the plan: 4")
CASE(Q32, "batch norm counts 4 microbatches in the first step")
{
    char rest[256];
    pipeline_keys(rest, 2, "\"schedule\":\"gpipe\",\"microbatches\":4,\"split_at\":[\"w\"]");
    CHECK(batches_counted(rest, 12) == 4);
}

DOES_NOT_APPLY(Q33, "`step` returns the outputs on the last rank",
               "a run gives losses, not outputs")
NOT_YET(Q34, "a list of losses, one a microbatch", "losses of microbatches")
NOT_YET(Q35, "looped BFS: backward from the last microbatch to the first", "looped BFS")

CASE(Q36, "1F1B, 4 stages, 2 microbatches: refused; the table has min(2, 4 - r) warm-up forwards")
{
    char rest[256];
    four_keys(rest, "1f1b", 2);
    struct case_training t = four_stages(rest, 4);
    CHECK_NOT_TRAINED(&t, "too few microbatches for 1f1b: 2 on 4 stages");
    for (int stage = 0; stage < 4; stage++) {
        struct action actions[MOST_ACTIONS];
        int warm_up = 0;
        int count = actions_of("1f1b", stage, 4, 2, actions);
        while (warm_up < count && actions[warm_up].kind == ACTION_FORWARD)
            warm_up++;
        CHECK(warm_up == (4 - stage < 2 ? 4 - stage : 2));
    }
}

NOT_YET(Q37, "ZB-H1 with a first stage whose backward is all weights", "zero-bubble schedules")
