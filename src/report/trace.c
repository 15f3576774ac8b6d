#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/figures.h"
#include "report/output.h"

/* Two threads a stream: 2i named ranges, 2i + 1 the work, where i numbers the streams' names. */
struct timeline {
    const struct report_case *c;
    const char **streams;
    int stream_count, stream_capacity;
    int *devices; /* numbers that have spans, sorted */
    int device_count;
    bool *used; /* [device_count][2 * stream_count] */
    FILE *out;
    bool any; /* an event was written */
};

static int compare_ints(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static bool drawable(const struct span *span)
{
    return isfinite(span->start_seconds) && isfinite(span->end_seconds);
}

static int stream_index(const struct timeline *t, const char *name)
{
    for (int i = 0; i < t->stream_count; i++)
        if (t->streams[i] == name || strcmp(t->streams[i], name) == 0)
            return i;
    return -1;
}

static int thread_of(const struct timeline *t, const struct span *span)
{
    return 2 * stream_index(t, or_dash(span->stream)) + (span->mark ? 0 : 1);
}

/* Which devices, streams and threads there are. */
static void find_rows(struct timeline *t)
{
    const struct result *result = t->c->result;
    int count = 0;
    t->devices = memory_new_array((size_t)result->span_count, sizeof *t->devices);
    for (int i = 0; i < result->span_count; i++) {
        const char *stream = or_dash(result->spans[i].stream);
        t->devices[i] = result->spans[i].device;
        if (stream_index(t, stream) < 0)
            *ARRAY_ADD(t->streams, t->stream_count, t->stream_capacity) = stream;
    }
    qsort(t->devices, (size_t)result->span_count, sizeof *t->devices, compare_ints);
    for (int i = 0; i < result->span_count; i++)
        if (count == 0 || t->devices[i] != t->devices[count - 1])
            t->devices[count++] = t->devices[i];
    t->device_count = count;
    int threads = 2 * t->stream_count;
    t->used = memory_new_array((size_t)count * (size_t)threads, sizeof *t->used);
    for (int i = 0; i < result->span_count; i++) {
        const struct span *span = &result->spans[i];
        int *device =
            bsearch(&span->device, t->devices, (size_t)count, sizeof *t->devices, compare_ints);
        if (drawable(span))
            t->used[(device - t->devices) * threads + thread_of(t, span)] = true;
    }
}

static void put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20)
            fprintf(out, "\\u%04x", byte);
        else
            fputc(byte, out);
    }
    fputc('"', out);
}

static void begin_event(struct timeline *t)
{
    fputs(t->any ? ",\n" : "\n", t->out);
    t->any = true;
}

/* A metadata event: a process's or a thread's name or place. */
static void put_metadata(struct timeline *t, const char *what, int device, int thread,
                         const char *name, int place)
{
    begin_event(t);
    fprintf(t->out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{", what, device,
            thread);
    if (name) {
        fputs("\"name\":", t->out);
        put_string(t->out, name);
    } else {
        fprintf(t->out, "\"sort_index\":%d", place);
    }
    fputs("}}", t->out);
}

static void put_rows(struct timeline *t)
{
    char spare[32];
    for (int i = 0; i < t->device_count; i++) {
        int device = t->devices[i];
        put_metadata(t, "process_name", device, 0, case_device_name(t->c, device, spare), 0);
        put_metadata(t, "process_sort_index", device, 0, NULL, i);
        for (int thread = 0; thread < 2 * t->stream_count; thread++) {
            if (!t->used[i * 2 * t->stream_count + thread])
                continue;
            char *name = text_format("%s%s", t->streams[thread / 2], thread % 2 ? "" : ": ranges");
            put_metadata(t, "thread_name", device, thread, name, 0);
            put_metadata(t, "thread_sort_index", device, thread, NULL, thread);
            free(name);
        }
    }
}

/* Both ends are rounded to 1 ns before they are subtracted, so that what touches still touches. */
static void put_span(struct timeline *t, const struct span *span)
{
    double start = round(span->start_seconds * 1e9), end = round(span->end_seconds * 1e9);
    begin_event(t);
    fputs("{\"ph\":\"X\",\"name\":", t->out);
    put_string(t->out, or_dash(span->name));
    fprintf(t->out, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f",
            span->mark            ? "range"
            : span->communication ? "communication"
                                  : "compute",
            span->device, thread_of(t, span), start / 1e3, fmax(end - start, 0) / 1e3);
    fprintf(t->out, ",\"args\":{\"step\":%d", span->step);
    if (span->microbatch >= 0)
        fprintf(t->out, ",\"microbatch\":%d", span->microbatch);
    fprintf(t->out, ",\"work\":\"%s\"}}", work_name(span->work));
}

static void put_trace(struct timeline *t)
{
    const struct report_case *c = t->c;
    const char *const origin[][2] = {
        {"experiment", c->experiment}, {"model", c->model},     {"strategy", c->strategy},
        {"cluster", c->cluster},       {"backend", c->backend}, {"launch", c->launch},
    };
    fprintf(t->out, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"folded\":%s",
            c->result->folded ? "true" : "false");
    for (size_t i = 0; i < sizeof origin / sizeof *origin; i++) {
        fprintf(t->out, ",\"%s\":", origin[i][0]);
        put_string(t->out, or_dash(origin[i][1]));
    }
    fputs("},\"traceEvents\":[", t->out);
    put_rows(t);
    for (int i = 0; i < c->result->span_count; i++)
        if (drawable(&c->result->spans[i]))
            put_span(t, &c->result->spans[i]);
    fputs("\n]}\n", t->out);
}

enum rh_status report_trace(const struct report_case *c, const char *path)
{
    struct output output;
    struct timeline timeline = {.c = c};
    if (!case_has_result(c))
        return fail(case_status(c), "no timeline to write to '%s': %s", path,
                    c->error ? c->error : "the case has no result");
    if (c->result->span_count <= 0)
        return fail(RH_FAILED, "no timeline to write to '%s': the run kept no spans", path);
    RETURN_IF_FAILED(output_open(path, &output));
    timeline.out = output.file;
    find_rows(&timeline);
    put_trace(&timeline);
    free(timeline.streams);
    free(timeline.devices);
    free(timeline.used);
    return output_close(&output);
}
