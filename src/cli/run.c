#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/rank.h"
#include "cli/cli.h"
#include "experiment/describe.h"

struct run_arguments {
    struct string_list files, settings;
    const char *backend, *json, *trace, *plan;
    bool numbers, no_fold;
    int steps;
};

static enum rh_status write_results(const struct run_arguments *arguments,
                                    const struct report_case *report)
{
    bool quiet = (arguments->json && arguments->json[0] == '-' && !arguments->json[1]) ||
                 (arguments->trace && arguments->trace[0] == '-' && !arguments->trace[1]);
    if (!quiet)
        report_print(report, stdout);
    if (arguments->json) {
        cJSON *json = report_json(report);
        enum rh_status status = report_write_json(json, arguments->json);
        cJSON_Delete(json);
        RETURN_IF_FAILED(status);
    }
    return arguments->trace ? report_trace(report, arguments->trace) : RH_OK;
}

static enum rh_status run_one(struct platform *platform, const struct run_arguments *arguments)
{
    cJSON *json = NULL;
    struct experiment *experiment = NULL;
    struct outcome outcome;
    struct rank rank;
    RETURN_IF_FAILED(rank_read(&rank));
    RETURN_IF_FAILED(experiment_read(arguments->files.items[0], arguments->settings.items,
                                     arguments->settings.count, &json));
    RETURN_IF_FAILED(experiment_open(platform, json, &experiment));
    experiment->plan_path = text_copy(arguments->plan);
    struct run_options options = {.numbers = arguments->numbers,
                                  .trace = arguments->trace != NULL,
                                  .no_fold = arguments->no_fold,
                                  .stop_on_signal = rank.ranks == 1};
    enum rh_status status = experiment_run(experiment, &options, &outcome);
    if (status == RH_OK && !rank_is_first()) {
        outcome_free(&outcome); /* rank 0 tells */
    } else if (status == RH_OK) {
        struct described described;
        describe_case(experiment, &outcome, status, &described);
        status = write_results(arguments, &described.report);
        described_free(&described);
        outcome_free(&outcome);
    }
    experiment_close(experiment);
    return status;
}

/* --backend and --steps are settings like any other. */
static void add_setting(struct string_list *settings, char *setting)
{
    *ARRAY_ADD(settings->items, settings->count, settings->capacity) = setting;
}

static enum rh_status run(int argc, char **argv)
{
    struct run_arguments arguments = {0};
    const struct option options[] = {
        {"set", OPTION_LIST, &arguments.settings},
        {"backend", OPTION_STRING, &arguments.backend},
        {"numbers", OPTION_FLAG, &arguments.numbers},
        {"steps", OPTION_INTEGER, &arguments.steps},
        {"json", OPTION_STRING, &arguments.json},
        {"plan", OPTION_STRING, &arguments.plan},
        {"trace", OPTION_STRING, &arguments.trace},
        {"no-fold", OPTION_FLAG, &arguments.no_fold},
    };
    struct platform *platform = NULL;
    char *backend = NULL;
    char *steps = NULL;
    enum rh_status status = options_read(&command_run, argc, argv, options,
                                         sizeof options / sizeof *options, &arguments.files, 1, 1);
    if (status == RH_OK && arguments.backend)
        add_setting(&arguments.settings,
                    backend = text_format("backend=\"%s\"", arguments.backend));
    if (status == RH_OK && arguments.steps)
        add_setting(&arguments.settings, steps = text_format("train.steps=%d", arguments.steps));
    if (status == RH_OK)
        status = platform_open(&platform);
    if (status == RH_OK)
        status = run_one(platform, &arguments);
    if (platform)
        platform_close(platform);
    free(backend);
    free(steps);
    list_free(&arguments.files, false);
    list_free(&arguments.settings, false);
    return status;
}

const struct command command_run = {
    .name = "run",
    .usage = "EXPERIMENT [--set KEY=VALUE]… [--backend NAME] [--numbers] [--steps N] "
             "[--plan FILE] [--json FILE] [--trace FILE]",
    .summary = "run an experiment and report it",
    .help =
        "  --set KEY=VALUE  change a key of the experiment (data.batch=64)\n"
        "  --backend NAME   simgrid (default), reference, cuda\n"
        "  --numbers        compute the values too, not only the times\n"
        "  --steps N        training steps (train.steps)\n"
        "  --plan FILE      a plan of this experiment that was edited ('rehearse plan --json')\n"
        "  --json FILE      the report for programs ('-': standard output)\n"
        "  --trace FILE     a timeline for Chrome or Perfetto\n"
        "  --no-fold        simulate equal nodes one by one\n",
    .run = run,
};
