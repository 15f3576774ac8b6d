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
    *tensor->storage = (struct storage){1, device, data};
    tensor->cluster = cluster;
    tensor->type = *type;
    dense_strides(&type->shape, tensor->stride);
    *out = tensor;
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
