#include "plan/result.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void result_free(struct result *result)
{
    free(result->step_seconds);
    free(result->devices);
    free(result->losses);
    free(result->spans);
    memset(result, 0, sizeof *result);
}

/* A device stands out if it computes longer than the median by more than this share. */
static const double stands_out = 0.02;

/* A stretch of one device; `work` is -1 for communication. */
struct stretch {
    int device, work;
    double start, end;
};

static int compare_stretches(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median_of(const double *values, int count)
{
    if (count <= 0)
        return 0;
    double *sorted = memory_new_array((size_t)count, sizeof *sorted);
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    double median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    free(sorted);
    return median;
}

/* Of the spans that lie in the step, cut to it, by device and start. */
static struct stretch *stretches_of(const struct result *result, double start, double end,
                                    int *count)
{
    struct stretch *all = memory_new_array((size_t)result->span_count, sizeof *all);
    *count = 0;
    for (int i = 0; i < result->span_count; i++) {
        const struct span *span = &result->spans[i];
        struct stretch cut = {span->device, span->communication ? -1 : (int)span->work,
                              span->start_seconds > start ? span->start_seconds : start,
                              span->end_seconds < end ? span->end_seconds : end};
        if (!span->mark && cut.start < cut.end)
            all[(*count)++] = cut;
    }
    qsort(all, (size_t)*count, sizeof *all, compare_stretches);
    return all;
}

/* Which stretches a sum is over. */
enum selection { COMPUTING = WORK_OTHER + 1, COMMUNICATING, EITHER };

static bool selected(const struct stretch *stretch, int selection)
{
    switch (selection) {
    case COMPUTING: return stretch->work >= 0;
    case COMMUNICATING: return stretch->work < 0;
    case EITHER: return true;
    default: return stretch->work == selection;
    }
}

/* Seconds covered by at least one, in order of start. */
static double covered_seconds(const struct stretch *stretches, int count, int selection)
{
    double covered = 0, until = 0;
    bool any = false;
    for (int i = 0; i < count; i++) {
        if (!selected(&stretches[i], selection) || (any && stretches[i].end <= until))
            continue;
        covered +=
            stretches[i].end - (any && stretches[i].start < until ? until : stretches[i].start);
        until = stretches[i].end;
        any = true;
    }
    return covered;
}

static void account_device(struct device_result *device, const struct stretch *stretches, int count,
                           double step_seconds)
{
    double either = covered_seconds(stretches, count, EITHER);
    device->busy_seconds = covered_seconds(stretches, count, COMPUTING);
    device->communication_seconds = covered_seconds(stretches, count, COMMUNICATING);
    device->exposed_seconds = either - device->busy_seconds;
    device->idle_seconds = step_seconds - either;
    if (device->exposed_seconds < 0) /* rounding */
        device->exposed_seconds = 0;
    if (device->idle_seconds < 0)
        device->idle_seconds = 0;
    for (int work = 0; work <= WORK_OTHER; work++)
        device->work_seconds[work] = covered_seconds(stretches, count, work);
}

static int find_device(const struct stretch *stretches, int count, int device)
{
    int low = 0, high = count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (stretches[middle].device < device)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void account_means(struct result *result, double step_seconds)
{
    double *busy = memory_new_array((size_t)result->device_count, sizeof *busy);
    double exposed = 0, idle = 0;
    const struct device_result *busiest = NULL;
    int computing = 0;
    for (int i = 0; i < result->device_count; i++) {
        const struct device_result *device = &result->devices[i];
        if (device->busy_seconds <= 0)
            continue;
        busy[computing++] = device->busy_seconds;
        exposed += device->exposed_seconds;
        idle += device->idle_seconds;
        if (!busiest || device->busy_seconds > busiest->busy_seconds)
            busiest = device;
    }
    result->exposed_communication_seconds = computing ? exposed / computing : 0;
    result->bubble_fraction = computing && step_seconds > 0 ? idle / computing / step_seconds : 0;
    result->waited_for = -1;
    if (busiest && busiest->busy_seconds > (1 + stands_out) * median_of(busy, computing))
        result->waited_for = busiest->device;
    free(busy);
}

void result_account(struct result *result, double step_start_seconds, double step_end_seconds)
{
    int count;
    double step_seconds = step_end_seconds - step_start_seconds;
    struct stretch *all = stretches_of(result, step_start_seconds, step_end_seconds, &count);
    for (int i = 0; i < result->device_count; i++) {
        struct device_result *device = &result->devices[i];
        int first = find_device(all, count, device->device);
        int behind = find_device(all, count, device->device + 1);
        account_device(device, all + first, behind - first, step_seconds);
    }
    free(all);
    bool only_first = result->step_count <= 1;
    result->median_step_seconds = median_of(result->step_seconds + (only_first ? 0 : 1),
                                            result->step_count - (only_first ? 0 : 1));
    account_means(result, step_seconds);
}
