/* Q14 … Q29, Q35 … Q37: schedules, action by action. */
#include "cases/training.h"

#include "strategy/schedule.h"

enum { MOST_STAGES = 8, MOST_ACTIONS = 64 };

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
    snprintf(rest, 256, "\"devices\":4,\"strategy\":{\"type\":\"pipeline\",%s}", keys);
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
