/* Safetensors files in and out: named tensors, fp32 and int64 (others are listed and kept by type
 * name). Format: 8 bytes little-endian header length, JSON header, data. */
#ifndef REHEARSE_DATA_SAFETENSORS_H
#define REHEARSE_DATA_SAFETENSORS_H

#include "base/status.h"
#include "op/type.h"

struct named_tensor {
    char *name;
    struct tensor_type type;
    void *data; /* inside the file's own memory when read; the caller's when written */
};

/* A word of the header's __metadata__. */
struct named_text {
    char *name, *text;
};

struct safetensors {
    struct named_tensor *tensors;
    int count;
    struct named_text *metadata;
    int metadata_count;
    void *memory; /* the file's bytes */
};

/* Errors: unreadable, cut off, header that is not JSON or lies about offsets, overlapping or
 * missing ranges, unknown element type: one line that names the file, the tensor and both numbers.
 */
enum rh_status safetensors_read(const char *path, struct safetensors *file);
void safetensors_free(struct safetensors *file);
const struct named_tensor *safetensors_find(const struct safetensors *file, const char *name);
/* The text under `name` in the metadata; NULL: none. */
const char *safetensors_metadata(const struct safetensors *file, const char *name);

/* Written whole or not at all: temporary file in the same folder, fsync, rename, fsync of the
 * folder; after a failure the file is what it was. */
enum rh_status safetensors_write(const char *path, const struct named_tensor *tensors, int count);
enum rh_status safetensors_write_with(const char *path, const struct named_text *metadata,
                                      int metadata_count, const struct named_tensor *tensors,
                                      int count);

#endif
