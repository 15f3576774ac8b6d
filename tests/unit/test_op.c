#include "op/op.h"

#include <stdio.h>

#include "tensors.h"
#include "unit.h"

static struct tensor_type types[16];
static int type_count;

static void test_names(void)
{
    for (int i = 0; i < OP_COUNT; i++) {
        enum op_kind kind = OP_COUNT;
        CU_ASSERT_TRUE(op_parse(op_name((enum op_kind)i), &kind));
        CU_ASSERT_EQUAL(kind, i);
    }
    enum op_kind kind = OP_sgd;
    CU_ASSERT_FALSE(op_parse("attention", &kind));
    CU_ASSERT_EQUAL(kind, OP_sgd);
    CU_ASSERT_STRING_EQUAL(op_name(OP_batch_norm2d_input_grad), "batch_norm2d_input_grad");
    CU_ASSERT_STRING_EQUAL(op_class_name(op_class(OP_conv2d_weight_grad)), "convolution");
    CU_ASSERT_STRING_EQUAL(op_class_name(op_class(OP_flatten)), "view");
    for (int i = 0; i < OP_CLASS_COUNT; i++)
        CU_ASSERT_PTR_NOT_NULL(op_class_name((enum op_class)i));
}

static void test_types(void)
{
    char text[64];
    enum dtype dtype = DTYPE_F32;
    struct shape scalar = {0}, image = SHAPE(32, 3, 224, 224);
    struct tensor_type half = {DTYPE_BF16, SHAPE(3, 5)};
    struct shape absurd = SHAPE(INT64_MAX / 2, 3, 0), huge = SHAPE(INT64_MAX / 2, 3);
    CU_ASSERT_TRUE(dtype_parse("bf16", &dtype) && dtype == DTYPE_BF16);
    CU_ASSERT_FALSE(dtype_parse("float", &dtype));
    CU_ASSERT_STRING_EQUAL(dtype_name(DTYPE_I64), "int64");
    CU_ASSERT_EQUAL(shape_elements(&scalar), 1);
    CU_ASSERT_EQUAL(shape_elements(&absurd), 0);
    CU_ASSERT_EQUAL(shape_elements(&huge), INT64_MAX);
    CU_ASSERT_EQUAL(type_bytes(&half), 30);
    CU_ASSERT_STRING_EQUAL(shape_text(text, &image), "(32, 3, 224, 224)");
    CU_ASSERT_STRING_EQUAL(shape_text(text, &scalar), "()");
    CU_ASSERT_FALSE(shape_equal(&scalar, &image));
    for (int i = 0; i < MAX_RANK; i++)
        huge.dim[i] = INT64_MAX;
    huge.rank = MAX_RANK;
    CU_ASSERT_EQUAL(strlen(shape_text(text, &huge)), 63); /* cut off, terminated */
}

/* Infers from the types given and gives write 0's shape as text, or the error. */
static const char *infer(struct op op, const struct tensor_type *reads, int count)
{
    static char text[64];
    struct tensor_type writes[OP_MAX_WRITES];
    int write_count;
    if (op_infer(&op, reads, count, writes, &write_count) != RH_OK)
        return fail_message();
    for (int i = 0; i < write_count; i++)
        types[i] = writes[i];
    type_count = write_count;
    return shape_text(text, &writes[0].shape);
}
#define INFER(op, ...)                                                                             \
    infer((op), (struct tensor_type[]){__VA_ARGS__},                                               \
          (int)(sizeof((struct tensor_type[]){__VA_ARGS__}) / sizeof(struct tensor_type)))

static void test_infer_products(void)
{
    struct op conv = op_window(OP_conv2d, 3, 2, 1);
    CU_ASSERT_STRING_EQUAL(INFER(op_of(OP_linear), F32(20, 10), F32(5, 10), F32(5)), "(20, 5)");
    CU_ASSERT_STRING_EQUAL(INFER(conv, F32(2, 6, 9, 12), F32(8, 6, 3, 3)), "(2, 8, 5, 6)");
    conv.window.groups = 2;
    conv.window.dilation = 2;
    CU_ASSERT_STRING_EQUAL(INFER(conv, F32(2, 6, 9, 12), F32(8, 3, 3, 3)), "(2, 8, 4, 5)");
    CU_ASSERT_STRING_EQUAL(INFER(op_of(OP_embedding), I64(16), F32(1000, 10)), "(16, 10)");
    struct tensor_type half = {DTYPE_BF16, SHAPE(4, 10)}, weight = {DTYPE_BF16, SHAPE(5, 10)};
    INFER(op_of(OP_linear), half, weight);
    CU_ASSERT_EQUAL(types[0].dtype, DTYPE_BF16);
}

