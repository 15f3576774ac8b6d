/* One convolution on a GPU with random operands: made, run, dropped. */
#ifndef REHEARSE_TESTS_CUDA_CASE_H
#define REHEARSE_TESTS_CUDA_CASE_H

#include "backends/cuda/convolution.h"

#define COUNT_OF(array) (int)(sizeof(array) / sizeof *(array))

/* Allowed: of_sum times the sum of the products' magnitudes and of_value times the result's. */
struct setting {
    const char *name;
    enum dtype type, compute;
    double of_sum, of_value;
};

struct picture {
    int n, c, h, w, k, kernel, stride, padding, groups;
};

struct direction {
    const char *name;
    enum op_kind kind;
    bool accumulate, bias, relu;
};

/* Host and device copies of an operand; guarded on the device. */
struct operand {
    enum dtype dtype;
    int64_t dim[4], n;
    float *values; /* as rounded to the type */
    size_t bytes;
    char *device;
};

struct run {
    struct session *s;
    const struct convolution *c;
    struct operand o[4]; /* a, b, out, bias */
    char *workspace;
    size_t workspace_bytes;
    void *out[2]; /* launched, captured */
};

struct convolution_request request_of(const struct picture *p, const struct setting *t,
                                      const struct direction *d, bool channels_last);
/* What was made is dropped by drop_run, after a failure too. */
enum rh_status make_run(struct session *s, const struct convolution_request *r, struct run *u);
enum rh_status launch(struct run *u);
/* Once launched and once captured, each on the same operands; results in u->out. */
enum rh_status run_twice(struct run *u);
bool is_guarded(const char *device_end); /* nothing was written there */
void drop_run(struct run *u);

/* rates.c: prints the rates in ResNet-50 and gives the number of failures. fresh: every search has
 * all of the time. */
int bench(struct session *s, bool fresh);

#endif
