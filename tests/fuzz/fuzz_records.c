/* libFuzzer target: any bytes as IDX images, IDX labels and CIFAR-10 rows; what is accepted must
 * lie inside the file. Not built by default: clang -fsanitize=fuzzer,address,undefined with
 * src/data/records.c, src/op/type.c, src/base. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct records *r, size_t size)
{
    size_t last = (size_t)r->count - 1;
    size_t image = (size_t)shape_elements(&r->image);
    const unsigned char *memory = (const unsigned char *)r->memory[0];
    if (r->count < 1 || r->pixels + last * r->pixel_stride + image > memory + size)
        abort();
}

/* The readers take paths: the bytes lie in files that have no other name. */
static int open_bytes(const uint8_t *data, size_t size, char path[64])
{
    int memory = memfd_create("fuzz", 0);
    if (memory < 0 || write(memory, data, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", memory);
    return memory;
}

/* The first byte says where the images end and the labels begin. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    char rest[64];
    char *files[] = {path};
    struct records records;
    if (size == 0)
        return 0;
    size_t cut = (size_t)data[0] * (size - 1) / 255;
    int first = open_bytes(data + 1, cut, path);
    int second = open_bytes(data + 1 + cut, size - 1 - cut, rest);
    if (records_read_idx(path, rest, &records) == RH_OK)
        check(&records, cut);
    records_free(&records);
    if (records_read_cifar10(files, 1, &records) == RH_OK)
        check(&records, cut);
    records_free(&records);
    close(first);
    close(second);
    return 0;
}
