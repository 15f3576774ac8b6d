#include "report/figures.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

bool case_has_result(const struct report_case *c)
{
    return c->status == RH_OK && c->result;
}

enum rh_status case_status(const struct report_case *c)
{
    return c->status == RH_OK && !c->result ? RH_FAILED : c->status;
}

const char *case_status_name(const struct report_case *c)
{
    switch (case_status(c)) {
    case RH_OK: return "ok";
    case RH_INVALID: return "invalid";
    case RH_OUT_OF_MEMORY: return "out_of_memory";
    default: return "failed";
    }
}

int case_devices(const struct report_case *c)
{
    if (c->device_count > 0)
        return c->device_count;
    return case_has_result(c) ? c->result->device_count : 0;
}

const char *case_name_at(const struct report_case *c, int index, char spare[32])
{
    if (c->device_names && c->device_names[index])
        return c->device_names[index];
    snprintf(spare, 32, "device %d", c->result->devices[index].device);
    return spare;
}

const char *case_device_name(const struct report_case *c, int device, char spare[32])
{
    for (int i = 0; case_has_result(c) && i < c->result->device_count; i++)
        if (c->result->devices[i].device == device)
            return case_name_at(c, i, spare);
    snprintf(spare, 32, "device %d", device);
    return spare;
}

double case_flops_per_second(const struct report_case *c)
{
    if (!case_has_result(c) || !figure_known(c->result->median_step_seconds) ||
        !figure_known(c->flops_per_step))
        return 0;
    return c->flops_per_step / c->result->median_step_seconds;
}

double device_peak_bytes(const struct device_result *device)
{
    double bytes = 0;
    for (int purpose = 0; purpose < PURPOSE_COUNT; purpose++)
        bytes += device->peak_bytes[purpose];
    return bytes;
}

const struct device_result *case_fullest(const struct report_case *c)
{
    const struct device_result *fullest = NULL;
    double most = -1;
    for (int i = 0; case_has_result(c) && i < c->result->device_count; i++) {
        const struct device_result *device = &c->result->devices[i];
        double share = figure_known(device->capacity_bytes)
                           ? device_peak_bytes(device) / device->capacity_bytes
                           : 0;
        if (share > most) {
            most = share;
            fullest = device;
        }
    }
    return fullest;
}

int case_fastest(const struct report_case *cases, int count)
{
    int fastest = -1;
    for (int i = 0; i < count; i++) {
        if (!case_has_result(&cases[i]) || !figure_known(cases[i].samples_per_second))
            continue;
        if (fastest < 0 || cases[i].samples_per_second > cases[fastest].samples_per_second)
            fastest = i;
    }
    return fastest;
}

/* Copies one line of the text, at most so many bytes, cut at a whole character. */
static void copy_short(char *out, size_t most, const char *text)
{
    size_t length = strcspn(text, "\r\n");
    bool cut = length >= most;
    if (cut) {
        length = most - sizeof "…";
        while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80)
            length--;
    }
    snprintf(out, most, "%.*s%s", (int)length, text, cut ? "…" : "");
}

char *case_failure(const struct report_case *c, char out[128])
{
    if (c->status == RH_OUT_OF_MEMORY && figure_known(c->asked_bytes)) {
        struct scale scale = scale_bytes(c->asked_bytes);
        snprintf(out, 128, "does not fit: %.1f of %.1f %s", c->asked_bytes / scale.unit,
                 c->available_bytes / scale.unit, scale.name);
        return out;
    }
    const char *error = c->error && *c->error ? c->error : "no result and no reason given";
    const char *core = c->status == RH_OUT_OF_MEMORY ? strstr(error, "does not fit") : NULL;
    if (core) { /* what the placement says, without the place before it and the list behind it */
        char whole[128];
        size_t length = strcspn(core, ";(");
        while (length > 0 && core[length - 1] == ' ')
            length--;
        snprintf(whole, sizeof whole, "%.*s", (int)(length < 127 ? length : 127), core);
        copy_short(out, 96, whole);
        return out;
    }
    char line[104];
    copy_short(line, 96, error);
    snprintf(out, 128, "%s: %s",
             c->status == RH_OUT_OF_MEMORY ? "does not fit"
             : c->status == RH_INVALID     ? "invalid"
                                           : "failed",
             line);
    return out;
}

bool figure_known(double value)
{
    return isfinite(value) && value > 0;
}

struct scale scale_seconds(double typical_seconds)
{
    if (typical_seconds >= 1)
        return (struct scale){1, "s", 3};
    if (typical_seconds >= 1e-3 || !figure_known(typical_seconds))
        return (struct scale){1e-3, "ms", 3};
    return (struct scale){1e-6, "us", 3};
}

struct scale scale_bytes(double largest_bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct scale scale = {1, names[0], 0};
    for (int i = 1; i < 5 && largest_bytes >= 1024 * scale.unit; i++)
        scale = (struct scale){scale.unit * 1024, names[i], 2};
    return scale;
}

char *scaled(char out[32], struct scale scale, double value)
{
    double least = pow(10, -scale.decimals);
    value /= scale.unit;
    if (!isfinite(value) || value == 0)
        snprintf(out, 32, "-");
    else if (value > 0 && value < least / 2)
        snprintf(out, 32, "<%.*f", scale.decimals, least);
    else
        snprintf(out, 32, "%.*f", scale.decimals, value);
    return out;
}

char *percent(char out[32], double part, double whole)
{
    if (!figure_known(whole) || !isfinite(part))
        snprintf(out, 32, "-");
    else
        snprintf(out, 32, "%.1f %%", 100 * part / whole);
    return out;
}

char *flops_text(char out[32], double flops_per_second)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    int i = 0;
    if (!figure_known(flops_per_second))
        return snprintf(out, 32, "-"), out;
    while (flops_per_second >= 1000 && i < 6) {
        flops_per_second /= 1000;
        i++;
    }
    snprintf(out, 32, "%.1f %sFLOP/s", flops_per_second, prefixes[i]);
    return out;
}

const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}
