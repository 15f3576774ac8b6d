/* Seconds of an op on a device, from the device's data: a measured row if there is one, else launch
 * floor and roofline: max(FLOPs / rate(type), bytes / bandwidth) / efficiency(class). */
#ifndef REHEARSE_COST_COST_H
#define REHEARSE_COST_COST_H

#include "platform/platform.h"

/* Device seconds of one op (host launch cost not included). Fails if the device has no rate for the
 * op's compute type ("device 'v100-…' has no bf16 rate"). */
enum rh_status cost_op_seconds(const struct device_model *device, const struct op *op,
                               const struct tensor_type *reads, int read_count,
                               const struct tensor_type *writes, int write_count, double *seconds);

/* The text by which a device file's `measured` rows name an op with its operands:
 * "conv2d k7x7 s2 p3 g1 fp32: (32,3,224,224) (64,3,7,7) -> (32,64,112,112)". */
char *cost_op_key(const struct op *op, const struct tensor_type *reads, int read_count,
                  const struct tensor_type *writes, int write_count, char out[512]);

#endif
