#include <assert.h>

#include "plan/plan.h"

/* Wraps on absurd shapes, which are refused for want of memory later. */
static int64_t product(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static void dense_strides(const struct shape *shape, bool channels_last, int64_t stride[MAX_RANK])
{
    static const int inner_first[4] = {1, 3, 2, 0}; /* c, w, h, n */
    int64_t step = 1;
    for (int i = 0; i < shape->rank; i++) {
        int d = channels_last && shape->rank == 4 ? inner_first[i] : shape->rank - 1 - i;
        stride[d] = step;
        step = product(step, shape->dim[d]);
    }
}

/* A dimension of one row is never stepped over, so its stride does not matter. */
static bool lies_as(const struct view *view, bool channels_last)
{
    const struct shape *shape = &view->type.shape;
    int64_t stride[MAX_RANK];
    dense_strides(shape, channels_last, stride);
    if (shape_elements(shape) == 0)
        return true;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] != 1 && view->stride[i] != stride[i])
            return false;
    return true;
}

static void set_dense(struct view *view)
{
    dense_strides(&view->type.shape, view->type.channels_last, view->stride);
}

bool view_is_dense(const struct view *view)
{
    return lies_as(view, view->type.channels_last);
}

bool view_is_row_major(const struct view *view)
{
    return lies_as(view, false);
}

bool view_same_order(const struct view *a, const struct view *b)
{
    if (!view_is_dense(a) || !view_is_dense(b))
        return false;
    if (shape_equal(&a->type.shape, &b->type.shape))
        return a->type.channels_last == b->type.channels_last ||
               (view_is_row_major(a) && view_is_row_major(b));
    return view_is_row_major(a) && view_is_row_major(b);
}

int64_t view_end(const struct view *view)
{
    const struct shape *shape = &view->type.shape;
    int64_t last = 0;
    if (shape_elements(shape) == 0)
        return view->offset;
    for (int i = 0; i < shape->rank; i++)
        last += (shape->dim[i] - 1) * view->stride[i];
    return view->offset + (last + 1) * (int64_t)dtype_bytes(view->type.dtype);
}

struct view view_of(const struct role *role, int buffer)
{
    assert(buffer >= 0 && buffer < role->buffer_count);
    return view_dense(buffer, 0, &role->buffers[buffer].type);
}

struct view view_dense(int buffer, int64_t offset, const struct tensor_type *type)
{
    struct view view = {.buffer = buffer, .offset = offset, .type = *type};
    set_dense(&view);
    return view;
}

struct view view_narrow(struct view view, int dim, int64_t first, int64_t count)
{
    assert(dim >= 0 && dim < view.type.shape.rank);
    assert(first >= 0 && count >= 0 && first + count <= view.type.shape.dim[dim]);
    view.offset += first * view.stride[dim] * (int64_t)dtype_bytes(view.type.dtype);
    view.type.shape.dim[dim] = count;
    return view;
}

struct view view_as(struct view view, const struct tensor_type *type)
{
    assert(view_is_dense(&view) && type_bytes(type) <= type_bytes(&view.type));
    view.type = *type;
    set_dense(&view);
    return view;
}
