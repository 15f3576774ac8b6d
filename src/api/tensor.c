#include "api/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum rh_status tensor_device(const struct rh_cluster *cluster, const char *call, int device,
                             bool host_allowed, int *local)
{
    if (device == RH_HOST && host_allowed) {
        *local = cluster->device_count;
        return RH_OK;
    }
    if (device == RH_HOST)
        return fail(RH_INVALID, "%s: the host is not allowed here (device %d)", call, device);
    if (device < 0 || device >= cluster->device_count)
        return fail(RH_INVALID, "%s: device %d; the cluster has devices 0 to %d", call, device,
                    cluster->device_count - 1);
    *local = device;
    return RH_OK;
}

static void dense_strides(const struct shape *shape, int64_t *stride)
{
    int64_t step = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= shape->dim[i];
    }
}

enum rh_status tensor_new(struct rh_cluster *cluster, int device, const struct tensor_type *type,
                          struct rh_tensor **out)
{
    size_t bytes = type_bytes(type);
    void *data = calloc(1, bytes ? bytes : 1);
    *out = NULL;
    if (!data)
        return fail(RH_OUT_OF_MEMORY, "a tensor of %zu bytes does not fit in the host's memory",
                    bytes);
    struct rh_tensor *tensor = memory_new(sizeof *tensor);
    tensor->storage = memory_new(sizeof *tensor->storage);
    *tensor->storage = (struct storage){1, device, shape_elements(&type->shape), data};
    tensor->cluster = cluster;
    tensor->type = *type;
    dense_strides(&type->shape, tensor->stride);
    *out = tensor;
    return RH_OK;
}

/* Each element has a place of its own and no place is left out, in whatever order of dimensions. */
static bool fills_memory(const struct rh_tensor *tensor)
{
    const struct shape *shape = &tensor->type.shape;
    bool used[MAX_RANK] = {false};
    int64_t step = 1;
    for (int n = 0; n < shape->rank; n++) {
        int next = -1;
        for (int d = 0; d < shape->rank && next < 0; d++)
            if (!used[d] && (shape->dim[d] == 1 || tensor->stride[d] == step))
                next = d;
        if (next < 0)
            return false;
        used[next] = true;
        step *= shape->dim[next];
    }
    return true;
}

enum rh_status tensor_new_like(const struct rh_tensor *like, int device, enum dtype dtype,
                               struct rh_tensor **out)
{
    struct tensor_type type = like->type;
    type.dtype = dtype;
    RETURN_IF_FAILED(tensor_new(like->cluster, device, &type, out));
    if (fills_memory(like))
        memcpy((*out)->stride, like->stride, sizeof like->stride);
    return RH_OK;
}

struct rh_tensor *tensor_view(const struct rh_tensor *tensor, int64_t offset,
                              const struct shape *shape)
{
    struct rh_tensor *view = memory_new(sizeof *view);
    *view = *tensor;
    view->storage->references++;
    view->offset += offset;
    view->type.shape = *shape;
    return view;
}

struct rh_tensor *tensor_dense_view(const struct rh_tensor *tensor, int64_t offset,
                                    const struct shape *shape)
{
    struct rh_tensor *view = tensor_view(tensor, offset, shape);
    dense_strides(shape, view->stride);
    return view;
}

void rh_tensor_free(struct rh_tensor *tensor)
{
    if (!tensor)
        return;
    if (--tensor->storage->references == 0) {
        free(tensor->storage->data);
        free(tensor->storage);
    }
    free(tensor);
}

bool tensor_is_dense(const struct rh_tensor *tensor)
{
    int64_t stride[MAX_RANK];
    dense_strides(&tensor->type.shape, stride);
    for (int i = 0; i < tensor->type.shape.rank; i++)
        if (tensor->type.shape.dim[i] > 1 && tensor->stride[i] != stride[i])
            return false;
    return true;
}

/* Walks the window row-major; calls move(element of the window, element of the dense copy). */
static void walk(const struct rh_tensor *tensor, char *dense, bool into_tensor)
{
    size_t size = dtype_bytes(tensor->type.dtype);
    int64_t elements = shape_elements(&tensor->type.shape);
    int64_t index[MAX_RANK] = {0};
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = tensor->offset;
        for (int d = 0; d < tensor->type.shape.rank; d++)
            at += index[d] * tensor->stride[d];
        char *there = (char *)tensor->storage->data + (size_t)at * size;
        char *here = dense + (size_t)i * size;
        memcpy(into_tensor ? there : here, into_tensor ? here : there, size);
        for (int d = tensor->type.shape.rank - 1; d >= 0; d--) {
            if (++index[d] < tensor->type.shape.dim[d])
                break;
            index[d] = 0;
        }
    }
}

