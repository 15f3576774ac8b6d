/* Rounding to fp16 and bf16, held against the definition: every value comes back, and between two
 * neighbours the nearer one is taken, at the middle the even one. */
#include "op/convert.h"

#include <math.h>
#include <string.h>

#include "unit.h"

static float widened(enum dtype dtype, uint16_t low)
{
    float value;
    convert_to_f32(dtype, &low, &value, 1);
    return value;
}

static uint16_t rounded(enum dtype dtype, float value)
{
    uint16_t low;
    convert_from_f32(dtype, &value, &low, 1);
    return low;
}

static void test_known_values(void)
{
    CU_ASSERT_EQUAL(rounded(DTYPE_BF16, 1.0f), 0x3f80);
    CU_ASSERT_EQUAL(rounded(DTYPE_BF16, -3.140625f), 0xc049);
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, 1.0f), 0x3c00);
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, -2.0f), 0xc000);
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, 65504.0f), 0x7bff); /* the largest */
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, 65519.0f), 0x7bff);
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, 65520.0f), 0x7c00); /* halfway to what would be next */
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, 6.103515625e-5f), 0x0400);
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, 5.9604645e-8f), 0x0001); /* 2^-24 */
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, 2.9802322e-8f), 0x0000); /* half of it: to even */
    CU_ASSERT_EQUAL(rounded(DTYPE_F16, -1e-30f), 0x8000);
    CU_ASSERT_EQUAL(widened(DTYPE_F16, 0x3555), 0.333251953125f);
    CU_ASSERT_TRUE(isinf(widened(DTYPE_BF16, rounded(DTYPE_BF16, 3.4e38f * 1.0005f))));
    CU_ASSERT_TRUE(dtype_is_low(DTYPE_F16) && dtype_is_low(DTYPE_BF16));
    CU_ASSERT_FALSE(dtype_is_low(DTYPE_TF32) || dtype_is_low(DTYPE_I64));
}

static void test_every_value(enum dtype dtype)
{
    int wrong = 0;
    for (uint32_t low = 0; low < 0x10000; low++) {
        float value = widened(dtype, (uint16_t)low);
        uint16_t back = rounded(dtype, value);
        wrong += isnan(value) ? !isnan(widened(dtype, back)) : back != low;
        float next = low < 0xffff ? widened(dtype, (uint16_t)(low + 1)) : NAN;
        if (!isfinite(value) || !isfinite(next) || signbit(value) != signbit(next))
            continue;
        float middle = (float)(((double)value + (double)next) / 2);
        uint16_t even = (uint16_t)(low & 1 ? low + 1 : low);
        wrong += rounded(dtype, middle) != even;
        wrong += rounded(dtype, nextafterf(middle, value)) != low;
        wrong += rounded(dtype, nextafterf(middle, next)) != (uint16_t)(low + 1);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void test_bf16(void)
{
    test_every_value(DTYPE_BF16);
}

static void test_f16(void)
{
    test_every_value(DTYPE_F16);
}

static void test_f32_is_copied(void)
{
    const float from[3] = {1.5f, -0.0f, 1e-40f};
    float to[3] = {7, 7, 7};
    convert_to_f32(DTYPE_TF32, from, to, 3);
    CU_ASSERT_EQUAL(memcmp(from, to, sizeof to), 0);
    memset(to, 0, sizeof to);
    convert_from_f32(DTYPE_F32, from, to, 3);
    CU_ASSERT_EQUAL(memcmp(from, to, sizeof to), 0);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"known values", test_known_values, NULL},
        {"every bf16 and the middle to the next", test_bf16, NULL},
        {"every fp16 and the middle to the next", test_f16, NULL},
        {"fp32 is copied", test_f32_is_copied, NULL},
    };
    return UNIT_MAIN("convert", tests);
}
