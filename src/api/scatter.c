/* Cutting a tensor over devices, and putting pieces together. */
#include <stdlib.h>

#include "api/comm.h"
#include "base/memory.h"

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
    struct comm_run run = comm_begin(tensor->cluster, seconds);
    if (status == RH_OK && moved)
        status = comm_copy_new(&run, windows, targets, moved, copies, seconds);
    for (int i = 0, k = 0; status == RH_OK && i < pieces && k < moved; i++)
        if (out[i] == windows[k]) {
            rh_tensor_free(out[i]);
            out[i] = copies[k++];
        }
    if (status != RH_OK)
        comm_free_all(copies, moved);
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
    RETURN_IF_FAILED(comm_wrap_dim("scatter", dim, tensor->type.shape.rank, &wrapped));
    int64_t *cut = memory_new_array((size_t)count, sizeof *cut);
    enum rh_status status = piece_sizes(tensor->type.shape.dim[wrapped], count, sizes, cut, pieces);
    if (status == RH_OK)
        status = scatter_pieces(tensor, devices, *pieces, cut, wrapped, out, seconds);
    free(cut);
    if (status != RH_OK) {
        comm_free_all(out, count);
        *pieces = 0;
    }
    return status;
}

/* The window of `whole` along `dim` from element `first`. */
static struct rh_tensor *window_of(const struct rh_tensor *whole, int dim, int64_t first,
                                   int64_t size)
{
    struct shape shape = whole->type.shape;
    shape.dim[dim] = size;
    return tensor_view(whole, first * whole->stride[dim], &shape);
}

/* "what" `index` is like `expected` in all dimensions but `dim`. */
static enum rh_status check_like(const char *call, const char *what, int index,
                                 const struct shape *got, const struct shape *expected, int dim)
{
    char words[64];
    char wanted[64];
    if (got->rank != expected->rank)
        return fail(RH_INVALID, "%s: %s %d has %d dimensions, expected %d", call, what, index,
                    got->rank, expected->rank);
    for (int d = 0; d < expected->rank; d++)
        if (d != dim && got->dim[d] != expected->dim[d])
            return fail(RH_INVALID, "%s: %s %d has shape %s, expected %s but for dimension %d",
                        call, what, index, shape_text(words, got), shape_text(wanted, expected),
                        dim);
    return RH_OK;
}

enum rh_status rh_scatter_into(struct rh_tensor *tensor, struct rh_tensor *const *outs, int count,
                               int dim, double *seconds)
{
    struct comm_run run = comm_begin(tensor->cluster, seconds);
    const struct shape *whole = &tensor->type.shape;
    int64_t sum = 0;
    int wrapped = 0;
    if (count < 1)
        return fail(RH_INVALID, "scatter: no output");
    if (whole->rank == 0)
        return fail(RH_INVALID, "scatter: a scalar cannot be cut into %d pieces", count);
    RETURN_IF_FAILED(comm_wrap_dim("scatter", dim, whole->rank, &wrapped));
    for (int i = 0; i < count; i++) {
        RETURN_IF_FAILED(comm_on_gpu("scatter", "output", i, outs[i]));
        RETURN_IF_FAILED(check_like("scatter", "output", i, &outs[i]->type.shape, whole, wrapped));
        sum += outs[i]->type.shape.dim[wrapped];
    }
    if (sum != whole->dim[wrapped])
        return fail(RH_INVALID, "scatter: the outputs add up to %lld, the dimension is %lld",
                    (long long)sum, (long long)whole->dim[wrapped]);
    struct rh_tensor **windows = memory_new_array((size_t)count, sizeof *windows);
    int64_t first = 0;
    for (int i = 0; i < count; i++) {
        int64_t size = outs[i]->type.shape.dim[wrapped];
        windows[i] = window_of(tensor, wrapped, first, size);
        first += size;
    }
    enum rh_status status = comm_copy_values(&run, windows, outs, count, seconds);
    comm_free_all(windows, count);
    free(windows);
    return status;
}

static enum rh_status gathered_shape(struct rh_tensor *const *inputs, int count, int dim,
                                     int *wrapped, struct shape *shape)
{
    const struct shape *first = &inputs[0]->type.shape;
    RETURN_IF_FAILED(comm_wrap_dim("gather", dim, first->rank, wrapped));
    *shape = *first;
    shape->dim[*wrapped] = 0;
    for (int i = 0; i < count; i++) {
        RETURN_IF_FAILED(comm_on_gpu("gather", "input", i, inputs[i]));
        RETURN_IF_FAILED(check_like("gather", "input", i, &inputs[i]->type.shape, first, *wrapped));
        shape->dim[*wrapped] += inputs[i]->type.shape.dim[*wrapped];
    }
    return RH_OK;
}

static enum rh_status gather_to(struct rh_tensor *const *inputs, int count, int dim,
                                struct rh_tensor *out, double *seconds)
{
    struct comm_run run = comm_begin(out->cluster, seconds);
    struct rh_tensor **windows = memory_new_array((size_t)count, sizeof *windows);
    int64_t first = 0;
    for (int i = 0; i < count; i++) {
        windows[i] = window_of(out, dim, first, inputs[i]->type.shape.dim[dim]);
        first += inputs[i]->type.shape.dim[dim];
    }
    enum rh_status status = comm_copy_values(&run, inputs, windows, count, seconds);
    comm_free_all(windows, count);
    free(windows);
    return status;
}

enum rh_status rh_gather(struct rh_tensor *const *inputs, int count, int dim, int destination,
                         struct rh_tensor **out, double *seconds)
{
    int wrapped = 0;
    int local = 0;
    struct tensor_type type = {0};
    *out = NULL;
    if (count < 1)
        return fail(RH_INVALID, "gather: no input");
    RETURN_IF_FAILED(tensor_device(inputs[0]->cluster, "gather", destination, true, &local));
    RETURN_IF_FAILED(gathered_shape(inputs, count, dim, &wrapped, &type.shape));
    type.dtype = inputs[0]->type.dtype;
    RETURN_IF_FAILED(tensor_new(inputs[0]->cluster, local, &type, out));
    enum rh_status status = gather_to(inputs, count, wrapped, *out, seconds);
    if (status != RH_OK)
        comm_free_all(out, 1);
    return status;
}

enum rh_status rh_gather_into(struct rh_tensor *const *inputs, int count, int dim,
                              struct rh_tensor *out, double *seconds)
{
    int wrapped = 0;
    struct shape shape;
    char got[64];
    char expected[64];
    if (count < 1)
        return fail(RH_INVALID, "gather: no input");
    RETURN_IF_FAILED(gathered_shape(inputs, count, dim, &wrapped, &shape));
    if (!shape_equal(&out->type.shape, &shape))
        return fail(RH_INVALID, "gather: the output has shape %s, expected %s",
                    shape_text(got, &out->type.shape), shape_text(expected, &shape));
    return gather_to(inputs, count, wrapped, out, seconds);
}
