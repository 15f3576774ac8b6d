/* Happens-before inside one list of one role: the streams' first-in first-out order plus
 * record-wait edges, as vector clocks. Races and memory sharing are decided by it, never by list
 * order. */
#ifndef REHEARSE_PLAN_ORDER_H
#define REHEARSE_PLAN_ORDER_H

#include "plan/plan.h"

struct order;

/* Fails if a wait stands before its record, an event is recorded twice, or never. COLLECT, EXCHANGE
 * and COPY occupy all streams that they name. SYNC orders everything issued after it. */
enum rh_status order_new(const struct plan *plan, int role, int list, struct order **order);
void order_free(struct order *order);

/* Instruction `a` has certainly ended before `b` starts. */
bool order_before(const struct order *order, int a, int b);

/* Per stream of the role: the last of its instructions that has certainly ended before `b` starts,
 * -1 if none; all earlier ones of that stream have ended too. Owned by the order. */
const int *order_clock(const struct order *order, int b);

#endif
