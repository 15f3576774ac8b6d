#include "report/devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "report/columns.h"
#include "report/figures.h"

enum { ROWS_MOST = 16, ROWS_FIRST = 8, MEASURE_COUNT = 2 };

/* What a table shows of a device: cells separated by tabs, and the measures whose extremes are kept
 * in a table that is too long. */
struct view_of_devices {
    const char *title;
    void (*head)(const struct view_of_devices *view, struct text *cells);
    void (*row)(const struct view_of_devices *view, const struct device_result *device,
                struct text *cells);
    double (*measure[MEASURE_COUNT])(const struct device_result *device);
    const char *most[MEASURE_COUNT], *least[MEASURE_COUNT];
    struct scale scale;
    bool work[WORK_OTHER + 1];   /* kinds of work that occur on some device */
    bool purpose[PURPOSE_COUNT]; /* purposes that occur */
};

/* Devices whose rows read the same. */
struct kind {
    char *row;
    int first; /* index of its first device */
    int count;
    const char *remark; /* "busiest", or NULL */
    bool shown;
};

static void head_time(const struct view_of_devices *view, struct text *cells)
{
    text_add(cells, "busy");
    for (int work = 0; work <= WORK_OTHER; work++)
        if (view->work[work])
            text_add(cells, "\t%s", work_name((enum work)work));
    text_add(cells, "\ttransfers\texposed\tidle");
}

static void row_time(const struct view_of_devices *view, const struct device_result *device,
                     struct text *cells)
{
    char cell[32];
    double step = device->busy_seconds + device->exposed_seconds + device->idle_seconds;
    text_add(cells, "%s", percent(cell, device->busy_seconds, step));
    for (int work = 0; work <= WORK_OTHER; work++)
        if (view->work[work])
            text_add(cells, "\t%s", scaled(cell, view->scale, device->work_seconds[work]));
    text_add(cells, "\t%s", scaled(cell, view->scale, device->communication_seconds));
    text_add(cells, "\t%s", scaled(cell, view->scale, device->exposed_seconds));
    text_add(cells, "\t%s", scaled(cell, view->scale, device->idle_seconds));
}

static void head_memory(const struct view_of_devices *view, struct text *cells)
{
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        if (view->purpose[purpose])
            text_add(cells, "%s\t", purpose_name((enum purpose)purpose));
    text_add(cells, "total\tfree\tcapacity");
}

static void row_memory(const struct view_of_devices *view, const struct device_result *device,
                       struct text *cells)
{
    char cell[32];
    double total = device_peak_bytes(device);
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        if (view->purpose[purpose])
            text_add(cells, "%s\t", scaled(cell, view->scale, device->peak_bytes[purpose]));
    text_add(cells, "%s\t", scaled(cell, view->scale, total));
    bool known = figure_known(device->capacity_bytes);
    text_add(cells, "%s\t",
             known ? scaled(cell, view->scale, device->capacity_bytes - total) : "-");
    text_add(cells, "%s", scaled(cell, view->scale, device->capacity_bytes));
}

static double measure_busy(const struct device_result *device)
{
    return device->busy_seconds;
}

static double measure_exposed(const struct device_result *device)
{
    return device->exposed_seconds;
}

static double measure_free(const struct device_result *device)
{
    return device->capacity_bytes - device_peak_bytes(device);
}

void device_model_name(const char *name, char out[64])
{
    const char *open = strrchr(name, '(');
    size_t length = open ? strcspn(open + 1, ")") : 0;
    snprintf(out, 64, "%.*s", (int)(length < 63 ? length : 63), open ? open + 1 : "");
}

static int compare_kinds(const void *a, const void *b)
{
    const struct kind *x = a, *y = b;
    int order = strcmp(x->row, y->row);
    return order ? order : x->first - y->first;
}

static int compare_first(const void *a, const void *b)
{
    return ((const struct kind *)a)->first - ((const struct kind *)b)->first;
}

/* One kind a device if they are few; else one for all whose model and row are the same, in order of
 * the first of each. */
static struct kind *find_kinds(const struct report_case *c, const struct view_of_devices *view,
                               int *kind_count)
{
    int count = c->result->device_count;
    struct kind *kinds = memory_new_array((size_t)count, sizeof *kinds);
    for (int i = 0; i < count; i++) {
        char spare[32], model[64];
        struct text cells = {0};
        device_model_name(case_name_at(c, i, spare), model);
        text_add(&cells, "%s\t", model);
        view->row(view, &c->result->devices[i], &cells);
        kinds[i] = (struct kind){.row = cells.data, .first = i, .count = 1};
    }
    *kind_count = count;
    if (count <= ROWS_MOST)
        return kinds;
    qsort(kinds, (size_t)count, sizeof *kinds, compare_kinds);
    int kept = 1;
    for (int i = 1; i < count; i++) {
        if (strcmp(kinds[i].row, kinds[kept - 1].row) == 0) {
            kinds[kept - 1].count++;
            free(kinds[i].row);
        } else {
            kinds[kept++] = kinds[i];
        }
    }
    qsort(kinds, (size_t)kept, sizeof *kinds, compare_first);
    *kind_count = kept;
    return kinds;
}

