#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/grid.h"
#include "cli/pool.h"
#include "experiment/describe.h"
#include "report/report.h"

struct compare {
    struct grid grid;
    struct string_list settings;
    const char *strategies, *clusters, *csv, *json, *plot;
    bool numbers;
    int jobs;
};

/* A case in its own process: its report as JSON, or status and error. */
static cJSON *failed_case(enum rh_status status)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "status", status);
    cJSON_AddStringToObject(json, "error", fail_message());
    return json;
}

static cJSON *run_case(struct platform *platform, const struct compare *compare, int index)
{
    struct string_list settings = {0};
    const char *file = NULL;
    char *label = NULL;
    cJSON *json = NULL;
    struct experiment *experiment = NULL;
    struct outcome outcome;
    struct described described;
    grid_case(&compare->grid, index, &settings, &file, &label);
    enum rh_status status = experiment_read(file, settings.items, settings.count, &json);
    if (status == RH_OK)
        status = experiment_open(platform, json, &experiment);
    if (status != RH_OK)
        return failed_case(status);
    struct run_options options = {.numbers = compare->numbers};
    status = experiment_run(experiment, &options, &outcome);
    describe_case(experiment, &outcome, status, &described);
    return report_json(&described.report);
}

static cJSON *answer(const void *context, int index)
{
    struct platform *platform = NULL;
    enum rh_status status = platform_open(&platform);
    return status == RH_OK ? run_case(platform, context, index) : failed_case(status);
}

static void show_progress(int done, int cases)
{
    fprintf(stderr, "\r%d of %d cases%s", done, cases, done == cases ? "\n" : "");
    fflush(stderr);
}

/* What the tables need, taken back from the child's JSON. */
struct row {
    struct report_case report;
    struct result result;
    const char **names; /* of the devices */
    char *label;
};

