/* Seconds of ops: the roofline's two sides, its floor, measured rows, missing rates, key texts. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cost/cost.h"
#include "unit.h"

static struct platform *open_platform(void)
{
    struct platform *p = NULL;
    setenv("REHEARSE_PLATFORMS", unit_source("platforms"), 1);
    CU_ASSERT_EQUAL_FATAL(platform_open(&p), RH_OK);
    return p;
}

static const struct device_model *get_device(struct platform *p, const char *name)
{
    const struct device_model *device = NULL;
    CU_ASSERT_EQUAL_FATAL(platform_device(p, name, &device), RH_OK);
    return device;
}

static struct tensor_type type(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                               int64_t d)
{
    const int64_t dims[] = {a, b, c, d};
    return (struct tensor_type){dtype, shape_of(rank, dims)};
}

static void test_compute_bound(void)
{
    struct platform *p = open_platform();
    const struct device_model *v100 = get_device(p, "v100-sxm2-32gb");
    struct op op = {.kind = OP_linear, .compute = DTYPE_F32};
    struct tensor_type reads[] = {type(DTYPE_F32, 2, 4096, 4096, 0, 0),
                                  type(DTYPE_F32, 2, 4096, 4096, 0, 0)};
    struct tensor_type write = type(DTYPE_F32, 2, 4096, 4096, 0, 0);
    double seconds = 0;
    CU_ASSERT_EQUAL(cost_op_seconds(v100, &op, reads, 2, &write, 1, &seconds), RH_OK);
    double flops = 2.0 * 4096 * 4096 * 4096;
    UNIT_ASSERT_NEAR(op_flops(&op, reads, 2, &write, 1), flops, 1e-12);
    UNIT_ASSERT_NEAR(seconds, flops / 15.7e12 / v100->efficiency[OP_CLASS_MATMUL], 1e-12);
    platform_close(p);
}

static void test_memory_bound(void)
{
    struct platform *p = open_platform();
    const struct device_model *v100 = get_device(p, "v100-sxm2-32gb");
    struct op op = {.kind = OP_relu, .compute = DTYPE_F32};
    struct tensor_type x = type(DTYPE_F32, 1, 1 << 28, 0, 0, 0);
    double seconds = 0;
    CU_ASSERT_EQUAL(cost_op_seconds(v100, &op, &x, 1, &x, 1, &seconds), RH_OK);
    UNIT_ASSERT_NEAR(seconds, 2.0 * 4 * (1 << 28) / 900e9 / v100->efficiency[OP_CLASS_ELEMENTWISE],
                     1e-12);
    /* a tiny op takes the least time of a kernel */
    x = type(DTYPE_F32, 1, 10, 0, 0, 0);
    CU_ASSERT_EQUAL(cost_op_seconds(v100, &op, &x, 1, &x, 1, &seconds), RH_OK);
    CU_ASSERT_EQUAL(seconds, v100->kernel_seconds);
    /* the host computes too, slower */
    const struct device_model *host = get_device(p, "generic-host");
    double there = 0;
    x = type(DTYPE_F32, 1, 1 << 28, 0, 0, 0);
    CU_ASSERT_EQUAL(cost_op_seconds(v100, &op, &x, 1, &x, 1, &seconds), RH_OK);
    CU_ASSERT_EQUAL(cost_op_seconds(host, &op, &x, 1, &x, 1, &there), RH_OK);
    CU_ASSERT_TRUE(there > 2 * seconds);
    platform_close(p);
}

static void test_missing_rates(void)
{
    struct platform *p = open_platform();
    struct op op = {.kind = OP_linear, .compute = DTYPE_BF16};
    struct tensor_type x = type(DTYPE_BF16, 2, 64, 64, 0, 0);
    struct tensor_type reads[] = {x, x};
    double seconds = 0;
    CU_ASSERT_EQUAL(
        cost_op_seconds(get_device(p, "v100-sxm2-32gb"), &op, reads, 2, &x, 1, &seconds),
        RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "device 'v100-sxm2-32gb' has no bf16 rate");
    op.compute = DTYPE_TF32;
    CU_ASSERT_EQUAL(
        cost_op_seconds(get_device(p, "v100-sxm2-16gb"), &op, reads, 2, &x, 1, &seconds),
        RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "no tf32 rate");
    CU_ASSERT_EQUAL(
        cost_op_seconds(get_device(p, "a100-sxm4-40gb"), &op, reads, 2, &x, 1, &seconds), RH_OK);
    /* moving bytes needs no rate */
    op = (struct op){.kind = OP_zero, .compute = DTYPE_BF16};
    CU_ASSERT_EQUAL(cost_op_seconds(get_device(p, "v100-sxm2-32gb"), &op, NULL, 0, &x, 1, &seconds),
                    RH_OK);
    platform_close(p);
}

