#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "report/columns.h"
#include "report/figures.h"

static const char *label_of(const struct report_case *c)
{
    return or_dash(c->label ? c->label : c->experiment);
}

static int word_count(const char *text)
{
    int count = 0;
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        text += strcspn(text, " ");
        count++;
    }
    return count;
}

/* How many columns the labels make: a column a word if all have equally many, else one. */
static int label_columns(const struct report_case *cases, int count)
{
    int words = count > 0 ? word_count(label_of(&cases[0])) : 1;
    for (int i = 1; i < count; i++)
        if (word_count(label_of(&cases[i])) != words)
            return 1;
    return words;
}

static void add_label(struct columns *table, const char *label, int words)
{
    if (words == 1) {
        columns_add(table, "%s", label);
        return;
    }
    for (int i = 0; i < words; i++) {
        label += strspn(label, " ");
        size_t length = strcspn(label, " ");
        columns_add(table, "%.*s", (int)length, label);
        label += length;
    }
}

/* The units that all rows share. */
struct units {
    struct scale seconds, bytes;
    int rate_decimals;
};

static struct units find_units(const struct report_case *cases, int count)
{
    double shortest = 0, slowest = 0, largest = 0;
    for (int i = 0; i < count; i++) {
        const struct device_result *fullest = case_fullest(&cases[i]);
        if (!case_has_result(&cases[i]))
            continue;
        double step = cases[i].result->median_step_seconds, rate = cases[i].samples_per_second;
        if (figure_known(step) && (shortest == 0 || step < shortest))
            shortest = step;
        if (figure_known(rate) && (slowest == 0 || rate < slowest))
            slowest = rate;
        if (fullest)
            largest = fmax(largest, device_peak_bytes(fullest));
    }
    return (struct units){scale_seconds(shortest), scale_bytes(largest), slowest < 10 ? 3 : 1};
}

static void add_figures(struct columns *table, const struct report_case *c,
                        const struct units *units)
{
    char cell[32], spare[32];
    struct scale rate = {1, "", units->rate_decimals}, plain = {1, "", 2};
    const struct result *result = c->result;
    const struct device_result *fullest = case_fullest(c);
    columns_add(table, "%s", scaled(cell, units->seconds, result->median_step_seconds));
    columns_add(table, "%s", scaled(cell, rate, c->samples_per_second));
    columns_add(table, "%s", scaled(cell, plain, c->speedup));
    columns_add(table, "%s", percent(cell, c->efficiency, c->efficiency > 0 ? 1 : 0));
    columns_add(table, "%s", scaled(cell, units->seconds, result->exposed_communication_seconds));
    columns_add(table, "%s", percent(cell, result->bubble_fraction, 1));
    columns_add(table, "%s",
                fullest ? scaled(cell, units->bytes, device_peak_bytes(fullest)) : "-");
    columns_add(table, "%s", fullest ? scaled(cell, units->bytes, fullest->capacity_bytes) : "-");
    struct text note = {0};
    if (result->waited_for >= 0)
        text_add(&note, "waits for %s", case_device_name(c, result->waited_for, spare));
    if (figure_known(c->compute_scale) && c->compute_scale != 1)
        text_add(&note, "%sanchored × %.3g", note.length ? "; " : "", c->compute_scale);
    columns_add(table, "%s", note.data ? note.data : "");
    free(note.data);
}

static struct columns *table_new(const struct units *units, int words)
{
    struct text alignment = {0};
    text_add(&alignment, "l");
    for (int i = 0; i < words; i++)
        text_add(&alignment, "l");
    text_add(&alignment, "rrrrrrrrl");
    struct columns *table = columns_new(alignment.data);
    free(alignment.data);
    columns_add(table, "%s", "");
    columns_add(table, "case");
    for (int i = 1; i < words; i++)
        columns_add(table, "%s", "");
    columns_add(table, "step, %s", units->seconds.name);
    columns_add(table, "samples/s");
    columns_add(table, "× one device");
    columns_add(table, "efficiency");
    columns_add(table, "exposed, %s", units->seconds.name);
    columns_add(table, "bubble");
    columns_add(table, "fullest, %s", units->bytes.name);
    columns_add(table, "of %s", units->bytes.name);
    columns_add(table, "note");
    return table;
}

void report_table(const struct report_case *cases, int count, FILE *out)
{
    struct units units = find_units(cases, count);
    int words = label_columns(cases, count);
    int fastest = case_fastest(cases, count);
    struct columns *table = table_new(&units, words);
    for (int i = 0; i < count; i++) {
        char failure[128];
        columns_add(table, "%s", i == fastest ? "*" : "");
        add_label(table, label_of(&cases[i]), words);
        if (case_has_result(&cases[i]))
            add_figures(table, &cases[i], &units);
        else
            columns_add_rest(table, case_failure(&cases[i], failure));
    }
    columns_print(table, 0, out);
    columns_free(table);
}
