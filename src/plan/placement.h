/* Where buffers lie: a persistent area and one arena per device. Two transient buffers share bytes
 * only if every use of the one happens before every use of the other (order.h). */
#ifndef REHEARSE_PLAN_PLACEMENT_H
#define REHEARSE_PLAN_PLACEMENT_H

#include "plan/plan.h"

enum { PLACEMENT_ALIGNMENT = 256 };

/* Sets every buffer's offset and every role's persistent_bytes and arena_bytes. Deterministic. */
enum rh_status plan_place(struct plan *plan);

/* Peak bytes of a role's device by purpose: persistent sums, and the arena split by what lives at
 * its fullest moment (alignment and fragmentation counted to the largest transient purpose).
 * RUNTIME is 0. */
void plan_peak(const struct plan *plan, int role, int device, double by_purpose[PURPOSE_COUNT]);

/* RH_OUT_OF_MEMORY with one line if a device does not hold its share: asked, available, and the
 * three largest buffers. `capacity` and `runtime` bytes are those of the device behind (role,
 * device); `where` names it ("node0:gpu3"). */
enum rh_status plan_fits(const struct plan *plan, int role, int device, const char *where,
                         double capacity_bytes, double runtime_bytes);

#endif
