#include "base/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

struct watched {
    struct board_place place;
    double moved;
    bool gone, stopped;
};

struct watch {
    const struct board *board;
    int ranks;
    double timeout_seconds, looked, moved;
    struct watched *all;
};

static const double gap_seconds = 5;

struct watch *watch_new(const struct board *board, int ranks, double timeout_seconds, double now)
{
    struct watch *w = memory_new(sizeof *w);
    *w = (struct watch){board, ranks, timeout_seconds, now, now, NULL};
    w->all = memory_new_array((size_t)ranks, sizeof *w->all);
    for (int r = 0; r < ranks; r++)
        w->all[r].moved = now;
    return w;
}

void watch_free(struct watch *w)
{
    free(w->all);
    free(w);
}

static bool is_busy(const struct watched *one)
{
    return !one->gone && !one->stopped && one->place.phase == BOARD_BUSY;
}

void watch_look(struct watch *w, double now)
{
    bool late = now - w->looked > gap_seconds;
    bool busy = false;
    w->looked = now;
    for (int r = 0; r < w->ranks; r++) {
        struct watched *one = &w->all[r];
        struct board_place before = one->place;
        if (!one->gone)
            board_read(w->board, r, &one->place);
        bool moves = one->place.beats != before.beats || one->place.phase != before.phase;
        if (moves || late)
            one->moved = w->moved = now;
        busy = busy || is_busy(one);
    }
    for (int r = 0; r < w->ranks && busy; r++)
        if (!w->all[r].stopped)
            w->all[r].moved = w->moved = now;
}

void watch_set_gone(struct watch *w, int rank)
{
    board_read(w->board, rank, &w->all[rank].place);
    w->all[rank].gone = true;
}

void watch_set_stopped(struct watch *w, int rank, bool stopped)
{
    w->all[rank].stopped = stopped;
}

double watch_moved(const struct watch *w)
{
    return w->moved;
}

static bool stands(const struct watch *w, int rank, double now, double seconds)
{
    const struct watched *one = &w->all[rank];
    return !one->gone && now - one->moved >= seconds &&
           (one->place.phase == BOARD_RUNNING || (one->stopped && one->place.phase != BOARD_ENDED));
}

bool watch_stuck(const struct watch *w, double now)
{
    for (int r = 0; r < w->ranks; r++)
        if (stands(w, r, now, w->timeout_seconds))
            return true;
    return false;
}

static int front(const struct watch *w, const bool *without)
{
    int first = -1;
    for (int r = 0; r < w->ranks; r++)
        if (!(without && without[r]) &&
            (first < 0 || w->all[r].place.beats > w->all[first].place.beats))
            first = r;
    return first;
}

/* Of those that stand: one that a signal stopped, else one that is farthest behind. */
static int hindmost(const struct watch *w, double now, double seconds)
{
    int last = -1;
    for (int r = 0; r < w->ranks; r++) {
        const struct watched *one = &w->all[r];
        const struct watched *worst = last < 0 ? NULL : &w->all[last];
        if (stands(w, r, now, seconds) &&
            (!worst || one->stopped > worst->stopped ||
             (one->stopped == worst->stopped && one->place.beats < worst->place.beats)))
            last = r;
    }
    bool told = last >= 0 && (w->all[last].stopped ||
                              w->all[last].place.beats < w->all[front(w, NULL)].place.beats);
    return told ? last : -1;
}

static void add_place(struct text *text, const struct board_place *place, bool whole)
{
    if (place->step == 0) {
        text_add(text, "before the first step");
        return;
    }
    text_add(text, "step %d", place->step);
    if (whole && place->list[0])
        text_add(text, ", list '%s'%s", place->list, place->waits ? ", waiting" : "");
    else if (whole)
        text_add(text, ", feeding");
}

char *watch_front(const struct watch *w)
{
    struct text text = {0};
    add_place(&text, &w->all[front(w, NULL)].place, true);
    return text.data;
}

char *watch_blame(const struct watch *w, double now, double seconds)
{
    struct text numbers = {0};
    struct text text = {0};
    int worst = hindmost(w, now, seconds);
    int count = 0;
    if (worst < 0)
        return NULL;
    const struct watched *last = &w->all[worst];
    bool *blamed = memory_new_array((size_t)w->ranks, sizeof *blamed);
    for (int r = 0; r < w->ranks; r++) {
        const struct watched *one = &w->all[r];
        blamed[r] = stands(w, r, now, seconds) && one->stopped == last->stopped &&
                    one->place.beats == last->place.beats;
        if (blamed[r])
            text_add(&numbers, "%s%d", count++ ? ", " : "", r);
    }
    text_add(&text, "rank%s %s ", count > 1 ? "s" : "", numbers.data);
    if (last->stopped)
        text_add(&text, "%s stopped by a signal ", count > 1 ? "were" : "was");
    else
        text_add(&text, "stopped ");
    text_add(&text, last->place.step ? "at " : "");
    add_place(&text, &last->place, true);
    int first = front(w, blamed);
    if (first >= 0) {
        text_add(&text, " (others: ");
        add_place(&text, &w->all[first].place, w->all[first].place.step == last->place.step);
        text_add(&text, ")");
    }
    free(numbers.data);
    free(blamed);
    return text.data;
}
