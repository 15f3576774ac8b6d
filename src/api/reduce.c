/* Sums over devices. */
#include <stdlib.h>

#include "api/comm.h"
#include "base/memory.h"

static enum rh_status check_reduce(struct rh_tensor *const *inputs, int count, int destination,
                                   int *root)
{
    const struct rh_cluster *cluster = inputs[0]->cluster;
    int local = 0;
    RETURN_IF_FAILED(tensor_device(cluster, "reduce_add", destination, false, &local));
    *root = -1;
    for (int i = 0; i < count; i++) {
        char got[64];
        char expected[64];
        RETURN_IF_FAILED(comm_on_gpu("reduce_add", "input", i, inputs[i]));
        if (!shape_equal(&inputs[i]->type.shape, &inputs[0]->type.shape))
            return fail(RH_INVALID, "reduce_add: input %d has shape %s, expected %s", i,
                        shape_text(got, &inputs[i]->type.shape),
                        shape_text(expected, &inputs[0]->type.shape));
        if (inputs[i]->type.dtype != inputs[0]->type.dtype)
            return fail(RH_INVALID, "reduce_add: input %d is %s, input 0 %s", i,
                        dtype_name(inputs[i]->type.dtype), dtype_name(inputs[0]->type.dtype));
        if (inputs[i]->storage->device == local)
            *root = i;
    }
    if (*root < 0)
        return fail(RH_INVALID, "reduce_add: destination %d holds none of the %d inputs",
                    destination, count);
    return RH_OK;
}

enum rh_status rh_reduce_add(struct rh_tensor *const *inputs, int count, int destination,
                             struct rh_tensor **out, double *seconds)
{
    int root = 0;
    *out = NULL;
    if (count < 1)
        return fail(RH_INVALID, "reduce_add: no input");
    RETURN_IF_FAILED(check_reduce(inputs, count, destination, &root));
    struct comm_run run = comm_begin(inputs[0]->cluster, seconds);
    if (count == 1) {
        *out = comm_alias(inputs[0]);
        return RH_OK;
    }
    RETURN_IF_FAILED(tensor_new(inputs[0]->cluster, destination, &inputs[0]->type, out));
    if (type_bytes(&inputs[0]->type) == 0)
        return RH_OK;
    struct comm_tensor *dense = memory_new_array((size_t)count, sizeof *dense);
    struct comm_tensor sum = comm_whole(*out);
    enum rh_status status = comm_dense(inputs[root], inputs[0]->type.dtype, &dense[0]);
    for (int i = 0, at = 1; i < count && status == RH_OK; i++)
        if (i != root)
            status = comm_dense(inputs[i], inputs[0]->type.dtype, &dense[at++]);
    if (status == RH_OK)
        status = comm_run_reduce_add(&run, dense, count, &sum, seconds);
    for (int i = 0; i < count; i++)
        free(dense[i].data);
    free(dense);
    if (status != RH_OK)
        comm_free_all(out, 1);
    return status;
}

enum rh_status rh_all_reduce(struct rh_tensor *const *tensors, int count, double *seconds)
{
    if (count < 1)
        return fail(RH_INVALID, "all_reduce: no tensor");
    struct rh_cluster *cluster = tensors[0]->cluster;
    struct comm_tensor *dense = memory_new_array((size_t)count, sizeof *dense);
    struct comm_run run = comm_begin(cluster, seconds);
    enum rh_status status = RH_OK;
    for (int i = 0; i < count && status == RH_OK; i++) {
        int device = tensors[i]->storage->device;
        if (device == cluster->device_count)
            status = fail(RH_INVALID, "all_reduce: tensor %d is on the host", i);
        for (int k = 0; k < i && status == RH_OK; k++)
            if (tensors[k]->storage->device == device)
                status = fail(RH_INVALID, "all_reduce: tensors %d and %d are both on device %d", k,
                              i, device);
        if (status == RH_OK && !shape_equal(&tensors[i]->type.shape, &tensors[0]->type.shape))
            status = fail(RH_INVALID, "all_reduce: tensor %d has %lld elements, tensor 0 %lld", i,
                          (long long)shape_elements(&tensors[i]->type.shape),
                          (long long)shape_elements(&tensors[0]->type.shape));
        if (status == RH_OK && tensors[i]->type.dtype != tensors[0]->type.dtype)
            status = fail(RH_INVALID, "all_reduce: tensor %d is %s, tensor 0 %s", i,
                          dtype_name(tensors[i]->type.dtype), dtype_name(tensors[0]->type.dtype));
        if (status == RH_OK)
            status = comm_dense(tensors[i], tensors[0]->type.dtype, &dense[i]);
    }
    if (status == RH_OK && type_bytes(&tensors[0]->type))
        status = comm_run_all_reduce(&run, dense, count, seconds);
    for (int i = 0; i < count && status == RH_OK; i++)
        tensor_scatter_values(tensors[i], dense[i].data);
    for (int i = 0; i < count; i++)
        free(dense[i].data);
    free(dense);
    return status;
}