void tensor_gather_values(const struct rh_tensor *tensor, void *dense)
{
    walk(tensor, dense, false);
}

void tensor_scatter_values(struct rh_tensor *tensor, const void *dense)
{
    walk(tensor, (char *)(uintptr_t)dense, true);
}

enum rh_status rh_tensor_new(struct rh_cluster *cluster, int device, enum rh_dtype dtype, int rank,
                             const int64_t *dims, struct rh_tensor **out)
{
    struct tensor_type type = {dtype == RH_INT64 ? DTYPE_I64 : DTYPE_F32, {.rank = rank}};
    int local = 0;
    *out = NULL;
    RETURN_IF_FAILED(tensor_device(cluster, "tensor", device, true, &local));
    if (rank < 0 || rank > RH_MAX_DIMS)
        return fail(RH_INVALID, "tensor: rank %d; at most %d", rank, RH_MAX_DIMS);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return fail(RH_INVALID, "tensor: dimension %d is %lld", i, (long long)dims[i]);
        type.shape.dim[i] = dims[i];
    }
    return tensor_new(cluster, local, &type, out);
}

enum rh_status rh_tensor_view(const struct rh_tensor *tensor, int rank, const int64_t *dims,
                              const int64_t *strides, int64_t offset, struct rh_tensor **out)
{
    struct shape shape = {.rank = rank};
    int64_t memory = tensor->storage->elements;
    int64_t first = offset > memory ? memory : offset < -memory ? -1 : tensor->offset + offset;
    int64_t last = first < memory && first >= 0 ? first : memory;
    bool empty = false;
    *out = NULL;
    if (rank < 0 || rank > RH_MAX_DIMS)
        return fail(RH_INVALID, "view: rank %d; at most %d", rank, RH_MAX_DIMS);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || strides[i] < 0)
            return fail(RH_INVALID, "view: dimension %d is %lld with stride %lld", i,
                        (long long)dims[i], (long long)strides[i]);
        shape.dim[i] = dims[i];
        empty |= dims[i] == 0;
        /* beyond the memory is beyond it, however far: no overflow */
        if (dims[i] > 1 && strides[i] > 0 && last < memory)
            last = dims[i] - 1 > (memory - 1 - last) / strides[i]
                       ? memory
                       : last + (dims[i] - 1) * strides[i];
    }
    if (!empty && last >= memory)
        return fail(RH_INVALID, "view: from element %lld it leaves the memory of %lld elements",
                    (long long)offset, (long long)memory);
    *out = tensor_view(tensor, offset, &shape);
    for (int i = 0; i < rank; i++)
        (*out)->stride[i] = strides[i];
    return RH_OK;
}

int64_t rh_tensor_stride(const struct rh_tensor *tensor, int dim)
{
    return dim >= 0 && dim < tensor->type.shape.rank ? tensor->stride[dim] : 0;
}

static enum rh_status check_bytes(const struct rh_tensor *tensor, const char *call, size_t bytes)
{
    size_t size = type_bytes(&tensor->type);
    if (bytes != size)
        return fail(RH_INVALID, "tensor %s: %zu bytes given; the tensor has %zu", call, bytes,
                    size);
    return RH_OK;
}

enum rh_status rh_tensor_write(struct rh_tensor *tensor, const void *values, size_t bytes)
{
    RETURN_IF_FAILED(check_bytes(tensor, "write", bytes));
    tensor_scatter_values(tensor, values);
    return RH_OK;
}

enum rh_status rh_tensor_read(const struct rh_tensor *tensor, void *values, size_t bytes)
{
    RETURN_IF_FAILED(check_bytes(tensor, "read", bytes));
    tensor_gather_values(tensor, values);
    return RH_OK;
}

int rh_tensor_device(const struct rh_tensor *tensor)
{
    int device = tensor->storage->device;
    return device == tensor->cluster->device_count ? RH_HOST : device;
}

enum rh_dtype rh_tensor_dtype(const struct rh_tensor *tensor)
{
    return tensor->type.dtype == DTYPE_I64 ? RH_INT64 : RH_FLOAT32;
}

int rh_tensor_rank(const struct rh_tensor *tensor)
{
    return tensor->type.shape.rank;
}

int64_t rh_tensor_dim(const struct rh_tensor *tensor, int dim)
{
    return dim >= 0 && dim < tensor->type.shape.rank ? tensor->type.shape.dim[dim] : 0;
}

size_t rh_tensor_bytes(const struct rh_tensor *tensor)
{
    return type_bytes(&tensor->type);
}

int rh_tensor_same(const struct rh_tensor *a, const struct rh_tensor *b)
{
    return a->storage == b->storage && a->offset == b->offset;
}
