/* Many tensors in few messages. */
#include <stdlib.h>

#include "api/comm.h"
#include "base/memory.h"
#include "comm/comm.h"

static const double DEFAULT_BYTES = 10 * 1048576.0; /* torch's buffer_size */

/* Which tensors travel together, by type and then in order. */
struct packing {
    int *order;                /* tensor numbers, those of a parcel one after the other */
    struct comm_chunk *chunks; /* `first` counts in `order` */
    int chunk_count;
};

static void pack_type(struct packing *packing, struct rh_tensor *const *tensors, int count,
                      enum dtype dtype, double limit_bytes, enum comm_cut cut, int *at)
{
    struct view *views = memory_new_array((size_t)count, sizeof *views);
    struct comm_chunk *chunks = packing->chunks + packing->chunk_count;
    int first = *at;
    int mine = 0;
    for (int i = 0; i < count; i++) {
        if (tensors[i]->type.dtype != dtype || shape_elements(&tensors[i]->type.shape) == 0)
            continue;
        packing->order[first + mine] = i;
        views[mine++].type = tensors[i]->type;
    }
    int made = comm_chunks(views, mine, limit_bytes, cut, chunks);
    for (int c = 0; c < made; c++)
        chunks[c].first += first;
    packing->chunk_count += made;
    *at += mine;
    free(views);
}

static void packing_new(struct packing *packing, struct rh_tensor *const *tensors, int count,
                        size_t buffer_bytes, enum comm_cut cut)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_I64};
    double limit = buffer_bytes ? (double)buffer_bytes : DEFAULT_BYTES;
    int at = 0;
    *packing = (struct packing){memory_new_array((size_t)count, sizeof *packing->order),
                                memory_new_array((size_t)count, sizeof *packing->chunks), 0};
    for (int t = 0; t < 2; t++)
        pack_type(packing, tensors, count, types[t], limit, cut, &at);
}

static void packing_free(struct packing *packing)
{
    free(packing->order);
    free(packing->chunks);
}

/* A parcel of each chunk: dense copies of lists[d][i] for all d, and `flats` flat tensors, on
 * flat_devices[k]. flat_tensors[chunk * flats + k] owns the latter's memory. */
static enum rh_status parcels_fill(const struct packing *packing,
                                   struct rh_tensor *const *const *lists, int list_count,
                                   const int *flat_devices, int flats,
                                   struct rh_tensor **flat_tensors, struct comm_parcel *parcels)
{
    for (int c = 0; c < packing->chunk_count; c++) {
        const struct comm_chunk *chunk = &packing->chunks[c];
        const int *order = packing->order + chunk->first;
        struct comm_tensor *tensors =
            memory_new_array((size_t)list_count * (size_t)chunk->count, sizeof *tensors);
        struct comm_tensor *flat = memory_new_array((size_t)flats, sizeof *flat);
        struct tensor_type type = {lists[0][order[0]]->type.dtype, shape_of(1, &chunk->elements)};
        parcels[c] = (struct comm_parcel){tensors, chunk->count, flat};
        for (int d = 0; d < list_count; d++)
            for (int i = 0; i < chunk->count; i++)
                RETURN_IF_FAILED(
                    comm_dense(lists[d][order[i]], type.dtype, &tensors[d * chunk->count + i]));
        for (int k = 0; k < flats; k++) {
            struct rh_tensor **owner = &flat_tensors[c * flats + k];
            RETURN_IF_FAILED(tensor_new(lists[0][0]->cluster, flat_devices[k], &type, owner));
            flat[k] = comm_whole(*owner);
        }
    }
    return RH_OK;
}

static void parcels_free(struct comm_parcel *parcels, int count, int list_count)
{
    for (int c = 0; c < count; c++) {
        for (int i = 0; parcels[c].tensors && i < list_count * parcels[c].count; i++)
            free(parcels[c].tensors[i].data);
        free((void *)(uintptr_t)parcels[c].tensors);
        free(parcels[c].flats);
    }
    free(parcels);
}

/* out[i] of target k: cut from its flat tensor; what is empty is made anew, in its shape. */
static enum rh_status cut_results(const struct packing *packing, struct rh_tensor *const *like,
                                  int count, struct rh_tensor *const *flat_tensors, int flats,
                                  int k, int device, struct rh_tensor **out)
{
    for (int c = 0; c < packing->chunk_count; c++) {
        int64_t at = 0;
        for (int i = 0; i < packing->chunks[c].count; i++) {
            int number = packing->order[packing->chunks[c].first + i];
            const struct shape *shape = &like[number]->type.shape;
            out[number] = tensor_dense_view(flat_tensors[c * flats + k], at, shape);
            at += shape_elements(shape);
        }
    }
    for (int i = 0; i < count; i++)
        if (!out[i])
            RETURN_IF_FAILED(tensor_new(like[i]->cluster, device, &like[i]->type, &out[i]));
    return RH_OK;
}

