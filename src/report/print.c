#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "report/columns.h"
#include "report/devices.h"
#include "report/figures.h"

enum { LABEL_WIDTH = 12, LINE_WIDTH = 100, LOSSES_FIRST = 3 };

/* A labelled line, broken between words under its beginning where it would be too long. Nothing if
 * the value is empty. Takes the value. */
static void print_field(FILE *out, const char *label, struct text *value)
{
    const char *rest = value->data;
    if (rest && *rest) {
        int column = 2 + LABEL_WIDTH;
        fprintf(out, "  %-*s", LABEL_WIDTH, label);
        while (*rest) {
            size_t length = strcspn(rest, " \n");
            char word[256];
            snprintf(word, sizeof word, "%.*s", (int)(length < 255 ? length : 255), rest);
            bool first = column == 2 + LABEL_WIDTH;
            if (!first && column + 1 + text_width(word) > LINE_WIDTH) {
                fprintf(out, "\n%*s", 2 + LABEL_WIDTH, "");
                column = 2 + LABEL_WIDTH;
                first = true;
            }
            fprintf(out, "%s%s", first ? "" : " ", word);
            column += text_width(word) + (first ? 0 : 1);
            rest += length < 255 ? length : 255;
            rest += strspn(rest, " \n");
        }
        fputc('\n', out);
    }
    free(value->data);
    *value = (struct text){0};
}

static void add_if(struct text *text, const char *before, const char *what, const char *after)
{
    if (what && *what)
        text_add(text, "%s%s%s", text->length ? before : "", what, after);
}

static void print_batch(const struct report_case *c, FILE *out)
{
    struct text line = {0};
    text_add(&line, "%lld samples a step", (long long)c->batch);
    if (c->accumulate > 1)
        text_add(&line, " in %d accumulated passes", c->accumulate);
    if (c->batch_fixed && *c->batch_fixed)
        text_add(&line, "; %s is held fixed",
                 strcmp(c->batch_fixed, "batch") == 0              ? "the whole batch"
                 : strcmp(c->batch_fixed, "batch_per_device") == 0 ? "the batch per device"
                                                                   : c->batch_fixed);
    print_field(out, "batch", &line);
}

static void print_header(const struct report_case *c, FILE *out)
{
    struct text line = {0};
    fprintf(out, "%s\n", or_dash(c->experiment));
    add_if(&line, "", c->model, "");
    add_if(&line, ", ", c->precision, "");
    print_field(out, "model", &line);
    add_if(&line, "", c->strategy, "");
    if (c->microbatches > 1)
        text_add(&line, ", %d microbatches", c->microbatches);
    if (c->buckets > 0)
        text_add(&line, ", %d bucket%s", c->buckets, c->buckets == 1 ? "" : "s");
    print_field(out, "strategy", &line);
    add_if(&line, "", c->cluster, "");
    int devices = case_devices(c);
    if (devices > 0)
        text_add(&line, "%s%d device%s", line.length ? " × " : "", devices,
                 devices == 1 ? "" : "s");
    print_field(out, "cluster", &line);
    add_if(&line, "", c->backend, "");
    add_if(&line, " ", c->backend_version, "");
    add_if(&line, ", ", c->launch, " launch");
    print_field(out, "backend", &line);
    if (case_has_result(c))
        add_if(&line, "", c->result->network_settings, "");
    print_field(out, "network", &line);
    print_batch(c, out);
    if (case_has_result(c) && c->result->folded)
        text_add(&line, "nodes that do the same were simulated once");
    print_field(out, "folded", &line);
}

static void print_step(const struct report_case *c, FILE *out)
{
    char a[32], b[32];
    struct text line = {0};
    const struct result *result = c->result;
    double median = result->median_step_seconds;
    text_add(&line, "%s",
             result->step_count <= 0 ? "no step was run"
             : isfinite(median)      ? text_seconds(a, median)
                                     : "unknown");
    if (result->step_count > 1)
        text_add(&line, ", median of %d step%s after the first, which took %s",
                 result->step_count - 1, result->step_count > 2 ? "s" : "",
                 text_seconds(b, result->step_seconds[0]));
    else if (result->step_count == 1)
        text_add(&line, ", the only step");
    print_field(out, "step time", &line);
    if (figure_known(c->samples_per_second))
        text_add(&line, "%.*f samples/s", c->samples_per_second < 10 ? 3 : 1,
                 c->samples_per_second);
    print_field(out, "rate", &line);
    if (figure_known(c->speedup)) {
        text_add(&line, "%.2f × one device", c->speedup);
        if (c->single_batch > 0 && figure_known(c->single_step_seconds))
            text_add(&line, ", which takes %s for %lld samples",
                     text_seconds(a, c->single_step_seconds), (long long)c->single_batch);
    }
    if (figure_known(c->efficiency))
        text_add(&line, "%sefficiency %s", line.length ? "; " : "", percent(a, c->efficiency, 1));
    print_field(out, "speed-up", &line);
}

