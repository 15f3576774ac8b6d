/* An op's attributes by name, for the JSON form of a plan: one table says which kinds have which, for
 * both directions. */
#ifndef REHEARSE_PLAN_ATTRIBUTES_H
#define REHEARSE_PLAN_ATTRIBUTES_H

#include <cjson/cJSON.h>

#include "op/op.h"

/* "compute", what the op's kind has, and the flags that are set. The caller owns it. */
cJSON *attributes_json(const struct op *op);
/* The reverse, into an op whose kind is set: a missing one is 0, an unknown one an error with the
 * nearest. */
enum rh_status attributes_read(const cJSON *object, const char *where, struct op *op);

#endif
