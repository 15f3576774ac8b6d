#include "plan/overlap.h"

#include <stdlib.h>

#include "base/memory.h"

struct run {
    int64_t start, end;
};

struct runs {
    struct run *at;
    int count, capacity;
};

static void add_run(struct runs *runs, int64_t start, int64_t end)
{
    if (runs->count > 0 && runs->at[runs->count - 1].end == start)
        runs->at[runs->count - 1].end = end;
    else
        *ARRAY_ADD(runs->at, runs->count, runs->capacity) = (struct run){start, end};
}

/* The dimensions from `inner` on are dense; each index of those before is a run of its own. */
static int dense_from(const struct view *view, int64_t *elements)
{
    int inner = view->type.shape.rank;
    *elements = 1;
    while (inner > 0 &&
           (view->type.shape.dim[inner - 1] == 1 || view->stride[inner - 1] == *elements)) {
        inner--;
        *elements *= view->type.shape.dim[inner];
    }
    return inner;
}

static void add_runs(struct runs *runs, const struct view *view)
{
    const struct shape *shape = &view->type.shape;
    int64_t bytes = (int64_t)dtype_bytes(view->type.dtype);
    int64_t index[MAX_RANK] = {0}, start = view->offset, elements, count = 1;
    if (shape_elements(shape) == 0)
        return;
    if (view_is_dense(view)) {
        add_run(runs, view->offset, view_end(view));
        return;
    }
    int inner = dense_from(view, &elements);
    for (int d = 0; d < inner; d++)
        count *= shape->dim[d];
    if (count > OVERLAP_MOST_RUNS) {
        add_run(runs, view->offset, view_end(view));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        add_run(runs, start, start + elements * bytes);
        for (int d = inner - 1; d >= 0; d--) {
            start += view->stride[d] * bytes;
            if (++index[d] < shape->dim[d])
                break;
            start -= shape->dim[d] * view->stride[d] * bytes;
            index[d] = 0;
        }
    }
}

static int compare_runs(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorted, and joined where they touch. */
static struct runs runs_of(const struct view *const *views, int count)
{
    struct runs all = {0}, joined = {0};
    for (int i = 0; i < count; i++)
        add_runs(&all, views[i]);
    if (all.count > 1)
        qsort(all.at, (size_t)all.count, sizeof *all.at, compare_runs);
    for (int i = 0; i < all.count; i++) {
        struct run *last = joined.count > 0 ? &joined.at[joined.count - 1] : NULL;
        if (!last || last->end < all.at[i].start)
            *ARRAY_ADD(joined.at, joined.count, joined.capacity) = all.at[i];
        else if (last->end < all.at[i].end)
            last->end = all.at[i].end;
    }
    free(all.at);
    return joined;
}

bool overlap_views(const struct view *a, const struct view *b)
{
    if (a->buffer != b->buffer || view_end(a) <= b->offset || view_end(b) <= a->offset)
        return false;
    struct runs x = runs_of(&a, 1), y = runs_of(&b, 1);
    bool found = false;
    for (int i = 0, j = 0; i < x.count && j < y.count && !found;) {
        found = x.at[i].start < y.at[j].end && y.at[j].start < x.at[i].end;
        if (x.at[i].end <= y.at[j].end)
            i++;
        else
            j++;
    }
    free(x.at);
    free(y.at);
    return found;
}

bool overlap_covers(const struct view *const *others, int count, const struct view *view)
{
    struct runs whole = runs_of(others, count), part = runs_of(&view, 1);
    bool covered = true;
    for (int i = 0, j = 0; i < part.count && covered; i++) {
        while (j < whole.count && whole.at[j].end < part.at[i].end)
            j++;
        covered = j < whole.count && whole.at[j].start <= part.at[i].start;
    }
    free(whole.at);
    free(part.at);
    return covered;
}