static void test_bucket_copy(void)
{
    /* the constant per parameter tensor is the backend's to add, not the cost's */
    struct platform *p = open_platform();
    struct device_model device = *get_device(p, "v100-sxm2-32gb");
    struct op op = {.kind = OP_bucket_copy, .compute = DTYPE_F32, .scale_add = {1, 0}};
    struct tensor_type x = type(DTYPE_F32, 1, 1 << 20, 0, 0, 0);
    double plain = 0;
    double seconds = 0;
    CU_ASSERT_EQUAL(cost_op_seconds(&device, &op, &x, 1, &x, 1, &plain), RH_OK);
    device.bucket_tensor_seconds = 1;
    CU_ASSERT_EQUAL(cost_op_seconds(&device, &op, &x, 1, &x, 1, &seconds), RH_OK);
    CU_ASSERT_EQUAL(plain, seconds);
    platform_close(p);
}

static struct op first_convolution(void)
{
    struct op op = {.kind = OP_conv2d, .compute = DTYPE_F32};
    op.window.kernel_h = op.window.kernel_w = 7;
    op.window.stride_h = op.window.stride_w = 2;
    op.window.padding_h = op.window.padding_w = 3;
    op.window.dilation = op.window.groups = 1;
    return op;
}

static void test_keys(void)
{
    char key[512];
    struct op op = first_convolution();
    struct tensor_type reads[] = {type(DTYPE_F32, 4, 32, 3, 224, 224),
                                  type(DTYPE_F32, 4, 64, 3, 7, 7)};
    struct tensor_type write = type(DTYPE_F32, 4, 32, 64, 112, 112);
    CU_ASSERT_STRING_EQUAL(
        cost_op_key(&op, reads, 2, &write, 1, key),
        "conv2d k7x7 s2 p3 g1 fp32: (32,3,224,224) (64,3,7,7) -> (32,64,112,112)");
    op.window.stride_w = 1;
    op.compute = DTYPE_TF32;
    CU_ASSERT_STRING_EQUAL(
        cost_op_key(&op, reads, 2, &write, 1, key),
        "conv2d k7x7 s2x1 p3 g1 tf32: (32,3,224,224) (64,3,7,7) -> (32,64,112,112)");
    op = (struct op){.kind = OP_linear_weight_grad, .compute = DTYPE_BF16, .accumulate = true};
    struct tensor_type mixed[] = {type(DTYPE_BF16, 2, 8, 4, 0, 0), type(DTYPE_BF16, 2, 8, 3, 0, 0)};
    write = type(DTYPE_F32, 2, 4, 3, 0, 0);
    CU_ASSERT_STRING_EQUAL(cost_op_key(&op, mixed, 2, &write, 1, key),
                           "linear_weight_grad accumulate bf16: (8,4) (8,3) -> (4,3)fp32");
    /* many operands, and large numbers, stay inside the text */
    struct tensor_type many[400];
    for (int i = 0; i < 400; i++)
        many[i] = type(DTYPE_F32, 4, 1 << 30, 1 << 10, 1, 1);
    op = (struct op){.kind = OP_sgd, .compute = DTYPE_F32};
    cost_op_key(&op, many, 400, many, 8, key);
    UNIT_ASSERT_CONTAINS(key, "sgd fp32: 400 operands of 439804651110400 elements -> (1073741824,");
    CU_ASSERT_TRUE(strlen(key) < sizeof key);
}

static void test_measured(void)
{
    struct platform *p = open_platform();
    struct device_model device = *get_device(p, "v100-sxm2-32gb");
    char first[] = "add fp32: (1) (1) -> (1)";
    char second[] = "conv2d k7x7 s2 p3 g1 fp32: (32,3,224,224) (64,3,7,7) -> (32,64,112,112)";
    struct measured_op rows[] = {{first, 1}, {second, 0.00123}};
    struct op op = first_convolution();
    struct tensor_type reads[] = {type(DTYPE_F32, 4, 32, 3, 224, 224),
                                  type(DTYPE_F32, 4, 64, 3, 7, 7)};
    struct tensor_type write = type(DTYPE_F32, 4, 32, 64, 112, 112);
    double seconds = 0;
    device.measured = rows;
    device.measured_count = 2;
    CU_ASSERT_EQUAL(cost_op_seconds(&device, &op, reads, 2, &write, 1, &seconds), RH_OK);
    CU_ASSERT_EQUAL(seconds, 0.00123);
    reads[0] = type(DTYPE_F32, 4, 16, 3, 224, 224);
    write = type(DTYPE_F32, 4, 16, 64, 112, 112);
    CU_ASSERT_EQUAL(cost_op_seconds(&device, &op, reads, 2, &write, 1, &seconds), RH_OK);
    CU_ASSERT_NOT_EQUAL(seconds, 0.00123);
    platform_close(p);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"bound by arithmetic", test_compute_bound, NULL},
        {"bound by memory", test_memory_bound, NULL},
        {"missing rates", test_missing_rates, NULL},
        {"bucket copies", test_bucket_copy, NULL},
        {"keys", test_keys, NULL},
        {"measured rows", test_measured, NULL},
    };
    return UNIT_MAIN("cost", tests);
}
