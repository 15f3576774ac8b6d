#include "op/type.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[DTYPE_COUNT] = {
    [DTYPE_F32] = {"fp32", 4}, [DTYPE_TF32] = {"tf32", 4}, [DTYPE_BF16] = {"bf16", 2},
    [DTYPE_F16] = {"fp16", 2}, [DTYPE_I64] = {"int64", 8}, [DTYPE_I32] = {"int32", 4},
};

const char *dtype_name(enum dtype dtype)
{
    assert((unsigned)dtype < DTYPE_COUNT);
    return dtypes[dtype].name;
}

size_t dtype_bytes(enum dtype dtype)
{
    assert((unsigned)dtype < DTYPE_COUNT);
    return dtypes[dtype].bytes;
}

bool dtype_parse(const char *name, enum dtype *dtype)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (!strcmp(name, dtypes[i].name)) {
            *dtype = (enum dtype)i;
            return true;
        }
    return false;
}

/* Saturates: an absurd shape must be refused for want of memory, not wrap to a small number. */
int64_t shape_elements(const struct shape *shape)
{
    int64_t elements = 1;
    bool overflow = false;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] == 0)
            return 0;
        overflow = overflow || __builtin_mul_overflow(elements, shape->dim[i], &elements);
    }
    return overflow ? INT64_MAX : elements;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* Cut off where 64 characters do not hold it: for messages only. */
char *shape_text(char out[64], const struct shape *shape)
{
    size_t length = (size_t)snprintf(out, 64, "(");
    for (int i = 0; i < shape->rank && length < 64; i++)
        length += (size_t)snprintf(out + length, 64 - length, i ? ", %lld" : "%lld",
                                   (long long)shape->dim[i]);
    if (length < 64)
        snprintf(out + length, 64 - length, ")");
    return out;
}

struct shape shape_of(int rank, const int64_t *dim)
{
    struct shape shape = {.rank = rank};
    assert(rank >= 0 && rank <= MAX_RANK);
    for (int i = 0; i < rank; i++)
        shape.dim[i] = dim[i];
    return shape;
}

size_t type_bytes(const struct tensor_type *type)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)shape_elements(&type->shape), dtype_bytes(type->dtype),
                               &bytes))
        return SIZE_MAX;
    return bytes;
}
