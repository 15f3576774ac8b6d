#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/check.h"
#include "plan/overlap.h"
#include "plan/touch.h"

/* The bytes of a buffer, cut where any access begins or ends. In a list without a race each writer
 * comes after all accesses before it, so a later access needs a look only at the last writer and at
 * the readers since; of these, streams being queues, at the last one a stream. */
struct segments {
    int64_t *bounds;
    int bound_count, bound_capacity;
    int *writer;  /* touch, or -1 */
    int *readers; /* [segment][stream]: touch, or -1 */
    int room;     /* segments that the arrays hold */
};

static int compare_bounds(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void add_bound(struct segments *segments, int64_t bound)
{
    int count = segments->bound_count;
    if (count > 0 && segments->bounds[count - 1] == bound)
        return;
    *ARRAY_ADD(segments->bounds, segments->bound_count, segments->bound_capacity) = bound;
}

static void segments_reset(struct segments *segments, const struct touch *touches, int count,
                           int streams)
{
    bool same = true;
    segments->bound_count = 0;
    for (int i = 1; i < count && same; i++)
        same = touches[i].start == touches[0].start && touches[i].end == touches[0].end;
    for (int i = 0; i < (same ? 1 : count); i++) {
        add_bound(segments, touches[i].start);
        add_bound(segments, touches[i].end);
    }
    if (!same) {
        int all = segments->bound_count;
        qsort(segments->bounds, (size_t)all, sizeof *segments->bounds, compare_bounds);
        segments->bound_count = 0;
        for (int i = 0; i < all; i++)
            add_bound(segments, segments->bounds[i]);
    }
    if (segments->bound_count > segments->room) {
        segments->room = segments->bound_capacity;
        segments->writer =
            memory_resize(segments->writer, (size_t)segments->room, sizeof *segments->writer);
        segments->readers = memory_resize(
            segments->readers, (size_t)segments->room * (size_t)streams, sizeof *segments->readers);
    }
    for (int i = 0; i < segments->bound_count; i++)
        segments->writer[i] = -1;
    for (int i = 0; i < segments->bound_count * streams; i++)
        segments->readers[i] = -1;
}

static void segments_clear(struct segments *segments)
{
    free(segments->bounds);
    free(segments->writer);
    free(segments->readers);
}

static int find_segment(const struct segments *segments, int64_t start)
{
    int low = 0, high = segments->bound_count - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (segments->bounds[middle] < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum rh_status fail_unwritten(const struct touches *all, const struct touch *touch,
                                     int64_t start, int64_t end)
{
    const struct buffer *buffer = &all->role->buffers[touch->view->buffer];
    return fail(RH_INVALID,
                "unwritten bytes read in list '%s' of role '%s': '%s' (instruction %d, stream "
                "'%s') %s bytes [%lld, %lld) of buffer '%s' on device %d, and nothing wrote all of "
                "them before",
                all->list->name, all->role->name, all->list->instructions[touch->instruction].name,
                touch->instruction, all->role->streams[touch->stream].name,
                touch->write ? "adds to" : "reads", (long long)start, (long long)end, buffer->name,
                buffer->device);
}

static enum rh_status check_segment(const struct touches *all, struct segments *segments,
                                    const struct touch *touches, int i, int segment)
{
    int streams = all->role->stream_count;
    int *readers = segments->readers + (size_t)segment * (size_t)streams;
    int *writer = &segments->writer[segment];
    const struct touch *touch = &touches[i];
    if (*writer >= 0 && touches_unordered(all, &touches[*writer], touch))
        return touches_race(all, &touches[*writer], touch);
    if (*writer < 0 && touch->needs_content &&
        all->role->buffers[touch->view->buffer].lifetime == LIFETIME_TRANSIENT)
        return fail_unwritten(all, touch, segments->bounds[segment], segments->bounds[segment + 1]);
    if (!touch->write) {
        readers[touch->stream] = i;
        return RH_OK;
    }
    for (int s = 0; s < streams; s++) {
        if (readers[s] >= 0 && touches_unordered(all, &touches[readers[s]], touch))
            return touches_race(all, &touches[readers[s]], touch);
        readers[s] = -1;
    }
    *writer = i;
    return RH_OK;
}

static enum rh_status check_dense(const struct touches *all, struct segments *segments,
                                  const struct touch *touches, int count)
{
    segments_reset(segments, touches, count, all->role->stream_count);
    for (int i = 0; i < count; i++)
        for (int s = find_segment(segments, touches[i].start); segments->bounds[s] < touches[i].end;
             s++)
            RETURN_IF_FAILED(check_segment(all, segments, touches, i, s));
    return RH_OK;
}

static enum rh_status check_covered(const struct touches *all, const struct touch *touches, int i)
{
    const struct view **writes = memory_new_array((size_t)i, sizeof *writes);
    int count = 0;
    for (int j = 0; j < i; j++)
        if (touches[j].write)
            writes[count++] = touches[j].view;
    bool covered = overlap_covers(writes, count, touches[i].view);
    free(writes);
    if (!covered)
        return fail_unwritten(all, &touches[i], touches[i].start, touches[i].end);
    return RH_OK;
}

/* Columns and the like are compared pair by pair and byte by byte: rare, and few to a buffer. */
static enum rh_status check_strided(const struct touches *all, const struct touch *touches,
                                    int count)
{
    bool transient = all->role->buffers[touches[0].view->buffer].lifetime == LIFETIME_TRANSIENT;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++)
            if ((touches[i].write || touches[j].write) &&
                touches_unordered(all, &touches[j], &touches[i]) &&
                overlap_views(touches[j].view, touches[i].view))
                return touches_race(all, &touches[j], &touches[i]);
        if (touches[i].needs_content && transient)
            RETURN_IF_FAILED(check_covered(all, touches, i));
    }
    return RH_OK;
}

static enum rh_status check_buffers(const struct touches *all)
{
    struct segments segments = {0};
    enum rh_status status = RH_OK;
    for (int b = 0; b < all->role->buffer_count && status == RH_OK; b++) {
        const struct touch *touches = all->all + all->first[b];
        int count = all->first[b + 1] - all->first[b];
        bool dense = true;
        for (int i = 0; i < count && dense; i++)
            dense = view_is_dense(touches[i].view);
        if (count > 0)
            status = dense ? check_dense(all, &segments, touches, count)
                           : check_strided(all, touches, count);
    }
    segments_clear(&segments);
    return status;
}

enum rh_status plan_check_races(const struct plan *plan, int role, int list)
{
    struct touches touches;
    RETURN_IF_FAILED(touches_new(plan, role, list, &touches));
    enum rh_status status = check_buffers(&touches);
    if (status == RH_OK)
        status = touches_check_sharing(&touches);
    touches_clear(&touches);
    return status;
}
