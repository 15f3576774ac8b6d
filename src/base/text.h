/* Words: growing strings, quantities for people, the nearest known name for a mistyped one. */
#ifndef REHEARSE_BASE_TEXT_H
#define REHEARSE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing string. Zero-initialise it; free(text.data) ends it. `data` is NULL while empty. */
struct text {
    char *data;
    size_t length;
    size_t capacity;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The whole file as a string with a final NUL (length in *bytes when not NULL), owned by the
 * caller; NULL and a recorded error ("cannot read 'x': No such file") otherwise. */
char *text_read_file(const char *path, size_t *bytes);

/* "31.5 GiB", "97.3 ms", "2.31 k": written into `out`, which is returned. */
char *text_bytes(char out[32], double bytes);
char *text_seconds(char out[32], double seconds);

/* The name nearest to `word` by edit distance, or NULL if none is near enough to suggest. */
const char *text_nearest(const char *word, const char *const *names, int count);

/* FNV-1a, 64 bits: names a file's content in a report. Not cryptographic. */
uint64_t text_hash(const void *data, size_t bytes);

bool text_starts_with(const char *text, const char *prefix);

#endif
