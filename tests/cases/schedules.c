/* Q14 … Q29, Q35 … Q37: schedules, action by action. */
#include "cases/training.h"

#include "strategy/schedule.h"

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
    CHECK_NOT_TRAINED(&t, "3");
    four_keys(rest, "gpipe", 3);
    CHECK(case_plan(&t)->microbatches == 3);
}

static void made(const char *name, int ranks, int stages, int microbatches,
                 struct schedule_table *table)
{
    CHECK_OK(schedule_make(name, "case", ranks, stages, microbatches, table));
}

static void refuse_schedule(const char *name, int ranks, int stages, int microbatches)
{
    struct schedule_table table;
    enum rh_status status = schedule_make(name, "case", ranks, stages, microbatches, &table);
    if (status == RH_OK)
        schedule_free(&table);
    CHECK(status == RH_INVALID);
}

CASE(Q15, "interleaved on 4 ranks: 10, 3, 15 and 6 microbatches are taken, 11 and 9 refused")
{
    static const int taken[] = {10, 3, 15, 6};
    for (int i = 0; i < 4; i++) {
        struct schedule_table table;
        made("interleaved_1f1b", 4, 8, taken[i], &table);
        schedule_free(&table);
    }
    refuse_schedule("interleaved_1f1b", 4, 8, 11);
    refuse_schedule("interleaved_1f1b", 4, 8, 9);
}

CASE(Q16, "ZBV with one stage a rank is refused")
{
    refuse_schedule("zbv", 4, 4, 8);
}

/* Rank by rank, in the words of `rehearse schedule`. */
static void check_table(const char *name, int ranks, int stages, const char *const *rows)
{
    struct schedule_table table;
    made(name, ranks, stages, 8, &table);
    for (int r = 0; r < ranks; r++) {
        char text[2048] = "";
        for (int i = 0; i < table.counts[r]; i++) {
            const struct action *a = &table.actions[r][i];
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d%c%d", i ? " " : "",
                     a->stage, "FBIW"[a->kind], a -> microbatch);
        }
        if (strcmp(text, rows[r]) != 0)
            fprintf(stderr, "    rank %d: %s\n", r, text);
        CHECK(strcmp(text, rows[r]) == 0);
    }
    schedule_free(&table);
}

CASE(Q17, "GPipe, 4 stages, 8 microbatches, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 0B0 0B1 0B2 0B3 0B4 0B5 0B6 0B7",
        "1F0 1F1 1F2 1F3 1F4 1F5 1F6 1F7 1B0 1B1 1B2 1B3 1B4 1B5 1B6 1B7",
        "2F0 2F1 2F2 2F3 2F4 2F5 2F6 2F7 2B0 2B1 2B2 2B3 2B4 2B5 2B6 2B7",
        "3F0 3F1 3F2 3F3 3F4 3F5 3F6 3F7 3B0 3B1 3B2 3B3 3B4 3B5 3B6 3B7",
    };
    check_table("gpipe", 4, 4, rows);
}

CASE(Q18, "1F1B, 4 stages, 8 microbatches, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7",
        "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7",
        "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7",
        "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7",
    };
    check_table("1f1b", 4, 4, rows);
}

CASE(Q19, "interleaved 1F1B, 2 ranks of 2 stages, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 0F4 2B2 0F5 2B3 2F4 0B2 2F5 "
        "0B3 0F6 2B4 0F7 2B5 2F6 0B4 2F7 0B5 2B6 2B7 0B6 0B7",
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1F4 1B2 1F5 1B3 3F4 "
        "3B4 3F5 3B5 1F6 1B4 1F7 1B5 3F6 3B6 3F7 3B7 1B6 1B7",
    };
    check_table("interleaved_1f1b", 2, 4, rows);
}

CASE(Q20, "interleaved 1F1B, 4 ranks of 2 stages, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 "
        "0B0 4F7 0B1 0B2 0B3 4B4 4B5 4B6 4B7 0B4 0B5 0B6 0B7",
        "1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 1F4 5B0 1F5 5B1 1F6 5B2 1F7 5B3 5F4 1B0 5F5 "
        "1B1 5F6 1B2 5F7 1B3 5B4 5B5 5B6 5B7 1B4 1B5 1B6 1B7",
        "2F0 2F1 2F2 2F3 6F0 6F1 6F2 6B0 6F3 6B1 2F4 6B2 2F5 6B3 2F6 2B0 2F7 2B1 6F4 "
        "2B2 6F5 2B3 6F6 6B4 6F7 6B5 6B6 6B7 2B4 2B5 2B6 2B7",
        "3F0 3F1 3F2 3F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3F4 3B0 3F5 3B1 3F6 3B2 3F7 "
        "3B3 7F4 7B4 7F5 7B5 7F6 7B6 7F7 7B7 3B4 3B5 3B6 3B7",
    };
    check_table("interleaved_1f1b", 4, 8, rows);
}