static void test_infer_pools(void)
{
    struct op pool = op_window(OP_max_pool2d, 3, 2, 0), global = op_of(OP_avg_pool2d);
    CU_ASSERT_STRING_EQUAL(INFER(pool, F32(1, 2, 8, 8)), "(1, 2, 3, 3)");
    pool.window.ceil_mode = true;
    CU_ASSERT_STRING_EQUAL(INFER(pool, F32(1, 2, 8, 8)), "(1, 2, 4, 4)");
    /* a window must start inside the input or its leading padding: torch gives 2, not 3 */
    pool = op_window(OP_avg_pool2d, 2, 2, 1);
    pool.window.ceil_mode = true;
    CU_ASSERT_STRING_EQUAL(INFER(pool, F32(1, 2, 3, 3)), "(1, 2, 2, 2)");
    global.window.output_h = global.window.output_w = 1;
    CU_ASSERT_STRING_EQUAL(INFER(global, F32(4, 2048, 7, 7)), "(4, 2048, 1, 1)");
    CU_ASSERT_STRING_EQUAL(INFER(op_of(OP_flatten), F32(4, 2048, 1, 3)), "(4, 6144)");
}

static void test_infer_norm(void)
{
    struct op norm = op_of(OP_batch_norm2d);
    struct tensor_type x = {DTYPE_F16, SHAPE(4, 8, 5, 5)}, count = {DTYPE_I64, {0}};
    INFER(norm, x, F32(8), F32(8), F32(8), F32(8), count);
    CU_ASSERT_EQUAL(type_count, 1);
    norm.norm.training = true;
    INFER(norm, x, F32(8), F32(8), F32(8), F32(8), count);
    CU_ASSERT_EQUAL(type_count, 6);
    CU_ASSERT_EQUAL(types[0].dtype, DTYPE_F16);
    CU_ASSERT_EQUAL(types[1].dtype, DTYPE_F32);
    CU_ASSERT_EQUAL(types[5].dtype, DTYPE_I64);
    const char *error = INFER(norm, F32(1, 8, 1, 1), F32(8), F32(8), F32(8), F32(8), count);
    UNIT_ASSERT_CONTAINS(error, "'x' of op 'batch_norm2d': (1, 8, 1, 1) has 1 values a channel");
    error = INFER(norm, x, F32(8), F32(9), F32(8), F32(8), count);
    UNIT_ASSERT_CONTAINS(error, "'beta' of op 'batch_norm2d': shape is (9), (8) wanted by 'x'");
}

