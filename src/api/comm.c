/* torch.cuda.comm on tensors of the public API (torch-semantics.md sections 2 and 3): what aliases,
 * what is a view and what is refused is decided here; what moves is a plan of comm/run.c. */
#include <stdlib.h>

#include "api/tensor.h"
#include "base/memory.h"

static struct comm_run run_of(const struct rh_cluster *c)
{
    return (struct comm_run){c->backend, c->session, c->device_count};
}

static void none(double *seconds)
{
    if (seconds)
        *seconds = 0;
}

static enum rh_status dense_input(const struct rh_tensor *tensor, struct comm_tensor *input)
{
    size_t bytes = type_bytes(&tensor->type);
    *input = (struct comm_tensor){tensor->storage->device, tensor->type, malloc(bytes ? bytes : 1)};
    if (!input->data)
        return fail(RH_OUT_OF_MEMORY, "a tensor of %zu bytes does not fit in the host's memory",
                    bytes);
    tensor_gather_values(tensor, input->data);
    return RH_OK;
}

static struct comm_tensor whole(const struct rh_tensor *tensor)
{
    return (struct comm_tensor){tensor->storage->device, tensor->type, tensor->storage->data};
}

static struct rh_tensor *alias(const struct rh_tensor *tensor)
{
    return tensor_view(tensor, 0, &tensor->type.shape);
}

static void free_all(struct rh_tensor **tensors, int count)
{
    for (int i = 0; i < count; i++) {
        rh_tensor_free(tensors[i]);
        tensors[i] = NULL;
    }
}

/* Copies count windows to new dense tensors; zero-size ones need no plan. */
static enum rh_status copy_windows(struct rh_tensor *const *from, const int *devices, int count,
                                   struct rh_tensor **out, double *seconds)
{
    struct comm_tensor *inputs = memory_new_array((size_t)count, sizeof *inputs);
    struct comm_tensor *outputs = memory_new_array((size_t)count, sizeof *outputs);
    enum rh_status status = RH_OK;
    int moved = 0;
    none(seconds);
    for (int i = 0; i < count && status == RH_OK; i++) {
        status = tensor_new(from[i]->cluster, devices[i], &from[i]->type, &out[i]);
        if (status != RH_OK || type_bytes(&from[i]->type) == 0)
            continue;
        status = dense_input(from[i], &inputs[moved]);
        outputs[moved++] = whole(out[i]);
    }
    if (status == RH_OK && moved) {
        struct comm_run run = run_of(from[0]->cluster);
        status = comm_run_copy(&run, inputs, outputs, moved, seconds);
    }
    for (int i = 0; i < moved; i++)
        free(inputs[i].data);
    free(inputs);
    free(outputs);
    return status;
}

enum rh_status rh_to(struct rh_tensor *tensor, int device, struct rh_tensor **out, double *seconds)
{
    int local = 0;
    *out = NULL;
    RETURN_IF_FAILED(tensor_device(tensor->cluster, "to", device, true, &local));
    none(seconds);
    if (local == tensor->storage->device) {
        *out = alias(tensor);
        return RH_OK;
    }
    enum rh_status status = copy_windows(&tensor, &local, 1, out, seconds);
    if (status != RH_OK)
        free_all(out, 1);
    return status;
}

static enum rh_status broadcast_to(struct rh_tensor *tensor, struct rh_tensor *const *targets,
                                   int count, double *seconds)
{
    struct comm_tensor from = {0};
    struct comm_run run = run_of(tensor->cluster);
    struct comm_tensor *to = memory_new_array((size_t)count, sizeof *to);
    for (int i = 0; i < count; i++)
        to[i] = whole(targets[i]);
    enum rh_status status = dense_input(tensor, &from);
    if (status == RH_OK)
        status = comm_run_broadcast(&run, &from, to, count, seconds);
    free(from.data);
    free(to);
    return status;
}

