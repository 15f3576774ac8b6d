/* What a tensor is: element type and shape. Data stands elsewhere. */
#ifndef REHEARSE_OP_TYPE_H
#define REHEARSE_OP_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANK = 5 };

/* TF32 is stored as fp32 and computed at the rate of TF32 tensor cores. */
enum dtype { DTYPE_F32, DTYPE_TF32, DTYPE_BF16, DTYPE_F16, DTYPE_I64, DTYPE_I32, DTYPE_COUNT };

/* rank 0 is a scalar: one element. */
struct shape {
    int rank;
    int64_t dim[MAX_RANK];
};

struct tensor_type {
    enum dtype dtype;
    struct shape shape;
    bool channels_last; /* (n, c, h, w) lies in memory as n, h, w, c; false: row-major */
};

const char *dtype_name(enum dtype dtype); /* "fp32", "tf32", "bf16", "fp16", "int64", "int32" */
size_t dtype_bytes(enum dtype dtype);
bool dtype_parse(const char *name, enum dtype *dtype); /* false: unknown name */

int64_t shape_elements(const struct shape *shape);
bool shape_equal(const struct shape *a, const struct shape *b);
char *shape_text(char out[64], const struct shape *shape); /* "(32, 3, 224, 224)" */
struct shape shape_of(int rank, const int64_t *dim);
size_t type_bytes(const struct tensor_type *type);

#endif