static void print_losses(const struct report_case *c, FILE *out)
{
    const struct result *result = c->result;
    struct text line = {0};
    int count = result->losses ? result->step_count : 0;
    int first = count <= LOSSES_FIRST + 1 ? count : LOSSES_FIRST;
    for (int i = 0; i < first; i++)
        text_add(&line, "%s%.6g", i ? ", " : "", result->losses[i]);
    if (first < count)
        text_add(&line, " … %.6g in step %d", result->losses[count - 1], c->first_step + count);
    if (count > 0 && c->first_step > 0)
        text_add(&line, " (resumed after step %d)", c->first_step);
    print_field(out, "losses", &line);
}

static void print_scaling(const struct result *result, FILE *out)
{
    struct text line = {0};
    if (!result->scaled)
        return;
    text_add(&line, "norm %.6g in the last step", result->gradient_norm);
    if (result->loss_scale > 0)
        text_add(&line, "; loss scale %g, %d step%s skipped", result->loss_scale,
                 result->skipped_steps, result->skipped_steps == 1 ? "" : "s");
    print_field(out, "gradients", &line);
}

static void print_memory(const struct report_case *c, FILE *out)
{
    char predicted[32], planned[32], runtime[32], measured[32];
    const struct memory_result *m = &c->result->memory;
    double bytes = m->planned_bytes + m->runtime_bytes;
    struct text line = {0};
    if (!figure_known(m->measured_bytes) || !figure_known(bytes))
        return;
    text_add(&line, "%s predicted (%s of the plan, %s runtime), %s measured, %+.2f %%",
             text_bytes(predicted, bytes), text_bytes(planned, m->planned_bytes),
             text_bytes(runtime, m->runtime_bytes), text_bytes(measured, m->measured_bytes),
             100 * (m->measured_bytes / bytes - 1));
    print_field(out, "GPU memory", &line);
}

static void print_figures(const struct report_case *c, FILE *out)
{
    char a[32], b[32], spare[32];
    struct text line = {0};
    const struct result *result = c->result;
    double step = result->median_step_seconds, flops = case_flops_per_second(c);
    print_step(c, out);
    if (figure_known(step)) {
        text_add(&line, "%s of communication that nothing hides, %s of the step",
                 text_seconds(a, result->exposed_communication_seconds),
                 percent(b, result->exposed_communication_seconds, step));
        print_field(out, "exposed", &line);
        text_add(&line, "%s of the step with neither work nor communication",
                 percent(a, result->bubble_fraction, 1));
        print_field(out, "bubble", &line);
    }
    if (flops > 0) {
        text_add(&line, "%s achieved", flops_text(a, flops));
        if (case_devices(c) > 1)
            text_add(&line, ", %s a device", flops_text(b, flops / case_devices(c)));
        print_field(out, "compute", &line);
    }
    if (result->waited_for >= 0)
        text_add(&line, "%s: the others wait for it",
                 case_device_name(c, result->waited_for, spare));
    print_field(out, "slowest", &line);
    for (int i = 0; i < LINK_CLASS_COUNT; i++)
        if (figure_known(result->link_class_bytes[i]))
            text_add(&line, "%s%s %s", line.length ? ", " : "", link_class_name((enum link_class)i),
                     text_bytes(a, result->link_class_bytes[i]));
    if (line.length)
        text_add(&line, " a step");
    print_field(out, "links", &line);
    print_memory(c, out);
    print_losses(c, out);
    print_scaling(result, out);
    if (figure_known(c->compute_scale) && c->compute_scale != 1)
        text_add(&line, "compute seconds × %.4g, so that one device takes its measured time",
                 c->compute_scale);
    print_field(out, "anchor", &line);
}

void report_print(const struct report_case *c, FILE *out)
{
    print_header(c, out);
    fputc('\n', out);
    if (case_has_result(c)) {
        print_figures(c, out);
        devices_print(c, out);
        return;
    }
    char short_text[128];
    struct text line = {0};
    bool told = c->error && *c->error;
    if (c->status == RH_OUT_OF_MEMORY && figure_known(c->asked_bytes))
        text_add(&line, "%s%s", case_failure(c, short_text), told ? "; " : "");
    text_add(&line, "%s", told ? c->error : line.length ? "" : "no result and no reason given");
    print_field(out, "no result", &line);
}
