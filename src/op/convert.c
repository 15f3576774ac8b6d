#include "op/convert.h"

#include <assert.h>
#include <math.h>
#include <string.h>

bool dtype_is_low(enum dtype dtype)
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float value_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The upper half of an fp32. */
static uint16_t to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Below 2^-14 fp16 is fixed point with steps of 2^-24: adding 0.5 in fp32 rounds to just those. */
static uint16_t to_f16(float value)
{
    uint32_t bits = bits_of(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7fffffffu;
    if (isnan(value))
        return sign | 0x7e00u;
    if (magnitude >= 0x47800000u) /* 65536 */
        return sign | 0x7c00u;
    if (magnitude < 0x38800000u) /* 2^-14 */
        return (uint16_t)(sign | (bits_of(value_of(magnitude) + 0.5f) - bits_of(0.5f)));
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
}

static float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    if (exponent == 0x1f)
        return value_of(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0)
        return (sign ? -1.0f : 1.0f) * ldexpf((float)fraction, -24);
    return value_of(sign | (exponent + 112) << 23 | fraction << 13);
}

void convert_to_f32(enum dtype dtype, const void *from, float *to, int64_t count)
{
    const uint16_t *low = from;
    assert(dtype != DTYPE_I64 && dtype != DTYPE_I32);
    if (!dtype_is_low(dtype)) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = dtype == DTYPE_BF16 ? value_of((uint32_t)low[i] << 16) : from_f16(low[i]);
}

void convert_from_f32(enum dtype dtype, const float *from, void *to, int64_t count)
{
    uint16_t *low = to;
    assert(dtype != DTYPE_I64 && dtype != DTYPE_I32);
    if (!dtype_is_low(dtype)) {
        memcpy(to, from, (size_t)count * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        low[i] = dtype == DTYPE_BF16 ? to_bf16(from[i]) : to_f16(from[i]);
}