/* Of too many kinds: the first, and those with the most and the least of each measure. */
static void choose_kinds(const struct report_case *c, const struct view_of_devices *view,
                         struct kind *kinds, int count)
{
    for (int i = 0; i < count; i++)
        kinds[i].shown = count <= ROWS_MOST || i < ROWS_FIRST;
    for (int m = 0; count > ROWS_MOST && m < MEASURE_COUNT && view->measure[m]; m++) {
        int most = 0, least = 0;
        for (int i = 1; i < count; i++) {
            double value = view->measure[m](&c->result->devices[kinds[i].first]);
            if (value > view->measure[m](&c->result->devices[kinds[most].first]))
                most = i;
            if (value < view->measure[m](&c->result->devices[kinds[least].first]))
                least = i;
        }
        if (most == least)
            continue;
        kinds[most].shown = kinds[least].shown = true;
        kinds[most].remark = kinds[most].remark ? kinds[most].remark : view->most[m];
        kinds[least].remark = kinds[least].remark ? kinds[least].remark : view->least[m];
    }
}

/* Adds the cells of a text with tabs. */
static void add_cells(struct columns *table, const char *cells)
{
    for (;;) {
        size_t length = strcspn(cells, "\t");
        columns_add(table, "%.*s", (int)length, cells);
        if (!cells[length])
            return;
        cells += length + 1;
    }
}

static bool one_model(const struct kind *kinds, int count)
{
    size_t length = strcspn(kinds[0].row, "\t") + 1;
    for (int i = 1; i < count; i++)
        if (strncmp(kinds[i].row, kinds[0].row, length) != 0)
            return false;
    return length > 1;
}

static void add_device(struct columns *table, const struct report_case *c, const struct kind *kind,
                       bool short_name)
{
    char spare[32];
    const char *name = case_name_at(c, kind->first, spare);
    size_t length = short_name ? strcspn(name, "(") : strlen(name);
    while (length > 0 && name[length - 1] == ' ')
        length--;
    columns_add(table, "%.*s", (int)length, name);
    add_cells(table, strchr(kind->row, '\t') + 1);
    struct text remark = {0};
    if (kind->count > 1)
        text_add(&remark, "… %d more like %s", kind->count - 1, kind->count > 2 ? "these" : "this");
    if (kind->remark)
        text_add(&remark, "%s%s", remark.length ? ", " : "", kind->remark);
    columns_add(table, "%s", remark.data ? remark.data : "");
    free(remark.data);
}

static void view_print(const struct report_case *c, const struct view_of_devices *view, FILE *out)
{
    int kind_count, hidden = 0, hidden_kinds = 0;
    struct kind *kinds = find_kinds(c, view, &kind_count);
    choose_kinds(c, view, kinds, kind_count);
    struct text head = {0}, alignment = {0};
    view->head(view, &head);
    text_add(&alignment, "lr");
    for (const char *p = head.data; *p; p++)
        if (*p == '\t')
            text_add(&alignment, "r");
    text_add(&alignment, "l");
    struct columns *table = columns_new(alignment.data);
    bool short_name = one_model(kinds, kind_count);
    columns_add(table, "device");
    add_cells(table, head.data);
    columns_add(table, "%s", "");
    for (int i = 0; i < kind_count; i++) {
        if (kinds[i].shown) {
            add_device(table, c, &kinds[i], short_name);
        } else {
            hidden += kinds[i].count;
            hidden_kinds++;
        }
    }
    if (hidden > 0) {
        char *line =
            text_format("… %d more, %d different rows between these", hidden, hidden_kinds);
        columns_add_rest(table, line);
        free(line);
    }
    fprintf(out, "\n%s, %s%s%.*s\n", view->title, view->scale.name, short_name ? ", each " : "",
            short_name ? (int)strcspn(kinds[0].row, "\t") : 0, kinds[0].row);
    columns_print(table, 2, out);
    columns_free(table);
    for (int i = 0; i < kind_count; i++)
        free(kinds[i].row);
    free(kinds);
    free(head.data);
    free(alignment.data);
}

void devices_print(const struct report_case *c, FILE *out)
{
    const struct result *result = c->result;
    double largest = 0;
    if (result->device_count <= 0)
        return;
    struct view_of_devices time = {
        .title = "time of a step",
        .head = head_time,
        .row = row_time,
        .measure = {measure_busy, measure_exposed},
        .most = {"busiest", "most exposed"},
        .least = {"least busy", "least exposed"},
        .scale = scale_seconds(result->median_step_seconds),
    };
    struct view_of_devices memory = {
        .title = "peak memory",
        .head = head_memory,
        .row = row_memory,
        .measure = {measure_free},
        .most = {"most free"},
        .least = {"least free"},
    };
    for (int i = 0; i < result->device_count; i++) {
        const struct device_result *device = &result->devices[i];
        for (int work = 0; work <= WORK_OTHER; work++)
            time.work[work] |= figure_known(device->work_seconds[work]);
        for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
            memory.purpose[purpose] |= figure_known(device->peak_bytes[purpose]);
        largest = fmax(largest, device_peak_bytes(device));
    }
    memory.scale = scale_bytes(largest);
    view_print(c, &time, out);
    view_print(c, &memory, out);
}
