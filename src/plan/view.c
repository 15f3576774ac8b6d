#include <assert.h>

#include "plan/plan.h"

/* Wraps on absurd shapes, which are refused for want of memory later. */
static int64_t product(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static void set_dense(struct view *view)
{
    int64_t stride = 1;
    for (int i = view->type.shape.rank - 1; i >= 0; i--) {
        view->stride[i] = stride;
        stride = product(stride, view->type.shape.dim[i]);
    }
}

/* A dimension of one row is never stepped over, so its stride does not matter. */
bool view_is_dense(const struct view *view)
{
    const struct shape *shape = &view->type.shape;
    int64_t stride = 1;
    if (shape_elements(shape) == 0)
        return true;
    for (int i = shape->rank - 1; i >= 0; i--) {
        if (shape->dim[i] != 1 && view->stride[i] != stride)
            return false;
        stride = product(stride, shape->dim[i]);
    }
    return true;
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
    struct view view = {.buffer = buffer, .type = role->buffers[buffer].type};
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