enum rh_status rh_broadcast(struct rh_tensor *tensor, const int *devices, int count,
                            struct rh_tensor **out, double *seconds)
{
    struct rh_tensor **targets = memory_new_array((size_t)count, sizeof *targets);
    enum rh_status status = RH_OK;
    int copies = 0;
    none(seconds);
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    for (int i = 0; i < count && status == RH_OK; i++) {
        int local = 0;
        status = tensor_device(tensor->cluster, "broadcast", devices[i], false, &local);
        if (status != RH_OK)
            break;
        if (local == tensor->storage->device) {
            out[i] = alias(tensor);
            continue;
        }
        status = tensor_new(tensor->cluster, local, &tensor->type, &out[i]);
        targets[copies++] = out[i];
    }
    if (status == RH_OK && copies && type_bytes(&tensor->type))
        status = broadcast_to(tensor, targets, copies, seconds);
    free(targets);
    if (status != RH_OK)
        free_all(out, count);
    return status;
}

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
        if (inputs[i]->storage->device == cluster->device_count)
            return fail(RH_INVALID, "reduce_add: input %d is on the host", i);
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
    none(seconds);
    if (count == 1) {
        *out = alias(inputs[0]);
        return RH_OK;
    }
    RETURN_IF_FAILED(tensor_new(inputs[0]->cluster, destination, &inputs[0]->type, out));
    if (type_bytes(&inputs[0]->type) == 0)
        return RH_OK;
    struct comm_tensor *dense = memory_new_array((size_t)count, sizeof *dense);
    struct comm_tensor sum = whole(*out);
    struct comm_run run = run_of(inputs[0]->cluster);
    enum rh_status status = dense_input(inputs[root], &dense[0]);
    for (int i = 0, at = 1; i < count && status == RH_OK; i++)
        if (i != root)
            status = dense_input(inputs[i], &dense[at++]);
    if (status == RH_OK)
        status = comm_run_reduce_add(&run, dense, count, &sum, seconds);
    for (int i = 0; i < count; i++)
        free(dense[i].data);
    free(dense);
    if (status != RH_OK)
        free_all(out, 1);
    return status;
}

static enum rh_status wrap_dim(const char *call, int dim, int rank, int *wrapped)
{
    *wrapped = dim < 0 ? dim + rank : dim;
    if (*wrapped < 0 || *wrapped >= rank)
        return fail(RH_INVALID, "%s: dimension %d is out of range [%d, %d]", call, dim, -rank,
                    rank - 1);
    return RH_OK;
}

/* Piece sizes: given ones checked, or ceil(size / count) each and possibly fewer pieces. */
static enum rh_status piece_sizes(int64_t size, int count, const int64_t *given, int64_t *sizes,
                                  int *pieces)
{
    int64_t sum = 0;
    int64_t chunk = (size + count - 1) / count;
    *pieces = size == 0 || given ? count : (int)((size + chunk - 1) / chunk);
    for (int i = 0; i < *pieces; i++) {
        int64_t rest = size - sum;
        sizes[i] = given ? given[i] : rest < chunk ? rest : chunk;
        if (sizes[i] < 0)
            return fail(RH_INVALID, "scatter: size %d is %lld", i, (long long)sizes[i]);
        sum += sizes[i];
    }
    if (sum != size)
        return fail(RH_INVALID, "scatter: the sizes add up to %lld, the dimension is %lld",
                    (long long)sum, (long long)size);
    return RH_OK;
}

static enum rh_status scatter_pieces(struct rh_tensor *tensor, const int *devices, int pieces,
                                     const int64_t *sizes, int dim, struct rh_tensor **out,
                                     double *seconds)
{
    struct rh_tensor **windows = memory_new_array((size_t)pieces, sizeof *windows);
    struct rh_tensor **copies = memory_new_array((size_t)pieces, sizeof *copies);
    int *targets = memory_new_array((size_t)pieces, sizeof *targets);
    enum rh_status status = RH_OK;
    int64_t first = 0;
    int moved = 0;
    for (int i = 0; i < pieces && status == RH_OK; i++) {
        struct shape shape = tensor->type.shape;
        int local = 0;
        shape.dim[dim] = sizes[i];
        status = tensor_device(tensor->cluster, "scatter", devices[i], false, &local);
        if (status != RH_OK)
            break;
        out[i] = tensor_view(tensor, first * tensor->stride[dim], &shape);
        first += sizes[i];
        if (local == tensor->storage->device)
            continue;
        windows[moved] = out[i];
        targets[moved++] = local;
    }
    none(seconds);
    if (status == RH_OK && moved)
        status = copy_windows(windows, targets, moved, copies, seconds);
    for (int i = 0, k = 0; status == RH_OK && i < pieces && k < moved; i++)
        if (out[i] == windows[k]) {
            rh_tensor_free(out[i]);
            out[i] = copies[k++];
        }
    if (status != RH_OK)
        free_all(copies, moved);
    free(windows);
    free(copies);
    free(targets);
    return status;
}

