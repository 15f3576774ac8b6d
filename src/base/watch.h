/* A launcher's eye on its ranks: who makes no progress, and where that one is. Time is an argument,
 * in seconds of a clock that never goes back. */
#ifndef REHEARSE_BASE_WATCH_H
#define REHEARSE_BASE_WATCH_H

#include "base/board.h"

struct watch;

struct watch *watch_new(const struct board *board, int ranks, double timeout_seconds, double now);
void watch_free(struct watch *watch);

/* Looks at all ranks. To be called about once a second: after a gap of more than five the launcher
 * was stopped itself, perhaps with its ranks, and all get their time anew. */
void watch_look(struct watch *watch, double now);
/* A rank that ended is where it was, and nobody waits for it; one that a signal stopped is the
 * first to blame. */
void watch_set_gone(struct watch *watch, int rank);
void watch_set_stopped(struct watch *watch, int rank, bool stopped);

/* When a rank moved last, or the watch began. */
double watch_moved(const struct watch *watch);
/* Whether one that runs, or that a signal stopped, has made no progress for the time-out. While one
 * is busy, those that run have time. */
bool watch_stuck(const struct watch *watch, double now);
/* Who is behind: "rank 2 stopped at step 5, list 'steady' (others: step 6)", of the ranks that have
 * not moved for `seconds`; NULL if nobody can be told from the others. Freed by the caller. */
char *watch_blame(const struct watch *watch, double now, double seconds);
/* Where the rank that is farthest is: "step 5, list 'steady'". Freed by the caller. */
char *watch_front(const struct watch *watch);

#endif
