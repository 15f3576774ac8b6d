#include "op/layout.h"

#include <string.h>

bool layout_reorders(const struct tensor_type *type)
{
    const int64_t *dim = type->shape.dim;
    return type->channels_last && type->shape.rank == 4 && dim[1] > 1 && dim[2] * dim[3] > 1;
}

/* n pictures of `rows` x `columns` elements, each transposed. */
static void transpose(const char *from, char *to, int64_t pictures, int64_t rows, int64_t columns,
                      size_t size)
{
    for (int64_t n = 0; n < pictures; n++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                memcpy(to + (size_t)((n * columns + c) * rows + r) * size,
                       from + (size_t)((n * rows + r) * columns + c) * size, size);
}

void layout_from_rows(const struct tensor_type *type, const void *rows, void *memory)
{
    const int64_t *dim = type->shape.dim;
    if (layout_reorders(type))
        transpose(rows, memory, dim[0], dim[1], dim[2] * dim[3], dtype_bytes(type->dtype));
    else
        memcpy(memory, rows, type_bytes(type));
}

void layout_to_rows(const struct tensor_type *type, const void *memory, void *rows)
{
    const int64_t *dim = type->shape.dim;
    if (layout_reorders(type))
        transpose(memory, rows, dim[0], dim[2] * dim[3], dim[1], dtype_bytes(type->dtype));
    else
        memcpy(rows, memory, type_bytes(type));
}