static void test_infer_errors(void)
{
    struct op conv = op_window(OP_conv2d, 3, 1, 0);
    struct op linear = op_of(OP_linear);
    UNIT_ASSERT_CONTAINS(
        INFER(linear, F32(20, 10), F32(5, 12)),
        "wrong operand 'w' of op 'linear': (5, 12) has 12 inputs, 10 wanted by 'x'");
    UNIT_ASSERT_CONTAINS(INFER(linear, F32(20, 10, 2), F32(5, 10)), "has 3 dimensions, 2 wanted");
    UNIT_ASSERT_CONTAINS(INFER(linear, F32(20, 10)), "1 given, 2 to 3 wanted");
    UNIT_ASSERT_CONTAINS(INFER(linear, I64(20, 10), F32(5, 10)), "element type is 'int64'");
    UNIT_ASSERT_CONTAINS(INFER(linear, F32(20, 10), F32(5, 10), F32(6)),
                         "shape is (6), (5) wanted");
    UNIT_ASSERT_CONTAINS(INFER(linear, F32(-2, 10), F32(5, 10)), "-2 elements in a dimension");
    UNIT_ASSERT_CONTAINS(INFER(conv, F32(1, 4, 9, 9), F32(8, 3, 3, 3)),
                         "'x' of op 'conv2d': (1, 4, 9, 9) has 4 channels, 3 wanted by 'w'");
    UNIT_ASSERT_CONTAINS(INFER(conv, F32(1, 3, 9, 9), F32(8, 3, 3, 5)),
                         "'w' of op 'conv2d': (8, 3, 3, 5) has 5 kernel columns, 3 wanted by "
                         "'kernel_w'");
    UNIT_ASSERT_CONTAINS(INFER(conv, F32(1, 3, 2, 9), F32(8, 3, 3, 3)),
                         "has 2 rows with padding, 3 wanted by 'kernel_h'");
    conv.window.groups = 3;
    UNIT_ASSERT_CONTAINS(INFER(conv, F32(1, 3, 9, 9), F32(8, 1, 3, 3)), "8 output channels");
    conv.window.groups = 0;
    UNIT_ASSERT_CONTAINS(INFER(conv, F32(1, 3, 9, 9), F32(8, 3, 3, 3)),
                         "'groups' of op 'conv2d': 0 given, at least 1 wanted");
    UNIT_ASSERT_CONTAINS(INFER(op_window(OP_max_pool2d, 3, 2, 2), F32(1, 3, 9, 9)),
                         "'kernel_h' of op 'max_pool2d': 3 given, at least 4 wanted");
    UNIT_ASSERT_CONTAINS(INFER(op_of(OP_add), F32(2, 3), F32(3, 2)), "shape is (3, 2), (2, 3)");
    UNIT_ASSERT_CONTAINS(INFER(op_of(OP_cross_entropy), F32(4, 10), I64(5), F32(4)),
                         "'target' of op 'cross_entropy': shape is (5), (4) wanted by 'x'");
    UNIT_ASSERT_CONTAINS(INFER(op_of(OP_mse_loss), F32(4, 10), F32(4, 9), F32(4)),
                         "shape is (4, 9), (4, 10) wanted by 'x'");
    UNIT_ASSERT_CONTAINS(INFER(op_of(OP_relu_grad), F32(4), F32(4)), "no forward op 'relu_grad'");
}

/* "" or the error of op_check. */
static const char *check(struct op op, const struct tensor_type *reads, int read_count,
                         const struct tensor_type *writes, int write_count)
{
    return op_check(&op, reads, read_count, writes, write_count) == RH_OK ? "" : fail_message();
}
#define READS(...)                                                                                 \
    (struct tensor_type[])                                                                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define WRITES READS

