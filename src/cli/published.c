#include <stdio.h>

#include "calibrate/published.h"
#include "cli/cli.h"

static void print_error(const char *what, struct published_error e)
{
    printf("%s: mean absolute error %.1f %%, bias %+.1f %%, worst %.1f %% (%s %s)\n", what,
           e.mean * 100, e.bias * 100, e.worst * 100, e.worst_row->model, e.worst_row->name);
}

static void print_table(const struct published *p)
{
    printf("measured: %s\n\n", p->source);
    printf("%-18s %-8s %5s %12s %12s %8s\n", "model", "row", "GPUs", "measured", "predicted",
           "error");
    for (int i = 0; i < p->count; i++) {
        const struct published_row *row = &p->rows[i];
        if (!row->ddp) {
            printf("%-18s %-8s %5d %9.1f ms %12s\n", row->model, row->name, row->gpus,
                   row->measured_seconds * 1e3, "anchor");
            continue;
        }
        printf("%-18s %-8s %5d %9.1f ms %9.1f ms %+7.1f %%%s\n", row->model, row->name, row->gpus,
               row->measured_seconds * 1e3, row->predicted_seconds * 1e3,
               (row->predicted_seconds / row->measured_seconds - 1) * 100,
               row->fitted ? "  fitted, not counted" : "");
    }
    printf("\nfitted: %.1f us of device time a parameter tensor for DDP's copies\n",
           p->bucket_tensor_seconds * 1e6);
    print_error("null model, no cost of DDP", published_error(p, 1));
    print_error("null model, 5 % for DDP", published_error(p, 1.05));
    struct published_error e = published_error(p, 0);
    printf("signed mean error %+.1f %%\n", e.bias * 100);
    printf("mean absolute error %.1f %% over %d rows, worst %.1f %% (%s %s)\n", e.mean * 100,
           e.rows, e.worst * 100, e.worst_row->model, e.worst_row->name);
}

static enum rh_status run(int argc, char **argv)
{
    struct string_list files = {0};
    struct platform *platform = NULL;
    struct published published;
    enum rh_status status = options_read(&command_published, argc, argv, NULL, 0, &files, 1, 1);
    if (status == RH_OK)
        status = platform_open(&platform);
    if (status == RH_OK)
        status = published_read(files.items[0], &published);
    if (status == RH_OK) {
        status = published_predict(platform, &published);
        if (status == RH_OK)
            print_table(&published);
        published_free(&published);
    }
    if (platform)
        platform_close(platform);
    list_free(&files, false);
    return status;
}

const struct command command_published = {
    .name = "published",
    .usage = "FILE",
    .summary = "predict measurements that others published, and show the error of each",
    .help = "  FILE  an experiment with measured rows (experiments/published/pytorch-ddp.json)\n",
    .run = run,
};
