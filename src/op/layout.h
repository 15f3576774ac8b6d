/* Tensors between row-major order, in which callers give and take values, and the memory format of
 * their type. */
#ifndef REHEARSE_OP_LAYOUT_H
#define REHEARSE_OP_LAYOUT_H

#include "op/type.h"

/* The order in memory differs from row-major. */
bool layout_reorders(const struct tensor_type *type);
/* Both hold the type's bytes and do not overlap. */
void layout_from_rows(const struct tensor_type *type, const void *rows, void *memory);
void layout_to_rows(const struct tensor_type *type, const void *memory, void *rows);

#endif