static void test_check_gradients(void)
{
    struct op linear = op_of(OP_linear_weight_grad),
              conv = op_window(OP_conv2d_input_grad, 3, 2, 1);
    struct op pool = op_window(OP_max_pool2d_grad, 2, 2, 0);
    CU_ASSERT_STRING_EQUAL(
        check(linear, READS(F32(20, 5), F32(20, 10)), 2, WRITES(F32(5, 10), F32(5)), 2), "");
    UNIT_ASSERT_CONTAINS(check(linear, READS(F32(20, 5), F32(20, 10)), 2, WRITES(F32(5, 9)), 1),
                         "'gw' of op 'linear_weight_grad': (5, 9) has 9 inputs, 10 wanted by 'x'");
    UNIT_ASSERT_CONTAINS(
        check(linear, READS(F32(21, 5), F32(20, 10)), 2, WRITES(F32(5, 10)), 1),
        "'gy' of op 'linear_weight_grad': shape is (21, 5), (20, 5) wanted by 'x'");
    /* stride 2: two input sizes fit one output size, so gx decides */
    CU_ASSERT_STRING_EQUAL(
        check(conv, READS(F32(2, 8, 4, 4), F32(8, 3, 3, 3)), 2, WRITES(F32(2, 3, 7, 8)), 1), "");
    UNIT_ASSERT_CONTAINS(
        check(conv, READS(F32(2, 8, 4, 4), F32(8, 3, 3, 3)), 2, WRITES(F32(2, 3, 9, 8)), 1),
        "(2, 8, 4, 4), (2, 8, 5, 4) wanted by 'gx'");
    CU_ASSERT_STRING_EQUAL(check(pool, READS(F32(1, 1, 2, 2), F32(1, 1, 5, 4), F32(1, 1, 2, 2)), 3,
                                 WRITES(F32(1, 1, 5, 4)), 1),
                           "");
    UNIT_ASSERT_CONTAINS(check(op_of(OP_relu_grad), READS(F32(4), F32(4)), 2, WRITES(F32(5)), 1),
                         "'gx' of op 'relu_grad': shape is (5), (4)");
    UNIT_ASSERT_CONTAINS(
        check(op_of(OP_linear_input_grad), READS(F32(20, 5), F32(5, 10), F32(20, 9)), 3,
              WRITES(F32(20, 10)), 1),
        "'y' of op 'linear_input_grad': shape is (20, 9), (20, 10) wanted by 'gx'");
    UNIT_ASSERT_CONTAINS(
        check(op_of(OP_mse_loss_grad), READS(F32(4), F32(4)), 2, WRITES(F32(4), F32(100)), 2),
        "op 'mse_loss_grad': 'control' and 'losses' go together, 1 of 2 given");
    UNIT_ASSERT_CONTAINS(check(op_of(OP_cross_entropy_grad), READS(F32(4, 2), I64(4), F32(5)), 3,
                               WRITES(F32(4, 2), F32(100)), 2),
                         "'control' of op 'cross_entropy_grad': (5) has 5 elements, 4 wanted");
    struct op scaled = op_of(OP_mse_loss_grad);
    scaled.scaled = true;
    UNIT_ASSERT_CONTAINS(check(scaled, READS(F32(4), F32(4)), 2, WRITES(F32(4)), 1),
                         "reads of op 'mse_loss_grad' that is scaled: 2 given, 3 or 4 wanted");
    UNIT_ASSERT_CONTAINS(check(scaled, READS(F32(4), F32(4), F32(4)), 3, WRITES(F32(4)), 1),
                         "'scaler' of op 'mse_loss_grad': (4) has 4 elements, 8 wanted");
    UNIT_ASSERT_CONTAINS(
        check(scaled, READS(F32(4), F32(4), F32(8)), 3, WRITES(F32(4), F32(100)), 2),
        "op 'mse_loss_grad': 'control' and 'losses' go together, 1 of 2 given");
    UNIT_ASSERT_CONTAINS(
        check(scaled, READS(F32(4), F32(4), F32(8), F32(4)), 4, WRITES(F32(4), F32(100)), 2),
        "'scaler' of op 'mse_loss_grad': (4) has 4 elements, 8 wanted");
    scaled.scaled = false;
    UNIT_ASSERT_CONTAINS(
        check(scaled, READS(F32(4), F32(4), F32(4), F32(8)), 4, WRITES(F32(4), F32(100)), 2),
        "reads of op 'mse_loss_grad': 4 given, 2 or 3 wanted");
    UNIT_ASSERT_CONTAINS(
        check(op_of(OP_embedding_weight_grad), READS(F32(4, 3), I64(5)), 2, WRITES(F32(10, 3)), 1),
        "'gy' of op 'embedding_weight_grad': shape is (4, 3), (5, 3)");
    UNIT_ASSERT_CONTAINS(check(op_of(OP_batch_norm2d_weight_grad),
                               READS(F32(2, 3, 4, 4), F32(2, 3, 4, 4), F32(3), F32(3)), 4,
                               WRITES(F32(3), F32(3)), 2),
                         "wants training");
    CU_ASSERT_STRING_EQUAL(
        check(op_of(OP_mse_loss), READS(F32(4), F32(4), F32(4)), 3, WRITES(F32(100)), 1), "");
}

