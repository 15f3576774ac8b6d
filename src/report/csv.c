#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/figures.h"

static void put_text(FILE *out, const char *text)
{
    if (!text)
        return;
    if (!text[strcspn(text, ",\"\r\n")] && *text != ' ') {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* The shortest digits that read back as the same number; nothing for what is not finite. */
static void put_number(FILE *out, double value)
{
    char digits[32];
    if (!isfinite(value))
        return;
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    fputs(digits, out);
}

/* A figure of which 0 means that nobody knows it. */
static void put_figure(FILE *out, double value)
{
    if (figure_known(value))
        put_number(out, value);
}

static void put_origin(const struct report_case *c, FILE *out)
{
    const char *const texts[] = {
        c->label,
        case_status_name(c),
        case_has_result(c) ? NULL : c->error,
        c->experiment,
        c->model,
        c->strategy,
        c->cluster,
        c->backend,
        c->backend_version,
        c->launch,
        c->precision,
        c->batch_fixed,
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put_text(out, texts[i]);
        fputc(',', out);
    }
    fprintf(out, "%d,%lld,%d,%d,%d,%llu", case_devices(c), (long long)c->batch, c->accumulate,
            c->microbatches, c->buckets, (unsigned long long)c->seed);
}

static void put_result(const struct report_case *c, FILE *out)
{
    char spare[32];
    const struct result *result = c->result;
    const struct device_result *fullest = case_fullest(c);
    const double figures[] = {
        result->median_step_seconds, c->samples_per_second,  c->speedup, c->efficiency,
        c->single_step_seconds,      (double)c->single_batch};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        fputc(',', out);
        put_figure(out, figures[i]);
    }
    fputc(',', out);
    put_number(out, result->exposed_communication_seconds);
    fputc(',', out);
    put_number(out, result->bubble_fraction);
    fputc(',', out);
    put_figure(out, case_flops_per_second(c));
    fputc(',', out);
    put_figure(out, c->compute_scale);
    fputc(',', out);
    if (fullest)
        put_text(out, case_device_name(c, fullest->device, spare));
    fputc(',', out);
    put_figure(out, fullest ? device_peak_bytes(fullest) : 0);
    fputc(',', out);
    put_figure(out, fullest ? fullest->capacity_bytes : 0);
    fputc(',', out);
    if (result->waited_for >= 0)
        put_text(out, case_device_name(c, result->waited_for, spare));
    fputc(',', out);
    if (result->losses && result->step_count > 0)
        put_number(out, result->losses[result->step_count - 1]);
}

void report_csv(const struct report_case *cases, int count, FILE *out)
{
    static const char columns_of_result[] =
        "step_seconds,samples_per_second,speedup,efficiency,single_step_seconds,single_batch,"
        "exposed_communication_seconds,bubble_fraction,flops_per_second,compute_scale,"
        "fullest_device,peak_bytes,capacity_bytes,waited_for,last_loss";
    fprintf(out,
            "label,status,error,experiment,model,strategy,cluster,backend,backend_version,launch,"
            "precision,batch_fixed,device_count,batch,accumulate,microbatches,buckets,seed,%s\n",
            columns_of_result);
    for (int i = 0; i < count; i++) {
        put_origin(&cases[i], out);
        if (case_has_result(&cases[i])) {
            put_result(&cases[i], out);
        } else {
            fputc(',', out);
            for (const char *p = columns_of_result; *p; p++)
                if (*p == ',')
                    fputc(',', out);
        }
        fputc('\n', out);
    }
}