CASE(Q21, "ZB-H1, 4 stages, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 "
        "0W5 0I6 0W6 0I7 0W7",
        "1F0 1F1 1F2 1I0 1F3 1I1 1W0 1F4 1I2 1W1 1F5 1I3 1W2 1F6 1I4 1W3 1F7 1I5 1W4 "
        "1I6 1W5 1I7 1W6 1W7",
        "2F0 2F1 2I0 2F2 2I1 2F3 2I2 2W0 2F4 2I3 2W1 2F5 2I4 2W2 2F6 2I5 2W3 2F7 2I6 "
        "2W4 2I7 2W5 2W6 2W7",
        "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 "
        "3I7 3W4 3W5 3W6 3W7",
    };
    check_table("zb_h1", 4, 4, rows);
}

CASE(Q22, "interleaved zero bubble, 2 ranks of 2 stages, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 0F4 "
        "2I3 2W3 0F5 0I2 0W2 2F4 0I3 0W3 2F5 2I4 2W4 0F6 2I5 2W5 0F7 0I4 0W4 2F6 0I5 "
        "0W5 2F7 2I6 2W6 2I7 2W7 0I6 0W6 0I7 0W7",
        "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 3W2 "
        "1F4 1I2 3W3 1F5 1I3 1W2 3F4 3I4 1W3 3F5 3I5 3W4 1F6 1I4 3W5 1F7 1I5 1W4 3F6 "
        "3I6 1W5 3F7 3I7 3W6 1I6 3W7 1I7 1W6 1W7",
    };
    check_table("interleaved_zb", 2, 4, rows);
}

CASE(Q23, "looped BFS, 2 ranks of 2 stages, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 2F0 2F1 2F2 2F3 2F4 2F5 2F6 2F7 2B7 2B6 2B5 "
        "2B4 2B3 2B2 2B1 2B0 0B7 0B6 0B5 0B4 0B3 0B2 0B1 0B0",
        "1F0 1F1 1F2 1F3 1F4 1F5 1F6 1F7 3F0 3F1 3F2 3F3 3F4 3F5 3F6 3F7 3B7 3B6 3B5 "
        "3B4 3B3 3B2 3B1 3B0 1B7 1B6 1B5 1B4 1B3 1B2 1B1 1B0",
    };
    check_table("looped_bfs", 2, 4, rows);
}

CASE(Q24, "ZBV, 2 ranks, action by action")
{
    static const char *const rows[] = {
        "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0F4 0I1 0W1 3F3 "
        "3I3 3W3 0F5 0I2 0W2 3F4 3I4 3W4 0F6 0I3 0W3 3F5 3I5 3W5 0F7 0I4 0W4 3F6 3I6 "
        "3W6 0I5 0W5 3F7 3I7 3W7 0I6 0W6 0I7 0W7",
        "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1F4 "
        "1I2 1W2 2F4 2I3 2W3 1F5 1I3 1W3 2F5 2I4 2W4 1F6 1I4 1W4 2F6 2I5 2W5 1F7 1I5 "
        "1W5 2F7 2I6 2W6 1I6 2I7 1I7 1W6 2W7 1W7",
    };
    check_table("zbv", 2, 4, rows);
}

/* Total and idle of a rank, in slots of one forward; a backward is `input` + `weight`. */
static void check_times(const char *name, int ranks, int stages, int microbatches, double input,
                        double total, double idle)
{
    const struct schedule_times times = {1, input, 2 - input, false};
    struct schedule_table table;
    struct schedule_result result;
    made(name, ranks, stages, microbatches, &table);
    schedule_run(&table, &times, &result);
    if (result.total != total)
        fprintf(stderr, "    %s: %g slots, expected %g\n", name, result.total, total);
    CHECK_NEAR(result.total, total, 1e-9);
    for (int r = 0; r < ranks; r++)
        CHECK_NEAR(result.total - result.busy[r], idle, 1e-9);
    schedule_result_free(&table, &result);
    schedule_free(&table);
}