enum rh_status rh_scatter(struct rh_tensor *tensor, const int *devices, int count,
                          const int64_t *sizes, int dim, struct rh_tensor **out, int *pieces,
                          double *seconds)
{
    int wrapped = 0;
    *pieces = 0;
    if (count < 1)
        return fail(RH_INVALID, "scatter: no device");
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    if (tensor->type.shape.rank == 0)
        return fail(RH_INVALID, "scatter: a scalar cannot be cut into %d pieces", count);
    RETURN_IF_FAILED(wrap_dim("scatter", dim, tensor->type.shape.rank, &wrapped));
    int64_t *cut = memory_new_array((size_t)count, sizeof *cut);
    enum rh_status status = piece_sizes(tensor->type.shape.dim[wrapped], count, sizes, cut, pieces);
    if (status == RH_OK)
        status = scatter_pieces(tensor, devices, *pieces, cut, wrapped, out, seconds);
    free(cut);
    if (status != RH_OK) {
        free_all(out, count);
        *pieces = 0;
    }
    return status;
}

static enum rh_status gathered_shape(struct rh_tensor *const *inputs, int count, int dim,
                                     struct shape *shape)
{
    *shape = inputs[0]->type.shape;
    shape->dim[dim] = 0;
    for (int i = 0; i < count; i++) {
        const struct shape *mine = &inputs[i]->type.shape;
        char got[64];
        char expected[64];
        if (inputs[i]->storage->device == inputs[i]->cluster->device_count)
            return fail(RH_INVALID, "gather: input %d is on the host", i);
        if (mine->rank != shape->rank)
            return fail(RH_INVALID, "gather: input %d has %d dimensions, input 0 has %d", i,
                        mine->rank, shape->rank);
        for (int d = 0; d < shape->rank; d++)
            if (d != dim && mine->dim[d] != inputs[0]->type.shape.dim[d])
                return fail(RH_INVALID, "gather: input %d has shape %s, input 0 %s", i,
                            shape_text(got, mine), shape_text(expected, &inputs[0]->type.shape));
        if (inputs[i]->type.dtype != inputs[0]->type.dtype)
            return fail(RH_INVALID, "gather: input %d is %s, input 0 %s", i,
                        dtype_name(inputs[i]->type.dtype), dtype_name(inputs[0]->type.dtype));
        shape->dim[dim] += mine->dim[dim];
    }
    return RH_OK;
}

enum rh_status rh_gather(struct rh_tensor *const *inputs, int count, int dim, int destination,
                         struct rh_tensor **out, double *seconds)
{
    int wrapped = 0;
    int local = 0;
    struct shape shape;
    *out = NULL;
    if (count < 1)
        return fail(RH_INVALID, "gather: no input");
    struct rh_cluster *cluster = inputs[0]->cluster;
    RETURN_IF_FAILED(wrap_dim("gather", dim, inputs[0]->type.shape.rank, &wrapped));
    RETURN_IF_FAILED(tensor_device(cluster, "gather", destination, true, &local));
    RETURN_IF_FAILED(gathered_shape(inputs, count, wrapped, &shape));
    struct tensor_type type = {inputs[0]->type.dtype, shape};
    struct rh_tensor **pieces = memory_new_array((size_t)count, sizeof *pieces);
    int *targets = memory_new_array((size_t)count, sizeof *targets);
    for (int i = 0; i < count; i++)
        targets[i] = local;
    enum rh_status status = copy_windows(inputs, targets, count, pieces, seconds);
    if (status == RH_OK)
        status = tensor_new(cluster, local, &type, out);
    int64_t first = 0;
    for (int i = 0; i < count && status == RH_OK; i++) {
        struct rh_tensor *window =
            tensor_view(*out, first * (*out)->stride[wrapped], &pieces[i]->type.shape);
        tensor_scatter_values(window, pieces[i]->storage->data);
        rh_tensor_free(window);
        first += pieces[i]->type.shape.dim[wrapped];
    }
    free_all(pieces, count);
    free(pieces);
    free(targets);
    return status;
}

enum rh_status rh_all_reduce(struct rh_tensor *const *tensors, int count, double *seconds)
{
    if (count < 1)
        return fail(RH_INVALID, "all_reduce: no tensor");
    struct rh_cluster *cluster = tensors[0]->cluster;
    struct comm_tensor *dense = memory_new_array((size_t)count, sizeof *dense);
    struct comm_run run = run_of(cluster);
    enum rh_status status = RH_OK;
    none(seconds);
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
        if (status == RH_OK)
            status = dense_input(tensors[i], &dense[i]);
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
