#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static void *checked(void *pointer, size_t bytes)
{
    if (!pointer && bytes) {
        fprintf(stderr, "rehearse: the host is out of memory: %zu bytes asked\n", bytes);
        exit(RH_OUT_OF_MEMORY);
    }
    return pointer;
}

static size_t product(size_t count, size_t bytes)
{
    if (bytes && count > SIZE_MAX / bytes)
        checked(NULL, SIZE_MAX);
    return count * bytes;
}

void *memory_new(size_t bytes)
{
    return checked(calloc(1, bytes ? bytes : 1), bytes ? bytes : 1);
}

void *memory_new_array(size_t count, size_t bytes)
{
    return memory_new(product(count, bytes));
}

void *memory_resize(void *old, size_t count, size_t bytes)
{
    size_t total = product(count, bytes);
    return checked(realloc(old, total ? total : 1), total ? total : 1);
}

char *text_copy(const char *text)
{
    if (!text)
        return NULL;
    size_t bytes = strlen(text) + 1;
    return memcpy(memory_new(bytes), text, bytes);
}

char *text_format(const char *format, ...)
{
    va_list arguments;
    va_list again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = memory_new((size_t)(length < 0 ? 0 : length) + 1);
    if (length > 0)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void *array_grow(void *array, size_t element_bytes, int count, int *capacity)
{
    if (count >= *capacity) {
        *capacity = *capacity ? *capacity * 2 : 8;
        array = memory_resize(array, (size_t)*capacity, element_bytes);
    }
    memset((char *)array + (size_t)count * element_bytes, 0, element_bytes);
    return array;
}
