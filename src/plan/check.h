/* What a plan must satisfy before anything runs it: every message and collective meets its other
 * half and nothing waits for ever; no two unordered instructions touch the same bytes. */
#ifndef REHEARSE_PLAN_CHECK_H
#define REHEARSE_PLAN_CHECK_H

#include "plan/plan.h"

/* Runs list `list` of all roles without time, each stream a queue (untimed.h). What cannot go on is
 * a deadlock: the error names the instructions at the heads, worker and list. Uniform axes (not
 * role_axis) are reduced to at most three coordinates, since all workers along them do the same. */
enum rh_status plan_check_matching(const struct plan *plan, int list);

/* After plan_place: two instructions of a list touch the same bytes of a device, at least one
 * writes, and neither happens before the other: an error with both names, buffers and bytes. Also reads
 * of transient bytes that nothing wrote before. */
enum rh_status plan_check_races(const struct plan *plan, int role, int list);

/* Operand shapes of every instruction (op_check, equal part sizes), streams on their operands'
 * devices, indices in range. */
enum rh_status plan_check_shapes(const struct plan *plan);

/* All of the above, for all lists and roles. Calls plan_place in between. */
enum rh_status plan_check(struct plan *plan);

#endif
