/* torch.cuda.comm on a plan that is being written: coalesced broadcast and reduce_add over a
 * worker's local devices, packing and unpacking. Semantics: torch-semantics.md section 3. */
#ifndef REHEARSE_COMM_COMM_H
#define REHEARSE_COMM_COMM_H

#include "plan/plan.h"

/* Tensors back to back in one flat view, and the reverse (`accumulate` adds to the writes). */
void comm_pack(struct writer *w, int stream, const char *name, const struct view *tensors,
               int count, struct view flat);
void comm_unpack(struct writer *w, int stream, const char *name, struct view flat,
                 const struct view *tensors, int count, bool accumulate);

/* Where a tensor lies in a chunk that coalescing made. */
struct comm_chunk {
    int first, count; /* tensors */
    int64_t elements;
};
/* Cuts tensors (all of one element type) into chunks of about `limit_bytes`: appended before the
 * limit is looked at (broadcast), or closed before a tensor would exceed it (reduce). Returns the
 * number of chunks, `chunks` has room for `count`. */
enum comm_cut { COMM_APPEND_THEN_CLOSE, COMM_CLOSE_BEFORE };
int comm_chunks(const struct view *tensors, int count, double limit_bytes, enum comm_cut cut,
                struct comm_chunk *chunks);

/* One device of a local collective. */
struct comm_device {
    int device, stream;
};

/* Tensors of devices[0] to all devices: out[k * count + i] is tensor i on devices[k] (transient,
 * cut from a flat chunk); for k = 0 the tensors themselves. */
void comm_broadcast_coalesced(struct writer *w, const struct comm_device *devices, int device_count,
                              int group, const struct view *tensors, int count, double limit_bytes,
                              struct view *out);

/* Sums tensors[k * count + i] over devices k into sums[i] on devices[0]; `accumulate` adds to what
 * sums hold. */
void comm_reduce_add_coalesced(struct writer *w, const struct comm_device *devices,
                               int device_count, int group, const struct view *tensors, int count,
                               double limit_bytes, const struct view *sums, bool accumulate);

/* Over a group of workers with one part each: the tensors of coordinate 0 overwrite everybody's.
 * Packed on `compute`, sent on `communication`. */
void comm_broadcast_in_place(struct writer *w, int compute, int communication, int device,
                             int group, const struct view *tensors, int count, double limit_bytes);

#endif
