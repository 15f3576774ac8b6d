/* Fusion: instructions of a list that one launch can do become one. It looks at the plan alone, so
 * it holds for every strategy, and the simulator counts the launches that a GPU gets:
 *   batch_norm2d [+ add] + relu                   -> batch_norm2d with relu [and a residual]
 *   [relu_grad +] batch_norm2d's two gradients    -> batch_norm2d_grad
 *   conv2d_input_grad + add of gradients          -> conv2d_input_grad that accumulates
 *   linear + relu                                 -> linear with relu
 *   linear_input_grad + relu_grad                 -> linear_input_grad that masks by y
 *   a loss + its gradient                         -> the gradient's op, which gives both
 *   casts in a row, between the same types        -> one cast of them all
 * Instructions are joined only on one stream, and only where what one hands to the next is read by
 * nothing else; with no event between them, but for relu_grad, whose operands are older. Values:
 * those of the parts, rounded less often in batch norm and sums. */
#ifndef REHEARSE_PLAN_FUSE_H
#define REHEARSE_PLAN_FUSE_H

#include "plan/plan.h"

/* Before plan_check. Gives the number of instructions that went away. Buffers that no instruction
 * uses any more stay, and take no bytes. */
int plan_fuse(struct plan *plan);

#endif
