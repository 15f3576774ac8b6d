/* What the timed searches of a session share: their budget, random operands, a clock. */
#ifndef REHEARSE_BACKENDS_CUDA_SEARCH_H
#define REHEARSE_BACKENDS_CUDA_SEARCH_H

#include "backends/cuda/session.h"

/* Seconds since some time; a search adds what it took to the session's search_seconds. */
double search_clock(void);
/* 15 s were spent in the session: from here on the first ways must do. */
bool search_is_over(const struct session *session);

/* SEARCH_PATTERN random elements in [-1, 1), host memory, the caller's to free. */
enum { SEARCH_PATTERN = 1 << 18 };
void *search_pattern(enum dtype dtype);
/* Device memory at `at` filled with the pattern, over and over; done when it returns. */
enum rh_status search_fill(struct session *session, void *at, size_t bytes, const void *pattern,
                           size_t pattern_bytes);

/* Seconds of one launch of work on the session's origin. What is short is launched by a graph, so
 * that the device's time counts and not the host's; only if `capture`. */
typedef enum rh_status search_launch(void *context);
enum rh_status search_time(struct session *session, search_launch *launch, void *context,
                           bool capture, float *seconds);

#endif