enum rh_status rh_broadcast_coalesced(struct rh_tensor *const *tensors, int count,
                                      const int *devices, int device_count, size_t buffer_bytes,
                                      struct rh_tensor **out, double *seconds)
{
    int source = 0;
    int targets = device_count - 1;
    struct packing packing;
    if (device_count < 1)
        return fail(RH_INVALID, "broadcast_coalesced: no device");
    for (int i = 0; i < device_count * count; i++)
        out[i] = NULL;
    if (count < 1)
        return RH_OK;
    struct rh_cluster *cluster = tensors[0]->cluster;
    for (int d = 0; d < device_count; d++)
        RETURN_IF_FAILED(tensor_device(cluster, "broadcast_coalesced", devices[d], false, &source));
    for (int i = 0; i < count; i++)
        if (tensors[i]->storage->device != devices[0])
            return fail(RH_INVALID, "broadcast_coalesced: tensor %d is on device %d, not on %d", i,
                        rh_tensor_device(tensors[i]), devices[0]);
    struct comm_run run = comm_begin(cluster, seconds);
    packing_new(&packing, tensors, count, buffer_bytes, COMM_APPEND_THEN_CLOSE);
    struct comm_parcel *parcels = memory_new_array((size_t)packing.chunk_count, sizeof *parcels);
    struct rh_tensor **flats =
        memory_new_array((size_t)packing.chunk_count * (size_t)targets, sizeof *flats);
    enum rh_status status =
        parcels_fill(&packing, &tensors, 1, devices + 1, targets, flats, parcels);
    if (status == RH_OK && targets > 0 && packing.chunk_count > 0)
        status = comm_run_broadcast_parcels(&run, devices[0], parcels, packing.chunk_count, targets,
                                            seconds);
    for (int i = 0; i < count && status == RH_OK; i++)
        out[i] = comm_alias(tensors[i]);
    for (int k = 0; k < targets && status == RH_OK; k++)
        status = cut_results(&packing, tensors, count, flats, targets, k, devices[k + 1],
                             out + (size_t)(k + 1) * (size_t)count);
    if (status != RH_OK)
        comm_free_all(out, device_count * count);
    comm_free_all(flats, packing.chunk_count * targets);
    free(flats);
    parcels_free(parcels, packing.chunk_count, 1);
    packing_free(&packing);
    return status;
}

/* Lists match, each on one GPU; *root is the last on the destination. */
static enum rh_status check_lists(struct rh_tensor *const *const *lists, const int *counts,
                                  int list_count, int destination, int *devices, int *root)
{
    *root = -1;
    for (int d = 0; d < list_count; d++) {
        if (counts[d] != counts[0])
            return fail(RH_INVALID, "reduce_add_coalesced: list %d has %d tensors, list 0 has %d",
                        d, counts[d], counts[0]);
        for (int i = 0; i < counts[d]; i++) {
            const struct tensor_type *mine = &lists[d][i]->type;
            const struct tensor_type *first = &lists[0][i]->type;
            char got[64];
            char expected[64];
            RETURN_IF_FAILED(comm_on_gpu("reduce_add_coalesced", "tensor", i, lists[d][i]));
            if (lists[d][i]->storage->device != lists[d][0]->storage->device)
                return fail(RH_INVALID, "reduce_add_coalesced: list %d is on devices %d and %d", d,
                            rh_tensor_device(lists[d][0]), rh_tensor_device(lists[d][i]));
            if (!shape_equal(&mine->shape, &first->shape) || mine->dtype != first->dtype)
                return fail(RH_INVALID,
                            "reduce_add_coalesced: tensor %d of list %d is %s %s, expected %s %s",
                            i, d, dtype_name(mine->dtype), shape_text(got, &mine->shape),
                            dtype_name(first->dtype), shape_text(expected, &first->shape));
        }
        devices[d] = lists[d][0]->storage->device;
        if (devices[d] == destination)
            *root = d;
    }
    if (*root < 0)
        return fail(RH_INVALID, "reduce_add_coalesced: destination %d holds none of the %d lists",
                    destination, list_count);
    return RH_OK;
}

enum rh_status rh_reduce_add_coalesced(struct rh_tensor *const *const *lists, const int *counts,
                                       int list_count, int destination, size_t buffer_bytes,
                                       struct rh_tensor **out, double *seconds)
{
    struct packing packing;
    int root = 0;
    if (list_count < 1 || counts[0] < 1)
        return fail(RH_INVALID, "reduce_add_coalesced: no input");
    int count = counts[0];
    int *devices = memory_new_array((size_t)list_count, sizeof *devices);
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    enum rh_status status = check_lists(lists, counts, list_count, destination, devices, &root);
    if (status != RH_OK) {
        free(devices);
        return status;
    }
    struct comm_run run = comm_begin(lists[0][0]->cluster, seconds);
    packing_new(&packing, lists[0], count, buffer_bytes, COMM_CLOSE_BEFORE);
    struct comm_parcel *parcels = memory_new_array((size_t)packing.chunk_count, sizeof *parcels);
    struct rh_tensor **flats = memory_new_array((size_t)packing.chunk_count, sizeof *flats);
    status = parcels_fill(&packing, lists, list_count, &destination, 1, flats, parcels);
    if (status == RH_OK && packing.chunk_count > 0)
        status = comm_run_reduce_parcels(&run, devices, list_count, root, parcels,
                                         packing.chunk_count, seconds);
    if (status == RH_OK)
        status = cut_results(&packing, lists[0], count, flats, 1, 0, destination, out);
    if (status != RH_OK)
        comm_free_all(out, count);
    comm_free_all(flats, packing.chunk_count);
    free(flats);
    parcels_free(parcels, packing.chunk_count, list_count);
    packing_free(&packing);
    free(devices);
    return status;
}
