#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "experiment/experiment.h"
#include "plan/plan.h"
#include "report/report.h"

static void print_totals(const struct plan *plan)
{
    for (int r = 0; r < plan->role_count; r++)
        for (int l = 0; l < plan->roles[r].list_count; l++) {
            struct plan_totals t;
            plan_totals(plan, r, l, &t);
            printf("total %s/%s: %.6g FLOPs, %.6g memory bytes, %d launches, %d collectives of "
                   "%.6g bytes, %d "
                   "exchanges of %.6g bytes, %d copies of %.6g bytes\n",
                   plan->roles[r].name, plan->roles[r].lists[l].name, t.flops, t.memory_bytes,
                   t.launches, t.collects, t.collect_bytes, t.exchanges, t.exchange_bytes, t.copies,
                   t.copy_bytes);
        }
}

static enum rh_status print_plan(const struct experiment *experiment, const char *json_path)
{
    struct strategy_plan plan;
    enum rh_status status = RH_OK;
    RETURN_IF_FAILED(experiment_plan(experiment, &plan));
    if (json_path) {
        cJSON *json = plan_to_json(plan.plan);
        status = report_write_json(json, json_path);
        cJSON_Delete(json);
    } else {
        plan_print(plan.plan, stdout);
        print_totals(plan.plan);
    }
    strategy_plan_free(&plan);
    return status;
}

static enum rh_status run(int argc, char **argv)
{
    struct string_list files = {0};
    struct string_list settings = {0};
    const char *json_path = NULL;
    const char *plan_path = NULL;
    const struct option options[] = {{"set", OPTION_LIST, &settings},
                                     {"plan", OPTION_STRING, &plan_path},
                                     {"json", OPTION_STRING, &json_path}};
    struct platform *platform = NULL;
    struct experiment *experiment = NULL;
    cJSON *json = NULL;
    enum rh_status status = options_read(&command_plan, argc, argv, options, 3, &files, 1, 1);
    if (status == RH_OK)
        status = platform_open(&platform);
    if (status == RH_OK)
        status = experiment_read(files.items[0], settings.items, settings.count, &json);
    if (status == RH_OK)
        status = experiment_open(platform, json, &experiment);
    if (status == RH_OK) {
        experiment->plan_path = text_copy(plan_path);
        status = print_plan(experiment, json_path);
        experiment_close(experiment);
    }
    if (platform)
        platform_close(platform);
    list_free(&files, false);
    list_free(&settings, false);
    return status;
}

const struct command command_plan = {
    .name = "plan",
    .usage = "EXPERIMENT [--set KEY=VALUE]… [--plan FILE] [--json FILE]",
    .summary = "print the checked plan: lists of instructions, memory, totals",
    .help = "  --set KEY=VALUE  change a key of the experiment\n"
            "  --plan FILE      an edited plan, checked and printed in place of the experiment's\n"
            "  --json FILE      the plan for programs ('-': standard output)\n",
    .run = run,
};
