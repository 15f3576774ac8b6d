#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "strategy/schedule.h"

static enum rh_status read_times(const char *text, struct schedule_times *times)
{
    double *fields[] = {&times->forward, &times->input, &times->weight};
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        char *end = NULL;
        *fields[i] = strtod(at, &end);
        bool good = end != at && *fields[i] >= 0 && isfinite(*fields[i]);
        if (!good || *end != (i < 2 ? ',' : '\0'))
            return fail(RH_INVALID,
                        "schedule: --times %s: three numbers F,I,W are expected, as in 1,1,1",
                        text);
        at = end + 1;
    }
    return RH_OK;
}

static void list_names(void)
{
    const char *description = NULL;
    for (int i = 0; schedule_name(i, &description); i++)
        printf("%-18s %s\n", schedule_name(i, &description), description);
}

/* A column a slot; what lasts longer than one is drawn on with "--". */
static void print_timeline(const struct schedule_table *t, const struct schedule_times *times,
                           const struct schedule_result *result, double slot)
{
    static const char letters[] = "FBIW";
    bool many = t->stages > t->ranks;
    int width = many ? 4 : 2;
    width += t->microbatches > 10;
    for (int r = 0; r < t->ranks; r++) {
        int column = 0;
        printf("%d", r);
        for (int i = 0; i < t->counts[r]; i++) {
            const struct action *a = &t->actions[r][i];
            char word[48];
            int first = (int)lround(result->starts[r][i] / slot);
            int slots = (int)lround(schedule_seconds(times, a) / slot);
            for (; column < first; column++)
                printf(" %-*s", width, "..");
            if (many)
                snprintf(word, sizeof word, "%d%c%d", a->stage, letters[a->kind], a->microbatch);
            else
                snprintf(word, sizeof word, "%c%d", letters[a->kind], a->microbatch);
            if (slots == 0)
                continue;
            printf(" %-*s", width, word);
            for (int k = 1; k < slots; k++)
                printf(" %-*s", width, "--");
            column += slots;
        }
        for (; column < (int)lround(result->total / slot); column++)
            printf(" %-*s", width, "..");
        putchar('\n');
    }
}

/* The largest unit that all times are whole multiples of, at least a thousandth; 0: none. */
static double slot_of(const struct schedule_times *times)
{
    for (int parts = 1; parts <= 1000; parts++) {
        double slot = 1.0 / parts;
        double rest = fabs(times->forward / slot - round(times->forward / slot)) +
                      fabs(times->input / slot - round(times->input / slot)) +
                      fabs(times->weight / slot - round(times->weight / slot));
        if (rest < 1e-9)
            return slot;
    }
    return 0;
}

static void print_run(const struct schedule_table *t, const struct schedule_times *times)
{
    enum { WIDEST = 400 };
    struct schedule_result result;
    double slot = slot_of(times);
    schedule_run(t, times, &result);
    if (slot > 0 && result.total / slot <= WIDEST) {
        printf("\nas soon as possible, slots of %g, no transfers\n", slot);
        print_timeline(t, times, &result, slot);
    }
    printf("\ntotal %g\nrank   busy   idle  idle/total  live until I  live until W\n",
           result.total);
    for (int r = 0; r < t->ranks; r++) {
        double idle = result.total - result.busy[r];
        printf("%4d %6g %6g  %10.4f  %12d  %12d\n", r, result.busy[r], idle,
               result.total > 0 ? idle / result.total : 0, result.live_input[r],
               result.live_weight[r]);
    }
    schedule_result_free(t, &result);
}

struct request {
    const char *times, *file;
    int ranks, stages, microbatches;
    bool csv, first_whole;
};

static enum rh_status make(const struct request *request, const char *name,
                           struct schedule_table *table)
{
    if (request->file)
        return schedule_read(request->file, "schedule", table);
    return schedule_make(name, "schedule", request->ranks, request->stages, request->microbatches,
                         table);
}

static enum rh_status show(const struct request *request, const char *name)
{
    struct schedule_times times = {1, 1, 1, request->first_whole};
    struct schedule_table table = {0};
    if (request->times)
        RETURN_IF_FAILED(read_times(request->times, &times));
    RETURN_IF_FAILED(make(request, name, &table));
    if (request->csv) {
        schedule_write_csv(&table, stdout);
    } else {
        schedule_print(&table, stdout);
        print_run(&table, &times);
    }
    schedule_free(&table);
    return RH_OK;
}

static enum rh_status run(int argc, char **argv)
{
    struct request request = {.ranks = 4, .microbatches = 8};
    struct string_list names = {0};
    const struct option options[] = {
        {"ranks", OPTION_INTEGER, &request.ranks},
        {"stages", OPTION_INTEGER, &request.stages},
        {"microbatches", OPTION_INTEGER, &request.microbatches},
        {"times", OPTION_STRING, &request.times},
        {"file", OPTION_STRING, &request.file},
        {"csv", OPTION_FLAG, &request.csv},
        {"first-stage-whole", OPTION_FLAG, &request.first_whole},
    };
    enum rh_status status = options_read(&command_schedule, argc, argv, options,
                                         sizeof options / sizeof *options, &names, 0, 1);
    if (status == RH_OK && request.file && names.count > 0)
        status = fail(RH_INVALID, "schedule: '%s' and --file %s exclude each other", names.items[0],
                      request.file);
    if (status == RH_OK && !request.file && names.count == 0)
        list_names();
    else if (status == RH_OK)
        status = show(&request, names.count > 0 ? names.items[0] : NULL);
    list_free(&names, false);
    return status;
}

const struct command command_schedule = {
    .name = "schedule",
    .usage = "[NAME | --file CSV] [--ranks N] [--stages N] [--microbatches N] …",
    .summary = "pipeline schedules: who does what, bubbles, memory; without a name, their names",
    .help =
        "  --ranks N            devices of the pipeline (4)\n"
        "  --stages N           in all; a multiple of the ranks (what the schedule is made for)\n"
        "  --microbatches N     (8)\n"
        "  --file CSV           a table of one's own: a line a rank, '0F0,0F1,,0B0'\n"
        "  --csv                the table as such a file, to edit and give back\n"
        "  --times F,I,W        of a stage's forward, input and weight gradient (1,1,1)\n"
        "  --first-stage-whole  stage 0 needs no input gradient: I takes nothing, W both times\n",
    .run = run,
};
