#include "plan/packing.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

static const size_t most_buffer_bytes = (size_t)1 << 46;

enum rh_status packing_check_bytes(const struct role *role, const struct buffer *buffer)
{
    char asked[32], most[32];
    if (buffer->bytes <= most_buffer_bytes)
        return RH_OK;
    return fail(RH_OUT_OF_MEMORY,
                "cannot place buffer '%s' of role '%s': %s asked, at most %s anywhere",
                buffer->name, role->name, text_bytes(asked, (double)buffer->bytes),
                text_bytes(most, (double)most_buffer_bytes));
}

/* Largest first packs best, but looks at all pairs: 2,048 buffers take some 10 ms, 20,000 a second.
 * Longer plans go through the list once and keep the free bytes as holes, so that the cost is the
 * number of holes and of buffers whose end is not certain yet, both small however long the list. */
enum { MOST_FOR_PAIRS = 2048 };

struct hole {
    size_t start, end;
};

/* The state of one pass through the list. */
struct passage {
    const struct uses *uses;
    struct packing_item *items; /* by first use */
    int count;
    int *by_last; /* items by last use; those before `released` have given their bytes back */
    int released;
    struct hole *holes; /* by start; the last one never ends */
    int hole_count, hole_capacity;
    int **over; /* per stream: released items last used on it, by last use */
    int *over_count;
    struct hole *blocked; /* bytes given back in list order that the next buffer may not have yet */
    int blocked_count, blocked_capacity;
};

