/* libFuzzer target: any bytes as a safetensors file; what is accepted must lie inside the
 * file and survive a second reading of what is written from it. Not built by default:
 * clang -fsanitize=fuzzer,address,undefined with src/data/safetensors.c, src/op/type.c, src/base.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int condition)
{
    if (!condition)
        abort();
}

/* The reader takes a path: the bytes lie in a file that has no other name. */
static enum rh_status read_bytes(const uint8_t *data, size_t size, struct safetensors *file)
{
    char path[64];
    int memory = memfd_create("fuzz", 0);
    need(memory >= 0 && write(memory, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    enum rh_status status = safetensors_read(path, file);
    close(memory);
    return status;
}

/* Every range lies inside the file; the sanitizer alone would not see a small step outside, since
 * the reader's memory is longer than the file. */
static void check_tensors(const struct safetensors *file, size_t size)
{
    for (int i = 0; i < file->count; i++) {
        const struct named_tensor *tensor = &file->tensors[i];
        size_t first = (size_t)((const char *)tensor->data - (const char *)file->memory);
        need(first >= 8 && first <= size && type_bytes(&tensor->type) <= size - first);
        need(safetensors_find(file, tensor->name) == tensor);
    }
}

static void check_rewrite(const struct safetensors *file)
{
    char path[64];
    struct safetensors again;
    snprintf(path, sizeof path, "fuzz-safetensors-%ld", (long)getpid());
    need(safetensors_write(path, file->tensors, file->count) == RH_OK);
    need(safetensors_read(path, &again) == RH_OK && again.count == file->count);
    for (int i = 0; i < file->count; i++) {
        size_t bytes = type_bytes(&file->tensors[i].type);
        need(strcmp(again.tensors[i].name, file->tensors[i].name) == 0);
        need(type_bytes(&again.tensors[i].type) == bytes);
        need(bytes == 0 || memcmp(again.tensors[i].data, file->tensors[i].data, bytes) == 0);
    }
    unlink(path);
    safetensors_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors file;
    if (read_bytes(data, size, &file) == RH_OK) {
        check_tensors(&file, size);
        check_rewrite(&file);
    }
    safetensors_free(&file); /* also after a refusal: it must leave nothing */
    return 0;
}
