/* Bytes of rank 0 to all ranks of a job, by files that all of them see: a folder of one machine, or
 * a shared one. What an earlier job left there is not taken for this one's. */
#ifndef REHEARSE_BASE_RENDEZVOUS_H
#define REHEARSE_BASE_RENDEZVOUS_H

#include <stddef.h>

#include "base/rank.h"

/* Every rank calls it with the same path and number of bytes; `data` is given by rank 0 and filled
 * for the others. Rank R asks in PATH.R with a number made for the occasion, and takes only an
 * answer, in PATH, that repeats it; then it removes its question. When all have
 * done so rank 0 removes the answer, and all return. One job at a time on a path.
 * RH_FAILED where a file cannot be written, or after `timeout_seconds`: rank 0 then names a rank
 * that did not come, the others what is wrong with the answer. */
enum rh_status rendezvous_share(const char *path, const struct rank *self, double timeout_seconds,
                                void *data, size_t bytes);

/* Removes what a meeting that was killed left. */
void rendezvous_clear(const char *path, int ranks);

#endif
