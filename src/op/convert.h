/* Element values between fp32 and the types that hold less: fp16 and bf16, rounded to the nearest,
 * ties to even, as IEEE 754 and as CUDA's conversions. */
#ifndef REHEARSE_OP_CONVERT_H
#define REHEARSE_OP_CONVERT_H

#include "op/type.h"

/* fp16 or bf16. */
bool dtype_is_low(enum dtype dtype);

/* `count` elements of a floating type, dense. fp32 and tf32 are copied as they are. NaN stays NaN;
 * what is too large for fp16 becomes infinite. */
void convert_to_f32(enum dtype dtype, const void *from, float *to, int64_t count);
void convert_from_f32(enum dtype dtype, const float *from, void *to, int64_t count);

#endif
