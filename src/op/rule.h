/* The rules of op_list.h as code, shared by shape.c (forward) and check.c (gradients, optimizers):
 * operand names for messages, and forward shapes that a gradient's operands must fit as well. */
#ifndef REHEARSE_OP_RULE_H
#define REHEARSE_OP_RULE_H

#include "op/op.h"

enum { SIGNATURE_OPERANDS = 7 };

/* REAL is any floating type, INTEGER int64; MAYBE may be left out. */
enum operand_kind { REAL = 0, INTEGER = 1, MAYBE = 2 };

struct operand_rule {
    const char *name;
    int kind;
};

/* Unused slots have no name. Optimizers have only their fixed operands here, pack and unpack one
 * for all of a side. */
struct signature {
    struct operand_rule reads[SIGNATURE_OPERANDS], writes[SIGNATURE_OPERANDS];
};

extern const struct signature op_signatures[OP_COUNT];

/* An operand as messages call it; `type` is NULL where it is left out. */
struct operand {
    const char *name;
    const struct tensor_type *type;
};

/* "wrong operand 'w' of op 'linear': (5, 12) has 12 inputs, 10 wanted by 'x'". `what` is a plural.
 */
enum rh_status rule_fault(const struct op *op, struct operand operand, const char *what,
                          int64_t got, const char *by, int64_t wanted);
enum rh_status rule_rank(const struct op *op, struct operand operand, int rank);
/* Same shape; same number of elements, under any shape. */
enum rh_status rule_same_shape(const struct op *op, struct operand operand, struct operand other);
enum rh_status rule_same_elements(const struct op *op, struct operand operand,
                                  struct operand other);
/* `operand` has exactly this shape, which follows from the operand `by`. */
enum rh_status rule_is_shape(const struct op *op, struct operand operand, const char *by,
                             const struct shape *shape);

/* Element kind (floating or int64) and dimensions of one operand. */
enum rh_status rule_operand(const struct op *op, const struct operand_rule *rule,
                            const struct tensor_type *type);
/* The same for all operands of one side, and their count, against the signature. */
enum rh_status rule_operands(const struct op *op, bool write, const struct tensor_type *types,
                             int count);

/* Output shapes of forward ops. A gradient op's check calls them with its own operands in the
 * forward roles: gx as x, gw as w. */
enum rh_status shape_linear(const struct op *op, struct operand x, struct operand w,
                            struct operand b, struct shape *y);
enum rh_status shape_conv2d(const struct op *op, struct operand x, struct operand w,
                            struct operand b, struct shape *y);
enum rh_status shape_pool2d(const struct op *op, struct operand x, struct shape *y);
enum rh_status shape_embedding(const struct op *op, struct operand index, struct operand w,
                               struct shape *y);
/* x and target of either loss against each other. */
enum rh_status shape_loss(const struct op *op, struct operand x, struct operand target);
/* x is (n, c, h, w), and every other operand has its c elements. */
enum rh_status shape_channels(const struct op *op, struct operand x, const struct operand *vectors,
                              int count);

#endif