static double number_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *string_of(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static void read_devices(struct row *row, const cJSON *devices)
{
    int count = cJSON_GetArraySize(devices);
    row->result.devices = memory_new_array((size_t)count, sizeof *row->result.devices);
    row->names = memory_new_array((size_t)count, sizeof *row->names);
    for (const cJSON *item = devices ? devices->child : NULL; item; item = item->next) {
        struct device_result *device = &row->result.devices[row->result.device_count++];
        const cJSON *peak = cJSON_GetObjectItemCaseSensitive(item, "peak_bytes");
        for (int p = 0; p < PURPOSE_COUNT; p++)
            device->peak_bytes[p] = number_of(peak, purpose_name((enum purpose)p));
        device->device = (int)number_of(item, "device");
        row->names[row->result.device_count - 1] = string_of(item, "name");
        device->capacity_bytes = number_of(item, "capacity_bytes");
        device->busy_seconds = number_of(item, "busy_seconds");
    }
}

static void read_waited_for(struct row *row, const char *name)
{
    row->result.waited_for = -1;
    for (int i = 0; i < row->result.device_count; i++)
        if (strcmp(row->names[i], name) == 0)
            row->result.waited_for = row->result.devices[i].device;
}

static void read_losses(struct row *row, const cJSON *losses)
{
    int count = cJSON_GetArraySize(losses);
    if (count == 0)
        return;
    row->result.losses = memory_new_array((size_t)count, sizeof *row->result.losses);
    row->result.step_count = count;
    for (int i = 0; i < count; i++)
        row->result.losses[i] = cJSON_GetNumberValue(cJSON_GetArrayItem(losses, i));
}

static void read_row(struct row *row, const cJSON *json, const struct compare *compare, int index)
{
    struct string_list settings = {0};
    const char *file = NULL;
    grid_case(&compare->grid, index, &settings, &file, &row->label);
    list_free(&settings, true);
    row->report = (struct report_case){
        .label = row->label,
        .experiment = string_of(json, "experiment"),
        .model = string_of(json, "model"),
        .strategy = string_of(json, "strategy"),
        .backend = string_of(json, "backend"),
        .cluster = string_of(json, "cluster"),
        .launch = string_of(json, "launch"),
        .precision = string_of(json, "precision"),
        .batch = (int64_t)number_of(json, "batch"),
        .batch_fixed = string_of(json, "batch_fixed"),
        .samples_per_second = number_of(json, "samples_per_second"),
        .speedup = number_of(json, "speedup"),
        .efficiency = number_of(json, "efficiency"),
        .backend_version = string_of(json, "backend_version"),
        .device_count = (int)number_of(json, "device_count"),
        .accumulate = (int)number_of(json, "accumulate"),
        .microbatches = (int)number_of(json, "microbatches"),
        .buckets = (int)number_of(json, "buckets"),
        .seed = (uint64_t)number_of(json, "seed"),
        .single_step_seconds = number_of(json, "single_step_seconds"),
        .single_batch = (int64_t)number_of(json, "single_batch"),
        .compute_scale = number_of(json, "compute_scale"),
        .flops_per_step = number_of(json, "flops_per_step"),
        .asked_bytes = number_of(json, "asked_bytes"),
        .available_bytes = number_of(json, "available_bytes"),
        .status = (enum rh_status)number_of(json, "status"),
        .error = string_of(json, "error"),
    };
    if (!json) {
        row->report.status = RH_FAILED;
        row->report.error = "the process of this case died";
    }
    if (row->report.status != RH_OK)
        return;
    row->result.median_step_seconds = number_of(json, "step_seconds");
    row->result.exposed_communication_seconds = number_of(json, "exposed_communication_seconds");
    row->result.bubble_fraction = number_of(json, "bubble_fraction");
    read_devices(row, cJSON_GetObjectItemCaseSensitive(json, "devices"));
    read_waited_for(row, string_of(json, "waited_for"));
    read_losses(row, cJSON_GetObjectItemCaseSensitive(json, "losses"));
    row->report.device_names = row->names;
    row->report.result = &row->result;
}

static enum rh_status write_csv(const struct report_case *cases, int count, const char *path)
{
    if (strcmp(path, "-") == 0) {
        report_csv(cases, count, stdout);
        return RH_OK;
    }
    FILE *file = fopen(path, "w");
    if (!file)
        return fail(RH_INVALID, "cannot write '%s'", path);
    report_csv(cases, count, file);
    return fclose(file) == 0 ? RH_OK : fail(RH_FAILED, "cannot write '%s' to its end", path);
}

static enum rh_status write_json(cJSON *const *answers, int count, const char *path)
{
    cJSON *array = cJSON_CreateArray();
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(array,
                             answers[i] ? cJSON_Duplicate(answers[i], true) : cJSON_CreateNull());
    enum rh_status status = report_write_json(array, path);
    cJSON_Delete(array);
    return status;
}

static bool is_output(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* 0 if a case ran and the others merely did not fit; else what went wrong. */
static enum rh_status judge(const struct row *rows, int count)
{
    int fine = 0;
    enum rh_status worst = RH_OK;
    const char *error = NULL;
    for (int i = 0; i < count; i++) {
        enum rh_status status = rows[i].report.status;
        fine += status == RH_OK;
        bool heavier = worst == RH_OK || (worst == RH_OUT_OF_MEMORY && status != RH_OUT_OF_MEMORY);
        if (status == RH_OK || !heavier)
            continue;
        worst = status;
        error = rows[i].report.error;
    }
    if (worst == RH_OK || (worst == RH_OUT_OF_MEMORY && fine > 0))
        return RH_OK;
    return fail(worst, "%d of %d cases did not run; for example: %s", count - fine, count, error);
}

static enum rh_status show(const struct compare *compare, cJSON *const *answers, int count)
{
    struct row *rows = memory_new_array((size_t)count, sizeof *rows);
    struct report_case *cases = memory_new_array((size_t)count, sizeof *cases);
    for (int i = 0; i < count; i++) {
        read_row(&rows[i], answers[i], compare, i);
        cases[i] = rows[i].report;
    }
    if (!is_output(compare->csv) && !is_output(compare->json))
        report_table(cases, count, stdout);
    enum rh_status status = RH_OK;
    if (compare->csv)
        status = write_csv(cases, count, compare->csv);
    if (status == RH_OK && compare->json)
        status = write_json(answers, count, compare->json);
    if (status == RH_OK && compare->plot)
        status = report_plot(cases, count, compare->plot);
    if (status == RH_OK)
        status = judge(rows, count);
    for (int i = 0; i < count; i++) {
        free(rows[i].label);
        free(rows[i].result.devices);
        free(rows[i].result.losses);
        free(rows[i].names);
    }
    free(rows);
    free(cases);
    return status;
}

static enum rh_status compare_all(const struct compare *compare)
{
    int count = grid_cases(&compare->grid);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cJSON **answers = memory_new_array((size_t)count, sizeof *answers);
    struct pool pool = {.cases = count,
                        .jobs = compare->jobs ? compare->jobs
                                : cores > 0   ? (int)cores
                                              : 1,
                        .context = compare,
                        .answer = answer,
                        .progress = isatty(STDERR_FILENO) ? show_progress : NULL};
    enum rh_status status = pool_run(&pool, answers);
    if (status == RH_OK)
        status = show(compare, answers, count);
    for (int i = 0; i < count; i++)
        cJSON_Delete(answers[i]);
    free(answers);
    return status;
}

static enum rh_status run(int argc, char **argv)
{
    struct compare compare = {0};
    const struct option options[] = {
        {"strategy", OPTION_STRING, &compare.strategies},
        {"cluster", OPTION_STRING, &compare.clusters},
        {"set", OPTION_LIST, &compare.settings},
        {"csv", OPTION_STRING, &compare.csv},
        {"json", OPTION_STRING, &compare.json},
        {"plot", OPTION_STRING, &compare.plot},
        {"numbers", OPTION_FLAG, &compare.numbers},
        {"jobs", OPTION_INTEGER, &compare.jobs},
    };
    enum rh_status status =
        options_read(&command_compare, argc, argv, options, sizeof options / sizeof *options,
                     &compare.grid.files, 1, 1000);
    if (status == RH_OK && compare.clusters)
        grid_add(&compare.grid, "cluster", compare.clusters);
    if (status == RH_OK && compare.strategies)
        grid_add(&compare.grid, "strategy.type", compare.strategies);
    for (int i = 0; i < compare.settings.count && status == RH_OK; i++)
        status = grid_add_setting(&compare.grid, compare.settings.items[i]);
    if (status == RH_OK)
        status = compare_all(&compare);
    grid_free(&compare.grid);
    list_free(&compare.settings, false);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .usage = "EXPERIMENT… [--strategy A,B,…] [--cluster A,B,…] [--set KEY=V1,V2,…]… [--csv FILE] "
             "[--json FILE] [--plot FILE.svg]",
    .summary = "run the grid of all that is named, one row a case",
    .help = "  --strategy A,B   strategies side by side\n"
            "  --cluster A,B    clusters side by side\n"
            "  --set KEY=V1,V2  any key side by side (data.batch=32,64)\n"
            "  --numbers        compute the values too\n"
            "  --csv FILE       rows for a spreadsheet ('-': standard output)\n"
            "  --json FILE      an array of reports ('-': standard output)\n"
            "  --plot FILE.svg  samples per second as a picture (gnuplot)\n"
            "  --jobs N         cases at a time (default: all cores)\n",
    .run = run,
};
