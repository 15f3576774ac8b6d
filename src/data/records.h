/* Labelled images of one byte a pixel, from MNIST's IDX files or CIFAR-10's binary ones, in memory
 * as they are in the file. */
#ifndef REHEARSE_DATA_RECORDS_H
#define REHEARSE_DATA_RECORDS_H

#include "base/status.h"
#include "op/type.h"

struct records {
    char *memory[2];                      /* what the rest points into */
    const unsigned char *pixels, *labels; /* of the first record */
    size_t pixel_stride, label_stride;    /* bytes from one record to the next */
    int64_t count;
    struct shape image; /* channels, height, width */
};

/* Fails on a wrong magic number, another element type than bytes, a file that is longer or shorter
 * than its header says, and on unequal counts. */
enum rh_status records_read_idx(const char *images, const char *labels, struct records *records);
/* Rows of one label and 3 x 32 x 32 bytes; the files follow one another. */
enum rh_status records_read_cifar10(char *const *files, int count, struct records *records);
void records_free(struct records *records);

#endif
