/* Memory for bookkeeping: these never return NULL. Running out ends the process with exit code 3
 * and one line; the large areas that hold numbers are allocated with a checked malloc instead. */
#ifndef REHEARSE_BASE_MEMORY_H
#define REHEARSE_BASE_MEMORY_H

#include <stdarg.h>
#include <stddef.h>

void *memory_new(size_t bytes);                             /* zeroed; freed with free() */
void *memory_new_array(size_t count, size_t bytes);         /* zeroed, overflow checked */
void *memory_resize(void *old, size_t count, size_t bytes); /* like realloc, overflow checked */
char *text_copy(const char *text);                          /* NULL gives NULL */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Appends a zeroed element to a growing array and points at it:
 *     struct layer *layer = ARRAY_ADD(model->layers, model->layer_count, model->layer_capacity);
 * The array, its count and its capacity are plain members (ints), all zero at first. */
#define ARRAY_ADD(array, count, capacity)                                                          \
    ((array) = array_grow((array), sizeof *(array), (count), &(capacity)), &(array)[(count)++])

void *array_grow(void *array, size_t element_bytes, int count, int *capacity);

#endif