static int compare_holes(const void *a, const void *b)
{
    const struct hole *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* First hole that starts at or behind `start`. */
static int find_hole(const struct passage *p, size_t start)
{
    int low = 0, high = p->hole_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (p->holes[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert_hole(struct passage *p, int at, struct hole hole)
{
    (void)ARRAY_ADD(p->holes, p->hole_count, p->hole_capacity);
    memmove(p->holes + at + 1, p->holes + at, (size_t)(p->hole_count - 1 - at) * sizeof *p->holes);
    p->holes[at] = hole;
}

static void remove_hole(struct passage *p, int at)
{
    p->hole_count--;
    memmove(p->holes + at, p->holes + at + 1, (size_t)(p->hole_count - at) * sizeof *p->holes);
}

static void give_back(struct passage *p, size_t start, size_t end)
{
    int at = find_hole(p, start);
    bool joins_next = p->holes[at].start == end; /* the endless hole is always behind */
    bool joins_previous = at > 0 && p->holes[at - 1].end == start;
    if (joins_previous && joins_next) {
        p->holes[at - 1].end = p->holes[at].end;
        remove_hole(p, at);
    } else if (joins_previous) {
        p->holes[at - 1].end = end;
    } else if (joins_next) {
        p->holes[at].start = start;
    } else {
        insert_hole(p, at, (struct hole){start, end});
    }
}

static void take(struct passage *p, int at, size_t start, size_t end)
{
    struct hole *hole = &p->holes[at];
    if (hole->start == start && hole->end == end) {
        remove_hole(p, at);
    } else if (hole->start == start) {
        hole->start = end;
    } else if (hole->end == end) {
        hole->end = start;
    } else {
        struct hole behind = {end, hole->end};
        hole->end = start;
        insert_hole(p, at + 1, behind);
    }
}

/* Buffers whose last use stands before `first` in the list. */
static void release_until(struct passage *p, int first)
{
    for (; p->released < p->count; p->released++) {
        int i = p->by_last[p->released];
        const struct packing_item *item = &p->items[i];
        if (p->uses->last[item->buffer] >= first)
            return;
        give_back(p, item->offset, item->offset + item->bytes);
        const int *last_on =
            p->uses->last_on + (size_t)item->buffer * (size_t)p->uses->stream_count;
        for (int s = 0; s < p->uses->stream_count; s++)
            if (last_on[s] >= 0)
                p->over[s][p->over_count[s]++] = i;
    }
}

/* Standing earlier in the list is not enough to share bytes: released buffers that are not
 * certainly done when `item` starts. Going back through those of a stream ends at what has surely
 * ended. */
static void find_blocked(struct passage *p, const struct packing_item *item)
{
    int streams = p->uses->stream_count;
    const int *ended = p->uses->ended + (size_t)item->buffer * (size_t)streams;
    p->blocked_count = 0;
    for (int s = 0; s < streams; s++) {
        for (int k = p->over_count[s] - 1; k >= 0; k--) {
            const struct packing_item *other = &p->items[p->over[s][k]];
            if (p->uses->last[other->buffer] <= ended[s])
                break;
            if (p->uses->last_on[(size_t)other->buffer * (size_t)streams + (size_t)s] > ended[s])
                *ARRAY_ADD(p->blocked, p->blocked_count, p->blocked_capacity) =
                    (struct hole){other->offset, other->offset + other->bytes};
        }
    }
    if (p->blocked_count > 1)
        qsort(p->blocked, (size_t)p->blocked_count, sizeof *p->blocked, compare_holes);
}

/* The smallest room (or, if `lowest`, the first) in the holes without the blocked bytes. */
static void place(struct passage *p, struct packing_item *item, bool lowest)
{
    size_t best_room = SIZE_MAX, best_start = 0;
    int best = -1, block = 0;
    for (int h = 0; h < p->hole_count && !(best >= 0 && lowest); h++) {
        size_t cursor = p->holes[h].start, end = p->holes[h].end;
        while (block < p->blocked_count && p->blocked[block].end <= cursor)
            block++;
        for (int b = block; cursor < end; b++) {
            bool inside = b < p->blocked_count && p->blocked[b].start < end;
            size_t until = inside ? p->blocked[b].start : end;
            size_t room = until > cursor ? until - cursor : 0;
            if (room >= item->bytes && (best < 0 || (!lowest && room < best_room))) {
                best = h;
                best_room = room;
                best_start = cursor;
            }
            if (!inside)
                break;
            if (p->blocked[b].end > cursor)
                cursor = p->blocked[b].end;
        }
    }
    item->offset = best_start;
    take(p, best, best_start, best_start + item->bytes);
}

struct item_key {
    int first, index;
    size_t bytes;
};

static int compare_first(const void *a, const void *b)
{
    const struct item_key *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int compare_bytes(const void *a, const void *b)
{
    const struct item_key *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return compare_first(a, b);
}

/* qsort passes no context, hence the keys. `order[k]` is the item that comes k-th. */
static void sort_items(const struct packing_item *items, int count, const int *when,
                       int (*compare)(const void *, const void *), int *order)
{
    struct item_key *keys = memory_new_array((size_t)count, sizeof *keys);
    for (int i = 0; i < count; i++)
        keys[i] = (struct item_key){when[items[i].buffer], i, items[i].bytes};
    qsort(keys, (size_t)count, sizeof *keys, compare);
    for (int i = 0; i < count; i++)
        order[i] = keys[i].index;
    free(keys);
}

static size_t top_of(const struct packing_item *items, int count)
{
    size_t top = 0;
    for (int i = 0; i < count; i++)
        if (items[i].offset + items[i].bytes > top)
            top = items[i].offset + items[i].bytes;
    return top;
}

/* Items come sorted by first use. */
static size_t pack_by_time(struct packing_item *items, int count, const struct uses *uses,
                           bool lowest)
{
    struct passage p = {.uses = uses, .items = items, .count = count};
    p.by_last = memory_new_array((size_t)count, sizeof *p.by_last);
    p.over = memory_new_array((size_t)uses->stream_count, sizeof *p.over);
    p.over_count = memory_new_array((size_t)uses->stream_count, sizeof *p.over_count);
    for (int s = 0; s < uses->stream_count; s++)
        p.over[s] = memory_new_array((size_t)count, sizeof *p.over[s]);
    sort_items(items, count, uses->last, compare_first, p.by_last);
    *ARRAY_ADD(p.holes, p.hole_count, p.hole_capacity) = (struct hole){0, SIZE_MAX};
    for (int i = 0; i < count; i++) {
        release_until(&p, uses->first[items[i].buffer]);
        find_blocked(&p, &items[i]);
        place(&p, &items[i], lowest);
    }
    for (int s = 0; s < uses->stream_count; s++)
        free(p.over[s]);
    free(p.over);
    free(p.over_count);
    free(p.by_last);
    free(p.holes);
    free(p.blocked);
    return top_of(items, count);
}

static bool clash(const struct uses *uses, int a, int b)
{
    if (uses->last[a] < uses->first[b])
        return !uses_before(uses, a, b);
    if (uses->last[b] < uses->first[a])
        return !uses_before(uses, b, a);
    return true;
}

/* Each, largest first, at the lowest place free of those that it clashes with. */
static size_t pack_by_size(struct packing_item *items, int count, const struct uses *uses)
{
    int *order = memory_new_array((size_t)count, sizeof *order);
    int *placed = memory_new_array((size_t)count, sizeof *placed); /* by offset */
    sort_items(items, count, uses->first, compare_bytes, order);
    for (int k = 0; k < count; k++) {
        struct packing_item *item = &items[order[k]];
        size_t cursor = 0;
        int at = k;
        for (int j = 0; j < k; j++) {
            const struct packing_item *other = &items[placed[j]];
            if (other->offset + other->bytes <= cursor || !clash(uses, item->buffer, other->buffer))
                continue;
            if (other->offset >= cursor + item->bytes)
                break;
            cursor = other->offset + other->bytes;
        }
        item->offset = cursor;
        while (at > 0 && items[placed[at - 1]].offset > cursor)
            at--;
        memmove(placed + at + 1, placed + at, (size_t)(k - at) * sizeof *placed);
        placed[at] = order[k];
    }
    free(order);
    free(placed);
    return top_of(items, count);
}

size_t packing_least(const struct packing_item *items, int count, const struct uses *uses)
{
    int *starts = memory_new_array((size_t)count, sizeof *starts);
    int *ends = memory_new_array((size_t)count, sizeof *ends);
    size_t live = 0, most = 0;
    sort_items(items, count, uses->first, compare_first, starts);
    sort_items(items, count, uses->last, compare_first, ends);
    for (int i = 0, gone = 0; i < count; i++) {
        int first = uses->first[items[starts[i]].buffer];
        for (; uses->last[items[ends[gone]].buffer] < first; gone++)
            live -= items[ends[gone]].bytes;
        live += items[starts[i]].bytes;
        if (live > most)
            most = live;
    }
    free(starts);
    free(ends);
    return most;
}

static void sort_by_first(struct packing_item *items, int count, const struct uses *uses)
{
    int *order = memory_new_array((size_t)count, sizeof *order);
    struct packing_item *copy = memory_new_array((size_t)count, sizeof *copy);
    memcpy(copy, items, (size_t)count * sizeof *items);
    sort_items(items, count, uses->first, compare_first, order);
    for (int i = 0; i < count; i++)
        items[i] = copy[order[i]];
    free(order);
    free(copy);
}

/* The best of three greedy ways; the first that reaches the bound ends it. */
size_t packing_run(struct packing_item *items, int count, const struct uses *uses)
{
    if (count == 0)
        return 0;
    size_t least = packing_least(items, count, uses);
    size_t best = SIZE_MAX;
    struct packing_item *kept = memory_new_array((size_t)count, sizeof *kept);
    sort_by_first(items, count, uses);
    for (int way = 0; way < 3 && best > least; way++) {
        if (way == 2 && count > MOST_FOR_PAIRS)
            break;
        size_t top =
            way == 2 ? pack_by_size(items, count, uses) : pack_by_time(items, count, uses, way);
        if (top < best) {
            best = top;
            memcpy(kept, items, (size_t)count * sizeof *items);
        }
    }
    memcpy(items, kept, (size_t)count * sizeof *items);
    free(kept);
    return best;
}
