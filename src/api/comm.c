/* Moves and broadcast. */
#include "api/comm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct comm_run comm_begin(struct rh_cluster *c, double *seconds)
{
    memset(&c->traffic, 0, sizeof c->traffic);
    if (seconds)
        *seconds = 0;
    return (struct comm_run){c->backend, c->session, c->device_count, &c->traffic};
}

void rh_cluster_traffic(const struct rh_cluster *cluster, struct rh_traffic *traffic)
{
    *traffic = cluster->traffic;
}

/* Towards zero, as a cast in C; what no int64 holds becomes the nearest one that is. */
static int64_t to_int64(float value)
{
    if (!(fabsf(value) < 9.2e18f))
        return isnan(value) ? 0 : value > 0 ? INT64_MAX : INT64_MIN;
    return (int64_t)value;
}

static void convert(enum dtype from, const void *values, enum dtype to, void *out, int64_t count)
{
    if (from == to)
        memcpy(out, values, (size_t)count * dtype_bytes(to));
    for (int64_t i = 0; i < count && from != to; i++)
        if (to == DTYPE_I64)
            ((int64_t *)out)[i] = to_int64(((const float *)values)[i]);
        else
            ((float *)out)[i] = (float)((const int64_t *)values)[i];
}

enum rh_status comm_dense(const struct rh_tensor *tensor, enum dtype dtype,
                          struct comm_tensor *dense)
{
    size_t read = type_bytes(&tensor->type);
    struct tensor_type type = {dtype, tensor->type.shape};
    size_t bytes = type_bytes(&type);
    void *values = malloc(read ? read : 1);
    *dense = (struct comm_tensor){tensor->storage->device, type, malloc(bytes ? bytes : 1)};
    if (!dense->data || !values) {
        free(values);
        return fail(RH_OUT_OF_MEMORY, "a tensor of %zu bytes does not fit in the host's memory",
                    bytes);
    }
    tensor_gather_values(tensor, values);
    convert(tensor->type.dtype, values, dtype, dense->data, shape_elements(&type.shape));
    free(values);
    return RH_OK;
}

struct comm_tensor comm_whole(const struct rh_tensor *tensor)
{
    return (struct comm_tensor){tensor->storage->device, tensor->type, tensor->storage->data};
}

struct rh_tensor *comm_alias(const struct rh_tensor *tensor)
{
    return tensor_view(tensor, 0, &tensor->type.shape);
}

void comm_free_all(struct rh_tensor **tensors, int count)
{
    for (int i = 0; i < count; i++) {
        rh_tensor_free(tensors[i]);
        tensors[i] = NULL;
    }
}

enum rh_status comm_on_gpu(const char *call, const char *what, int index,
                           const struct rh_tensor *tensor)
{
    if (tensor->storage->device == tensor->cluster->device_count)
        return fail(RH_INVALID, "%s: %s %d is on the host", call, what, index);
    return RH_OK;
}

enum rh_status comm_wrap_dim(const char *call, int dim, int rank, int *wrapped)
{
    *wrapped = dim < 0 ? dim + rank : dim;
    if (*wrapped < 0 || *wrapped >= rank)
        return fail(RH_INVALID, "%s: dimension %d is out of range [%d, %d]", call, dim, -rank,
                    rank - 1);
    return RH_OK;
}

enum rh_status comm_copy_values(const struct comm_run *run, struct rh_tensor *const *from,
                                struct rh_tensor *const *to, int count, double *seconds)
{
    struct comm_tensor *inputs = memory_new_array((size_t)count, sizeof *inputs);
    struct comm_tensor *outputs = memory_new_array((size_t)count, sizeof *outputs);
    struct rh_tensor **targets = memory_new_array((size_t)count, sizeof *targets);
    enum rh_status status = RH_OK;
    int moved = 0;
    for (int i = 0; i < count && status == RH_OK; i++) {
        if (type_bytes(&to[i]->type) == 0)
            continue;
        enum dtype dtype = to[i]->type.dtype;
        status = comm_dense(from[i], dtype, &inputs[moved]);
        if (status == RH_OK)
            status = comm_dense(to[i], dtype, &outputs[moved]);
        targets[moved++] = to[i];
    }
    if (status == RH_OK && moved)
        status = comm_run_copy(run, inputs, outputs, moved, seconds);
    for (int i = 0; i < moved; i++) {
        if (status == RH_OK)
            tensor_scatter_values(targets[i], outputs[i].data);
        free(inputs[i].data);
        free(outputs[i].data);
    }
    free(inputs);
    free(outputs);
    free(targets);
    return status;
}

