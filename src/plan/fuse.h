/* Fusion: instructions of a list that one launch can do become one. It looks at the plan alone, so
 * it holds for every strategy, and the simulator counts the launches that a GPU gets:
 *   batch_norm2d [+ add] + relu                   -> batch_norm2d with relu [and a residual]
 *   [relu_grad +] batch_norm2d's two gradients    -> batch_norm2d_grad
 *   conv2d_input_grad + add of gradients          -> conv2d_input_grad that accumulates
 *   casts in a row, between the same types        -> one cast of them all
 * Instructions are joined only on one stream with no event between them, and only where what one
 * hands to the next is read by nothing else. Values: those of the parts, rounded less often. */
#ifndef REHEARSE_PLAN_FUSE_H
#define REHEARSE_PLAN_FUSE_H

#include "plan/plan.h"

/* Before plan_check. Gives the number of instructions that went away. Buffers that no instruction
 * uses any more stay, and take no bytes. */
int plan_fuse(struct plan *plan);

#endif
