/* DDP's assignment of gradients to buckets, as a pure function (torch-semantics.md 5.2). */
#ifndef REHEARSE_STRATEGY_BUCKET_ASSIGN_H
#define REHEARSE_STRATEGY_BUCKET_ASSIGN_H

#include <stdint.h>

struct bucket_item {
    int64_t bytes;
    int key; /* items of different keys (element type, device) never share a bucket */
};

/* Puts each item, in order, into the open bucket of its key; a bucket closes after the item that
 * brings it to its limit, and its key goes on to the next limit (the last one repeats; -1: no
 * limit). Writes the bucket of each item, numbered in the order in which buckets close (what is
 * left open closes at the end, by first item), and returns how many there are. */
int bucket_assign(const struct bucket_item *items, int count, const int64_t *limits,
                  int limit_count, int *bucket_of_item);

#endif