enum rh_status comm_copy_new(const struct comm_run *run, struct rh_tensor *const *from,
                             const int *devices, int count, struct rh_tensor **out, double *seconds)
{
    enum rh_status status = RH_OK;
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    for (int i = 0; i < count && status == RH_OK; i++)
        status = tensor_new_like(from[i], devices[i], from[i]->type.dtype, &out[i]);
    if (status == RH_OK)
        status = comm_copy_values(run, from, out, count, seconds);
    if (status != RH_OK)
        comm_free_all(out, count);
    return status;
}

enum rh_status rh_copy(struct rh_tensor *tensor, int device, enum rh_dtype dtype,
                       struct rh_tensor **out, double *seconds)
{
    int local = 0;
    *out = NULL;
    RETURN_IF_FAILED(tensor_device(tensor->cluster, "copy", device, true, &local));
    struct comm_run run = comm_begin(tensor->cluster, seconds);
    RETURN_IF_FAILED(
        tensor_new_like(tensor, local, dtype == RH_INT64 ? DTYPE_I64 : DTYPE_F32, out));
    enum rh_status status = comm_copy_values(&run, &tensor, out, 1, seconds);
    if (status != RH_OK)
        comm_free_all(out, 1);
    return status;
}

enum rh_status rh_to(struct rh_tensor *tensor, int device, struct rh_tensor **out, double *seconds)
{
    int local = 0;
    *out = NULL;
    RETURN_IF_FAILED(tensor_device(tensor->cluster, "to", device, true, &local));
    struct comm_run run = comm_begin(tensor->cluster, seconds);
    if (local == tensor->storage->device) {
        *out = comm_alias(tensor);
        return RH_OK;
    }
    return comm_copy_new(&run, &tensor, &local, 1, out, seconds);
}

/* To dense targets of the source's type. */
static enum rh_status broadcast_to(const struct comm_run *run, const struct rh_tensor *tensor,
                                   struct rh_tensor *const *targets, int count, double *seconds)
{
    struct comm_tensor from = {0};
    struct comm_tensor *to = memory_new_array((size_t)count, sizeof *to);
    enum rh_status status = comm_dense(tensor, tensor->type.dtype, &from);
    for (int i = 0; i < count && status == RH_OK; i++)
        status = comm_dense(targets[i], tensor->type.dtype, &to[i]);
    if (status == RH_OK)
        status = comm_run_broadcast(run, &from, to, count, seconds);
    for (int i = 0; i < count; i++) {
        if (status == RH_OK)
            tensor_scatter_values(targets[i], to[i].data);
        free(to[i].data);
    }
    free(from.data);
    free(to);
    return status;
}

enum rh_status rh_broadcast(struct rh_tensor *tensor, const int *devices, int count,
                            struct rh_tensor **out, double *seconds)
{
    struct rh_tensor **targets = memory_new_array((size_t)count, sizeof *targets);
    struct comm_run run = comm_begin(tensor->cluster, seconds);
    enum rh_status status = RH_OK;
    int copies = 0;
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    for (int i = 0; i < count && status == RH_OK; i++) {
        int local = 0;
        status = tensor_device(tensor->cluster, "broadcast", devices[i], false, &local);
        if (status != RH_OK)
            break;
        if (local == tensor->storage->device) {
            out[i] = comm_alias(tensor);
            continue;
        }
        status = tensor_new(tensor->cluster, local, &tensor->type, &out[i]);
        targets[copies++] = out[i];
    }
    if (status == RH_OK && copies && type_bytes(&tensor->type))
        status = broadcast_to(&run, tensor, targets, copies, seconds);
    free(targets);
    if (status != RH_OK)
        comm_free_all(out, count);
    return status;
}

enum rh_status rh_broadcast_into(struct rh_tensor *tensor, struct rh_tensor *const *outs, int count,
                                 double *seconds)
{
    struct comm_run run = comm_begin(tensor->cluster, seconds);
    for (int i = 0; i < count; i++) {
        char got[64];
        char expected[64];
        RETURN_IF_FAILED(comm_on_gpu("broadcast", "output", i, outs[i]));
        if (!shape_equal(&outs[i]->type.shape, &tensor->type.shape))
            return fail(RH_INVALID, "broadcast: output %d has shape %s, expected %s", i,
                        shape_text(got, &outs[i]->type.shape),
                        shape_text(expected, &tensor->type.shape));
        if (outs[i]->type.dtype != tensor->type.dtype)
            return fail(RH_INVALID, "broadcast: output %d is %s, the source %s", i,
                        dtype_name(outs[i]->type.dtype), dtype_name(tensor->type.dtype));
    }
    if (count == 0 || type_bytes(&tensor->type) == 0)
        return RH_OK;
    return broadcast_to(&run, tensor, outs, count, seconds);
}
