#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/placement.h"
#include "plan/uses.h"

struct moment {
    double change[PURPOSE_COUNT]; /* bytes */
};

/* Bytes that begin and end to be in use at each instruction; summed up in passing. */
static double fullest_moment(const struct role *role, const struct uses *uses, int device,
                             int instructions, double by_purpose[PURPOSE_COUNT])
{
    struct moment *moments = memory_new_array((size_t)instructions + 1, sizeof *moments);
    double live[PURPOSE_COUNT] = {0};
    double most = 0;
    for (int i = 0; i < role->buffer_count; i++) {
        const struct buffer *buffer = &role->buffers[i];
        if (buffer->device != device || uses->first[i] < 0)
            continue;
        moments[uses->first[i]].change[buffer->purpose] += (double)buffer->bytes;
        moments[uses->last[i] + 1].change[buffer->purpose] -= (double)buffer->bytes;
    }
    for (int i = 0; i < instructions; i++) {
        double sum = 0;
        for (int p = 0; p < PURPOSE_COUNT; p++)
            sum += live[p] += moments[i].change[p];
        if (sum > most) {
            most = sum;
            memcpy(by_purpose, live, sizeof live);
        }
    }
    free(moments);
    return most;
}

static int largest_purpose(const double by_purpose[PURPOSE_COUNT])
{
    int largest = 0;
    for (int p = 1; p < PURPOSE_COUNT; p++)
        if (by_purpose[p] > by_purpose[largest])
            largest = p;
    return largest;
}

void plan_peak(const struct plan *plan, int role, int device, double by_purpose[PURPOSE_COUNT])
{
    const struct role *r = &plan->roles[role];
    double transient[PURPOSE_COUNT] = {0};
    double most = 0, sum = 0;
    for (int list = 0; list < r->list_count; list++) {
        double here[PURPOSE_COUNT] = {0};
        struct uses uses;
        uses_init(&uses, r, list, NULL);
        double bytes = fullest_moment(r, &uses, device, r->lists[list].count, here);
        uses_clear(&uses);
        if (bytes > most) {
            most = bytes;
            memcpy(transient, here, sizeof here);
        }
    }
    memset(by_purpose, 0, PURPOSE_COUNT * sizeof *by_purpose);
    for (int i = 0; i < r->buffer_count; i++)
        if (r->buffers[i].device == device && r->buffers[i].lifetime == LIFETIME_PERSISTENT)
            by_purpose[r->buffers[i].purpose] += (double)r->buffers[i].bytes;
    int padded = largest_purpose(most > 0 ? transient : by_purpose);
    for (int p = 0; p < PURPOSE_COUNT; p++)
        sum += by_purpose[p] += transient[p];
    by_purpose[padded] += (double)(r->persistent_bytes[device] + r->arena_bytes[device]) - sum;
}

enum { NAMED = 3 };

/* Insertion into the three largest so far; the earlier buffer wins a tie. */
static int find_largest(const struct role *role, int device, int largest[NAMED])
{
    int count = 0;
    for (int i = 0; i < role->buffer_count; i++) {
        if (role->buffers[i].device != device || role->buffers[i].bytes == 0)
            continue;
        int at = count;
        while (at > 0 && role->buffers[largest[at - 1]].bytes < role->buffers[i].bytes)
            at--;
        if (at == NAMED)
            continue;
        if (count < NAMED)
            count++;
        memmove(largest + at + 1, largest + at, (size_t)(count - 1 - at) * sizeof *largest);
        largest[at] = i;
    }
    return count;
}

/* "15.2 of 16.0 GiB": one unit for both where they have the same. */
static char *part_text(char out[80], double part, double whole)
{
    char a[32], b[32];
    text_bytes(a, part);
    text_bytes(b, whole);
    char *unit = strchr(a, ' '), *other = strchr(b, ' ');
    if (unit && other && !strcmp(unit, other))
        *unit = '\0';
    snprintf(out, 80, "%s of %s", a, b);
    return out;
}

enum rh_status plan_fits(const struct plan *plan, int role, int device, const char *where,
                         double capacity_bytes, double runtime_bytes)
{
    const struct role *r = &plan->roles[role];
    double asked = (double)r->persistent_bytes[device] + (double)r->arena_bytes[device];
    double available = fmax(capacity_bytes - runtime_bytes, 0);
    int largest[NAMED];
    char a[32], b[80], c[32];
    if (asked <= available)
        return RH_OK;
    struct text names = {0};
    int count = find_largest(r, device, largest);
    for (int i = 0; i < count; i++) {
        const struct buffer *buffer = &r->buffers[largest[i]];
        text_add(&names, "%s%s %s", i ? ", " : "", buffer->name,
                 text_bytes(a, (double)buffer->bytes));
    }
    enum rh_status status = fail(
        RH_OUT_OF_MEMORY, "does not fit on '%s': %s asked, %s available (%s runtime); largest: %s",
        where, text_bytes(a, asked), part_text(b, available, capacity_bytes),
        text_bytes(c, runtime_bytes), names.data ? names.data : "none");
    free(names.data);
    return status;
}
