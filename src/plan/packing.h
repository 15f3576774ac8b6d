/* Offsets for the transient buffers of one list on one device: dynamic storage allocation, where
 * two that are in use at the same time, or in no certain order, may not share bytes. */
#ifndef REHEARSE_PLAN_PACKING_H
#define REHEARSE_PLAN_PACKING_H

#include <stddef.h>

#include "plan/uses.h"

/* RH_OUT_OF_MEMORY for a buffer beyond any device (64 TiB, or a shape that overflows), so that sums
 * of bytes need no care. */
enum rh_status packing_check_bytes(const struct role *role, const struct buffer *buffer);

struct packing_item {
    int buffer;
    size_t bytes; /* a multiple of the alignment, above 0 */
    size_t offset;
};

/* Sets every offset; gives the bytes of the arena. Items come in any order and leave in another.
 * Deterministic. */
size_t packing_run(struct packing_item *items, int count, const struct uses *uses);

/* Most bytes of items in use at one instruction of the list: no arena can be smaller. */
size_t packing_least(const struct packing_item *items, int count, const struct uses *uses);

#endif