static void test_check_updates(void)
{
    struct op sgd = op_of(OP_sgd), add = op_of(OP_scale_add);
    CU_ASSERT_STRING_EQUAL(check(sgd, READS(F32(4), I64(1), F32(2, 3), F32(6), F32(5), F32(5)), 6,
                                 WRITES(I64(1), F32(2, 3), F32(5)), 3),
                           "");
    UNIT_ASSERT_CONTAINS(
        check(sgd, READS(F32(4), I64(1), F32(2, 3), F32(5)), 4, WRITES(I64(1), F32(2, 3)), 2),
        "'g' of op 'sgd': (5) has 5 elements, 6 wanted by 'p'");
    UNIT_ASSERT_CONTAINS(
        check(sgd, READS(F32(4), I64(1), F32(6), F32(6)), 4, WRITES(I64(1), F32(7)), 2),
        "'p' of op 'sgd': (7) has 7 elements, 6 wanted by 'p'");
    UNIT_ASSERT_CONTAINS(check(sgd, READS(F32(4), I64(1), F32(6)), 3, WRITES(I64(1)), 1),
                         "'sgd': 3 given, 2 and 2 a parameter wanted");
    sgd.sgd.momentum = 0.9;
    UNIT_ASSERT_CONTAINS(
        check(sgd, READS(F32(4), I64(1), F32(6), F32(6), F32(6)), 5, WRITES(I64(1), F32(6)), 2),
        "2 given, 3 wanted");
    sgd.sgd.nesterov = true; /* O19 */
    sgd.sgd.dampening = 0.5;
    UNIT_ASSERT_CONTAINS(check(sgd, READS(F32(4), I64(1)), 2, WRITES(I64(1)), 1), "'nesterov'");
    sgd.sgd.dampening = sgd.sgd.momentum = 0;
    UNIT_ASSERT_CONTAINS(check(sgd, READS(F32(4), I64(1)), 2, WRITES(I64(1)), 1), "'nesterov'");
    add.scale_add.beta = 1;
    UNIT_ASSERT_CONTAINS(check(add, READS(F32(4)), 1, WRITES(F32(4)), 1), "1 given, 2 wanted");
    CU_ASSERT_STRING_EQUAL(check(op_of(OP_pack), READS(F32(2, 3), F32(5)), 2, WRITES(F32(11)), 1),
                           "");
    UNIT_ASSERT_CONTAINS(check(op_of(OP_unpack), READS(F32(10)), 1, WRITES(F32(2, 3), F32(5)), 2),
                         "'x' of op 'unpack': (10) has 10 elements, 11 wanted by 'y'");
}

static void test_counts(void)
{
    struct op linear = op_of(OP_linear), grad = op_of(OP_linear_weight_grad);
    struct tensor_type reads[] = {F32(20, 10), F32(5, 10), F32(5)}, writes[] = {F32(20, 5)};
    struct tensor_type grad_reads[] = {F32(20, 5), F32(20, 10)}, grad_writes[] = {F32(5, 10)};
    CU_ASSERT_EQUAL(op_flops(&linear, reads, 3, writes, 1), 2 * 20 * 10 * 5 + 20 * 5);
    CU_ASSERT_EQUAL(op_flops(&linear, reads, 2, writes, 1), 2 * 20 * 10 * 5);
    CU_ASSERT_EQUAL(op_bytes(&linear, reads, 3, writes, 1), 4 * (200 + 50 + 5 + 100));
    CU_ASSERT_EQUAL(op_flops(&grad, grad_reads, 2, grad_writes, 1), 2 * 20 * 10 * 5);
    grad.accumulate = true; /* reads what it adds to */
    CU_ASSERT_EQUAL(op_bytes(&grad, grad_reads, 2, grad_writes, 1), 4 * (100 + 200 + 2 * 50));

    linear.linear.relu = true;
    CU_ASSERT_EQUAL(op_flops(&linear, reads, 3, writes, 1), 2 * 20 * 10 * 5 + 2 * 20 * 5);
    struct op masked = op_of(OP_linear_input_grad), loss = op_of(OP_mse_loss_grad);
    struct tensor_type gx = F32(20, 10), pair[] = {F32(20, 5), F32(100)};
    CU_ASSERT_EQUAL(op_flops(&masked, READS(F32(20, 5), F32(5, 10), gx), 3, &gx, 1),
                    2 * 20 * 10 * 5 + 200);
    loss.accumulate = true; /* a slot, and only that, is read and written */
    CU_ASSERT_EQUAL(op_bytes(&loss, READS(F32(20, 5), F32(20, 5), F32(4)), 3, pair, 2),
                    4 * (3 * 100 + 4 + 2));
    CU_ASSERT_EQUAL(op_flops(&loss, READS(F32(20, 5), F32(20, 5), F32(4)), 3, pair, 2), 4 * 100);

    loss.scaled = true;
    CU_ASSERT_EQUAL(op_bytes(&loss, READS(F32(20, 5), F32(20, 5), F32(4), F32(8)), 4, pair, 2),
                    4 * (3 * 100 + 4 + 8 + 2));
    CU_ASSERT_EQUAL(op_flops(&loss, READS(F32(20, 5), F32(20, 5), F32(4), F32(8)), 4, pair, 2),
                    5 * 100);

    struct op conv = op_window(OP_conv2d, 3, 1, 1),
              input_grad = op_window(OP_conv2d_input_grad, 3, 1, 1);
    conv.window.groups = input_grad.window.groups = 2;
    struct tensor_type x = F32(4, 6, 8, 8), w = F32(10, 3, 3, 3), y = F32(4, 10, 8, 8);
    double direct = 2.0 * 4 * 10 * 8 * 8 * 3 * 3 * 3;
    CU_ASSERT_EQUAL(op_flops(&conv, READS(x, w), 2, &y, 1), direct);
    CU_ASSERT_EQUAL(op_flops(&input_grad, READS(y, w), 2, &x, 1), direct);
    input_grad.kind = OP_conv2d_weight_grad;
    CU_ASSERT_EQUAL(op_flops(&input_grad, READS(y, x), 2, &w, 1), direct);

    struct op embedding = op_of(OP_embedding), flatten = op_of(OP_flatten);
    struct tensor_type rows = F32(16, 10), flat = F32(4, 384);
    CU_ASSERT_EQUAL(op_bytes(&embedding, READS(I64(16), F32(1000, 10)), 2, &rows, 1),
                    16 * 8 + 2 * 640); /* the rows, not the table */
    CU_ASSERT_EQUAL(op_bytes(&flatten, &x, 1, &flat, 1), 0);
    struct op sgd = op_of(OP_sgd);
    CU_ASSERT_EQUAL(
        op_flops(&sgd, READS(F32(4), I64(1), F32(6), F32(6)), 4, WRITES(I64(1), F32(6)), 2), 12);
}

