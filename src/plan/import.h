/* The reverse of plan_to_json, so that a plan can be written out, edited and run. */
#ifndef REHEARSE_PLAN_IMPORT_H
#define REHEARSE_PLAN_IMPORT_H

#include "plan/plan.h"

/* Offsets and totals in the JSON are left out: placement is made anew. Fails with `where`, the
 * role, list and instruction, and both numbers. The plan has yet to be checked (plan_check), which
 * finds what is wrong with its meaning. */
enum rh_status plan_from_json(const cJSON *json, const char *where, struct plan **plan);

#endif
