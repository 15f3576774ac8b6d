#include "data/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { IDX_BYTES = 8, IMAGE_RANK = 3, CIFAR_PIXELS = 3072, CIFAR_ROW = CIFAR_PIXELS + 1 };

static int64_t read_big_endian(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | (int64_t)b[3];
}

/* IDX: two zero bytes, the element type, the rank, and as many sizes; then the elements. */
static enum rh_status read_idx(const char *path, int rank, char **memory, int64_t dim[IMAGE_RANK])
{
    size_t bytes = 0;
    size_t header = 4 + 4 * (size_t)rank;
    *memory = text_read_file(path, &bytes);
    if (!*memory)
        return RH_INVALID;
    const unsigned char *magic = (const unsigned char *)*memory;
    if (bytes >= 2 && magic[0] == 0x1f && magic[1] == 0x8b)
        return fail(RH_INVALID, "'%s' is compressed by gzip: unpack it first", path);
    if (bytes < header)
        return fail(RH_INVALID,
                    "'%s' is cut off: an IDX header of %d dimensions has %zu bytes, %zu "
                    "are there",
                    path, rank, header, bytes);
    if (magic[0] || magic[1] || magic[2] != IDX_BYTES || magic[3] != rank)
        return fail(RH_INVALID,
                    "'%s' is no IDX file of bytes in %d dimensions: it begins with "
                    "%02x%02x%02x%02x, 0000%02x%02x is expected",
                    path, rank, magic[0], magic[1], magic[2], magic[3], IDX_BYTES, rank);
    double expected = 1;
    for (int i = 0; i < rank; i++) {
        dim[i] = read_big_endian(*memory + 4 + 4 * i);
        expected *= (double)dim[i];
    }
    if (expected < 1)
        return fail(RH_INVALID, "'%s' is empty: %lld records", path, (long long)dim[0]);
    if (expected != (double)(bytes - header))
        return fail(RH_INVALID, "'%s' is %s: its header says %.0f bytes of data, %zu are there",
                    path, expected > (double)(bytes - header) ? "cut off" : "too long", expected,
                    bytes - header);
    return RH_OK;
}

static enum rh_status read_pair(const char *images, const char *labels, struct records *r)
{
    int64_t image[IMAGE_RANK];
    int64_t label[IMAGE_RANK];
    RETURN_IF_FAILED(read_idx(images, 3, &r->memory[0], image));
    RETURN_IF_FAILED(read_idx(labels, 1, &r->memory[1], label));
    if (image[0] != label[0])
        return fail(RH_INVALID, "'%s' has %lld images, '%s' has %lld labels", images,
                    (long long)image[0], labels, (long long)label[0]);
    r->count = image[0];
    r->image = (struct shape){3, {1, image[1], image[2]}};
    r->pixels = (const unsigned char *)r->memory[0] + 16;
    r->labels = (const unsigned char *)r->memory[1] + 8;
    r->pixel_stride = (size_t)(image[1] * image[2]);
    r->label_stride = 1;
    return RH_OK;
}

enum rh_status records_read_idx(const char *images, const char *labels, struct records *r)
{
    *r = (struct records){0};
    enum rh_status status = read_pair(images, labels, r);
    if (status != RH_OK)
        records_free(r);
    return status;
}

static enum rh_status append_rows(const char *path, struct records *r, size_t *used)
{
    size_t bytes = 0;
    char *data = text_read_file(path, &bytes);
    if (!data)
        return RH_INVALID;
    if (bytes == 0 || bytes % CIFAR_ROW != 0) {
        free(data);
        return fail(RH_INVALID,
                    "'%s' is cut off or no CIFAR-10 file: %zu bytes are there, %zu would "
                    "be whole rows of %d",
                    path, bytes, (bytes / CIFAR_ROW + 1) * CIFAR_ROW, CIFAR_ROW);
    }
    r->memory[0] = memory_resize(r->memory[0], *used + bytes, 1);
    memcpy(r->memory[0] + *used, data, bytes);
    *used += bytes;
    free(data);
    return RH_OK;
}

enum rh_status records_read_cifar10(char *const *files, int count, struct records *r)
{
    size_t used = 0;
    enum rh_status status = RH_OK;
    *r = (struct records){0};
    for (int i = 0; i < count && status == RH_OK; i++)
        status = append_rows(files[i], r, &used);
    if (status != RH_OK) {
        records_free(r);
        return status;
    }
    r->count = (int64_t)(used / CIFAR_ROW);
    r->image = (struct shape){3, {3, 32, 32}};
    r->labels = (const unsigned char *)r->memory[0];
    r->pixels = r->labels + 1;
    r->pixel_stride = r->label_stride = CIFAR_ROW;
    return RH_OK;
}

void records_free(struct records *r)
{
    free(r->memory[0]);
    free(r->memory[1]);
    *r = (struct records){0};
}
