#include <stdlib.h>

#include "base/memory.h"
#include "comm/comm.h"

static int64_t elements_of(const struct view *view)
{
    return shape_elements(&view->type.shape);
}

static struct view flat_transient(struct writer *w, const char *name, int device, enum dtype dtype,
                                  int64_t elements)
{
    struct buffer buffer = {.name = name,
                            .device = device,
                            .type = {dtype, shape_of(1, &elements)},
                            .purpose = PURPOSE_COMMUNICATION,
                            .lifetime = LIFETIME_TRANSIENT,
                            .list = w->list,
                            .index = -1};
    return view_of(&w->plan->roles[w->role], role_add_buffer(w->plan, w->role, buffer));
}

void comm_pack(struct writer *w, int stream, const char *name, const struct view *tensors,
               int count, struct view flat)
{
    struct op op = {.kind = OP_pack, .compute = DTYPE_F32};
    write_compute(w, stream, name, &op, tensors, count, &flat, 1);
}

void comm_unpack(struct writer *w, int stream, const char *name, struct view flat,
                 const struct view *tensors, int count, bool accumulate)
{
    struct op op = {.kind = OP_unpack, .compute = DTYPE_F32, .accumulate = accumulate};
    write_compute(w, stream, name, &op, &flat, 1, tensors, count);
}

int comm_chunks(const struct view *tensors, int count, double limit_bytes, enum comm_cut cut,
                struct comm_chunk *chunks)
{
    int made = 0;
    double bytes = 0;
    bool open = false;
    for (int i = 0; i < count; i++) {
        double more = (double)type_bytes(&tensors[i].type);
        if (open && cut == COMM_CLOSE_BEFORE && bytes + more > limit_bytes)
            open = false;
        if (!open) {
            chunks[made++] = (struct comm_chunk){.first = i};
            bytes = 0;
            open = true;
        }
        chunks[made - 1].count++;
        chunks[made - 1].elements += elements_of(&tensors[i]);
        bytes += more;
        if (cut == COMM_APPEND_THEN_CLOSE && bytes >= limit_bytes)
            open = false;
    }
    return made;
}

/* Cuts the flat view of a chunk into tensors of the given types. */
static void cut_flat(struct view flat, const struct view *tensors, int count, struct view *out)
{
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        out[i] = view_as(view_narrow(flat, 0, at, elements_of(&tensors[i])), &tensors[i].type);
        at += elements_of(&tensors[i]);
    }
}

void comm_broadcast_coalesced(struct writer *w, const struct comm_device *devices, int device_count,
                              int group, const struct view *tensors, int count, double limit_bytes,
                              struct view *out)
{
    struct comm_chunk *chunks = memory_new_array((size_t)count, sizeof *chunks);
    struct collect_part *parts = memory_new_array((size_t)device_count, sizeof *parts);
    struct view *flats = memory_new_array((size_t)device_count, sizeof *flats);
    int chunk_count = comm_chunks(tensors, count, limit_bytes, COMM_APPEND_THEN_CLOSE, chunks);
    for (int c = 0; c < chunk_count; c++) {
        const struct comm_chunk *chunk = &chunks[c];
        const char *name = plan_text(w->plan, "broadcast chunk %d", c);
        const struct view *first = &tensors[chunk->first];
        for (int k = 0; k < device_count; k++) {
            struct view *mine = &out[k * count + chunk->first];
            if (k > 0 || chunk->count > 1)
                flats[k] =
                    flat_transient(w, name, devices[k].device, first->type.dtype, chunk->elements);
            else
                flats[k] = *first; /* a chunk of one tensor is sent as it lies */
            if (k == 0)
                for (int i = 0; i < chunk->count; i++)
                    mine[i] = first[i];
            else
                cut_flat(flats[k], first, chunk->count, mine);
            parts[k] = (struct collect_part){devices[k].stream, k ? NULL : &flats[0],
                                             k ? &flats[k] : NULL};
        }
        if (chunk->count > 1)
            comm_pack(w, devices[0].stream, name, first, chunk->count, flats[0]);
        else
            flats[0] = view_as(
                flats[0], &(struct tensor_type){first->type.dtype, shape_of(1, &chunk->elements)});
        write_collect(w, name, COLLECTIVE_BROADCAST, REDUCE_SUM, group, 0, 0, parts, device_count);
    }
    free(chunks);
    free(parts);
    free(flats);
}

void comm_reduce_add_coalesced(struct writer *w, const struct comm_device *devices,
                               int device_count, int group, const struct view *tensors, int count,
                               double limit_bytes, const struct view *sums, bool accumulate)
{
    struct comm_chunk *chunks = memory_new_array((size_t)count, sizeof *chunks);
    struct collect_part *parts = memory_new_array((size_t)device_count, sizeof *parts);
    struct view *flats = memory_new_array((size_t)device_count, sizeof *flats);
    int chunk_count = comm_chunks(tensors, count, limit_bytes, COMM_CLOSE_BEFORE, chunks);
    for (int c = 0; c < chunk_count; c++) {
        const struct comm_chunk *chunk = &chunks[c];
        const char *name = plan_text(w->plan, "reduce chunk %d", c);
        for (int k = 0; k < device_count; k++) {
            const struct view *mine = &tensors[k * count + chunk->first];
            flats[k] =
                flat_transient(w, name, devices[k].device, mine->type.dtype, chunk->elements);
            comm_pack(w, devices[k].stream, name, mine, chunk->count, flats[k]);
            parts[k] = (struct collect_part){devices[k].stream, &flats[k], k ? NULL : &flats[0]};
        }
        write_collect(w, name, COLLECTIVE_REDUCE, REDUCE_SUM, group, 0, 0, parts, device_count);
        comm_unpack(w, devices[0].stream, name, flats[0], &sums[chunk->first], chunk->count,
                    accumulate);
    }
    free(chunks);
    free(parts);
    free(flats);
}

void comm_broadcast_in_place(struct writer *w, int compute, int communication, int device,
                             int group, const struct view *tensors, int count, double limit_bytes)
{
    struct comm_chunk *chunks = memory_new_array((size_t)count, sizeof *chunks);
    int chunk_count = comm_chunks(tensors, count, limit_bytes, COMM_APPEND_THEN_CLOSE, chunks);
    for (int c = 0; c < chunk_count; c++) {
        const struct comm_chunk *chunk = &chunks[c];
        const char *name = plan_text(w->plan, "start-up broadcast %d", c);
        const struct view *first = &tensors[chunk->first];
        struct view flat = flat_transient(w, name, device, first->type.dtype, chunk->elements);
        comm_pack(w, compute, name, first, chunk->count, flat);
        write_join(w, compute, communication, name);
        struct collect_part part = {communication, &flat, &flat};
        write_collect(w, name, COLLECTIVE_BROADCAST, REDUCE_SUM, group, 0, 0, &part, 1);
        write_join(w, communication, compute, name);
        comm_unpack(w, compute, name, flat, first, chunk->count, false);
    }
    free(chunks);
}
