#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/status.h"

void text_add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_list again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    size_t needed = text->length + (size_t)(length < 0 ? 0 : length) + 1;
    if (needed > text->capacity) {
        text->capacity = needed * 2 < 256 ? 256 : needed * 2;
        text->data = memory_resize(text->data, text->capacity, 1);
    }
    if (length >= 0)
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    va_end(again);
    text->length = needed - 1;
}

/* A pipe may never end. */
static const size_t PIPE_MOST = (size_t)1 << 26;

char *text_read_file(const char *path, size_t *bytes)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail(RH_INVALID, "cannot read '%s': %s", path, strerror(errno));
        return NULL;
    }
    int known = fstat(fileno(file), &info) == 0;
    if (!known || !(S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode))) {
        fclose(file);
        fail(RH_INVALID, "cannot read '%s': it is %s", path,
             known && S_ISDIR(info.st_mode) ? "a directory" : "no file");
        return NULL;
    }
    const size_t most = S_ISREG(info.st_mode) ? SIZE_MAX : PIPE_MOST;
    char *data = NULL;
    size_t length = 0;
    size_t capacity = 0;
    for (;;) {
        if (length + 1 >= capacity) {
            capacity = capacity ? capacity * 2 : (size_t)info.st_size + 4096;
            data = memory_resize(data, capacity, 1);
        }
        size_t got = fread(data + length, 1, capacity - length - 1, file);
        if (got == 0)
            break;
        length += got;
        if (length > most) {
            fclose(file);
            free(data);
            fail(RH_INVALID, "cannot read '%s': more than %zu bytes come out of a pipe", path,
                 most);
            return NULL;
        }
    }
    bool broken = ferror(file);
    fclose(file);
    if (broken) {
        free(data);
        fail(RH_INVALID, "cannot read '%s' to its end after %zu bytes", path, length);
        return NULL;
    }
    data[length] = '\0';
    if (bytes)
        *bytes = length;
    return data;
}

char *text_bytes(char out[32], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    while (fabs(bytes) >= 1024 && unit < 5) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

char *text_seconds(char out[32], double seconds)
{
    double size = fabs(seconds);
    if (size >= 1)
        snprintf(out, 32, "%.3f s", seconds);
    else if (size >= 1e-3)
        snprintf(out, 32, "%.3f ms", seconds * 1e3);
    else if (size >= 1e-6 || size == 0)
        snprintf(out, 32, "%.3f us", seconds * 1e6);
    else
        snprintf(out, 32, "%.3f ns", seconds * 1e9);
    return out;
}

static int edit_distance(const char *a, const char *b)
{
    enum { MOST = 64 };
    int row[MOST + 1];
    int length_b = (int)strlen(b);
    if (length_b > MOST || strlen(a) > MOST)
        return MOST;
    for (int j = 0; j <= length_b; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length_b; j++) {
            int above = row[j];
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[length_b];
}

const char *text_nearest(const char *word, const char *const *names, int count)
{
    const char *best = NULL;
    int best_distance = 1 + (int)strlen(word) / 2;
    for (int i = 0; i < count; i++) {
        int distance = edit_distance(word, names[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = names[i];
        }
    }
    return best;
}

uint64_t text_hash(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
    return hash;
}

bool text_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}