CASE(Q25, "slots in all and idle ones of every schedule")
{
    check_times("gpipe", 4, 4, 8, 1, 33, 9);
    check_times("1f1b", 4, 4, 8, 1, 33, 9);
    check_times("interleaved_1f1b", 4, 4, 8, 1, 33, 9);
    check_times("interleaved_1f1b", 4, 8, 8, 1, 57, 9);
    check_times("interleaved_1f1b", 2, 4, 8, 1, 51, 3);
    check_times("looped_bfs", 2, 4, 8, 1, 51, 3);
    check_times("zb_h1", 4, 4, 8, 1, 27, 3);
    check_times("interleaved_zb", 2, 4, 8, 1, 49, 1);
    check_times("zbv", 2, 4, 8, 1, 49, 1);
    check_times("zbv", 4, 8, 8, 1, 51, 3);
    check_times("zb_h1", 4, 4, 8, 1.5, 30, 6);
    check_times("interleaved_zb", 2, 4, 8, 1.5, 50, 2);
    check_times("zbv", 4, 8, 8, 1.5, 54, 6);
    check_times("gpipe", 2, 2, 2, 1, 9, 3);
    check_times("1f1b", 2, 2, 4, 1, 15, 3);
    check_times("zb_h1", 2, 2, 4, 1, 13, 1);
    check_times("zb_h1", 4, 4, 4, 1, 15, 3);
    check_times("gpipe", 4, 4, 1, 1, 12, 9);
}

static void check_live(const char *name, int ranks, int stages, bool until_weight,
                       const int *expected)
{
    const struct schedule_times times = {1, 1, 1, false};
    struct schedule_table table;
    struct schedule_result result;
    made(name, ranks, stages, 8, &table);
    schedule_run(&table, &times, &result);
    for (int r = 0; r < ranks; r++)
        CHECK((until_weight ? result.live_weight : result.live_input)[r] == expected[r]);
    schedule_result_free(&table, &result);
    schedule_free(&table);
}

CASE(Q26, "microbatches held at a time, by every schedule")
{
    check_live("gpipe", 4, 4, false, (const int[]){8, 8, 8, 8});
    check_live("1f1b", 4, 4, false, (const int[]){4, 3, 2, 1});
    check_live("interleaved_1f1b", 4, 4, false, (const int[]){7, 5, 3, 1});
    check_live("interleaved_1f1b", 4, 8, false, (const int[]){11, 9, 7, 5});
    check_live("interleaved_1f1b", 2, 4, false, (const int[]){5, 3});
    check_live("looped_bfs", 2, 4, false, (const int[]){16, 16});
    check_live("zb_h1", 4, 4, false, (const int[]){4, 3, 2, 1});
    check_live("zb_h1", 4, 4, true, (const int[]){4, 4, 4, 4});
    check_live("interleaved_zb", 2, 4, true, (const int[]){4, 4});
    check_live("zbv", 2, 4, true, (const int[]){4, 4});
    check_live("zbv", 4, 8, true, (const int[]){8, 8, 8, 8});
}

CASE(Q27, "8 stages on 4 ranks: in a loop 0 1 2 3 0 1 2 3, as a V 0 1 2 3 3 2 1 0")
{
    struct schedule_table loop;
    struct schedule_table v;
    made("looped_bfs", 4, 8, 8, &loop);
    made("zbv", 4, 8, 8, &v);
    for (int stage = 0; stage < 8; stage++) {
        CHECK(loop.rank_of_stage[stage] == stage % 4);
        CHECK(v.rank_of_stage[stage] == (stage < 4 ? stage : 7 - stage));
    }
    schedule_free(&loop);
    schedule_free(&v);
}

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

CASE(Q35, "looped BFS goes backward from the last microbatch to the first")
{
    struct schedule_table table;
    int last = 8;
    made("looped_bfs", 2, 4, 8, &table);
    for (int i = 0; i < table.counts[0]; i++) {
        const struct action *a = &table.actions[0][i];
        if (a->kind != ACTION_BACKWARD || a->stage != 2)
            continue;
        CHECK(a->microbatch == last - 1);
        last = a->microbatch;
    }
    CHECK(last == 0);
    schedule_free(&table);
}

CASE(Q36, "1F1B, 4 stages, 2 microbatches: refused")
{
    refuse_schedule("1f1b", 4, 4, 2);
}

CASE(Q37, "ZB-H1 whose first stage does all of its backward with the weights: still 27 slots")
{
    const struct schedule_times times = {1, 1, 1, true};
    struct schedule_table table;
    struct schedule_result result;
    made("zb_h1", 4, 4, 8, &table);
    schedule_run(&table, &times, &result);
    CHECK(result.total == 27 && result.busy[0] == 24);
    schedule_result_free(&table, &result);
    schedule_free(&table);
}