/* FLOPs of a convolution without bias on a square image; *side becomes the output's. */
static double conv_flops(int64_t in, int64_t out, int kernel, int stride, int64_t *side)
{
    struct op op = op_window(OP_conv2d, kernel, stride, kernel / 2);
    struct tensor_type reads[] = {F32(1, in, *side, *side), F32(out, in, kernel, kernel)};
    struct tensor_type writes[OP_MAX_WRITES];
    int count;
    CU_ASSERT_EQUAL_FATAL(op_infer(&op, reads, 2, writes, &count), RH_OK);
    *side = writes[0].shape.dim[2];
    return op_flops(&op, reads, 2, writes, count);
}

/* 4.09 billion multiply-adds an image of 224 x 224, the figure published for ResNet-50. */
static void test_resnet50_flops(void)
{
    static const int blocks[] = {3, 4, 6, 3};
    int64_t side = 224, in = 64;
    double flops = conv_flops(3, 64, 7, 2, &side);
    side = 56; /* max pooling */
    for (int stage = 0; stage < 4; stage++) {
        int64_t width = 64 << stage;
        for (int block = 0; block < blocks[stage]; block++) {
            int stride = stage > 0 && block == 0 ? 2 : 1;
            int64_t before = side;
            if (block == 0)
                flops += conv_flops(in, 4 * width, 1, stride, &before);
            flops += conv_flops(in, width, 1, 1, &side);
            flops += conv_flops(width, width, 3, stride, &side);
            flops += conv_flops(width, 4 * width, 1, 1, &side);
            in = 4 * width;
        }
    }
    CU_ASSERT_EQUAL(side, 7);
    flops += 2.0 * 2048 * 1000;
    CU_ASSERT_EQUAL(flops, 2 * 4089184256.0);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"names", test_names, NULL},
        {"types", test_types, NULL},
        {"infer products", test_infer_products, NULL},
        {"infer pools", test_infer_pools, NULL},
        {"infer norm", test_infer_norm, NULL},
        {"infer errors", test_infer_errors, NULL},
        {"check gradients", test_check_gradients, NULL},
        {"check updates", test_check_updates, NULL},
        {"counts", test_counts, NULL},
        {"resnet50 flops", test_resnet50_flops, NULL},
    };
    return UNIT_MAIN("op", tests);
}
