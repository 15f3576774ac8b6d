/* Tensors for the tests of kernels: made from literal values or from a fixed sequence. */
#ifndef REHEARSE_TESTS_TENSORS_H
#define REHEARSE_TESTS_TENSORS_H

#include "kernels/cpu/cpu.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE(...)                                                                                 \
    shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static inline struct tensor_type type_of(enum dtype dtype, struct shape shape)
{
    return (struct tensor_type){dtype, shape};
}

#define F32(...) type_of(DTYPE_F32, SHAPE(__VA_ARGS__))
#define I64(...) type_of(DTYPE_I64, SHAPE(__VA_ARGS__))

/* Over memory of the test itself. */
#define VECTOR(values) VECTOR_OF(values, sizeof(values) / sizeof *(values))
#define VECTOR_OF(values, count) ((struct cpu_tensor){(values), F32((int64_t)(count))})
#define INTEGERS(values)                                                                           \
    ((struct cpu_tensor){(values), I64((int64_t)(sizeof(values) / sizeof *(values)))})

/* Zeroed; ended by free(tensor.data). */
static inline struct cpu_tensor tensor_new(struct tensor_type type)
{
    size_t bytes = type_bytes(&type);
    return (struct cpu_tensor){calloc(1, bytes ? bytes : 1), type};
}

/* Values in (-1, 1): a golden-ratio sequence, so that each is at least 0.03 from 0 and 0.06 from
 * its 20 neighbours: small changes cross no kink of relu and no tie of max pooling. */
static inline struct cpu_tensor tensor_spread(struct shape shape, int seed)
{
    struct cpu_tensor tensor = tensor_new(type_of(DTYPE_F32, shape));
    int64_t elements = shape_elements(&shape);
    for (int64_t i = 0; i < elements; i++) {
        double turn = 0.6180339887498949 * (double)(i + 1) + 0.137 * seed;
        double value = 2 * (turn - (double)(int64_t)turn) - 1;
        ((float *)tensor.data)[i] = (float)(value < 0 ? value * 0.97 - 0.03 : value * 0.97 + 0.03);
    }
    return tensor;
}

static inline struct op op_of(enum op_kind kind)
{
    return (struct op){.kind = kind, .compute = DTYPE_F32};
}

static inline struct op op_window(enum op_kind kind, int kernel, int stride, int padding)
{
    struct op op = op_of(kind);
    op.window.kernel_h = op.window.kernel_w = kernel;
    op.window.stride_h = op.window.stride_w = stride;
    op.window.padding_h = op.window.padding_w = padding;
    op.window.dilation = op.window.groups = 1;
    return op;
}

#endif
