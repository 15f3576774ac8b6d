/* Values of single ops: PyTorch's (numbers O1 to O18 of its behaviour list) or worked by hand.
 * Gradients: test_kernel_gradients.c. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdio.h>

#include "op/convert.h"
#include "tensors.h"
#include "unit.h"

#define RUN(op, reads, writes)                                                                     \
    cpu_run(&(op), (reads), (int)(sizeof(reads) / sizeof *(reads)), (writes),                      \
            (int)(sizeof(writes) / sizeof *(writes)))
#define TENSORS (struct cpu_tensor[])

static struct cpu_tensor matrix(float *values, int64_t rows, int64_t columns)
{
    return (struct cpu_tensor){values, F32(rows, columns)};
}

static struct cpu_tensor planes(float *values, int64_t c, int64_t h, int64_t w)
{
    return (struct cpu_tensor){values, F32(1, c, h, w)};
}

static void assert_values(const float *got, const double *wanted, int count, double relative)
{
    for (int i = 0; i < count; i++)
        UNIT_ASSERT_NEAR(got[i], wanted[i], relative);
}
#define ASSERT_VALUES(got, relative, ...)                                                          \
    assert_values((got), (double[]){__VA_ARGS__},                                                  \
                  (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (relative))

static void test_mse(void)
{
    float x[] = {1, 2, 3}, t[] = {1, 1, 1}, control[4] = {0, 1}, losses[3] = {7, 8, 9}, gx[3];
    struct op loss = op_of(OP_mse_loss), grad = op_of(OP_mse_loss_grad);
    struct cpu_tensor reads[] = {VECTOR(x), VECTOR(t), VECTOR(control)};
    loss.loss.weight = grad.loss.weight = 1;
    CU_ASSERT_EQUAL(RUN(loss, reads, TENSORS{VECTOR(losses)}), RH_OK);
    ASSERT_VALUES(losses, 1e-6, 7, 1.6666667, 9); /* O1, in slot 1 */
    CU_ASSERT_EQUAL(cpu_run(&grad, reads, 2, TENSORS{VECTOR(gx)}, 1), RH_OK);
    ASSERT_VALUES(gx, 1e-6, 0, 0.66666667, 1.3333333);
    loss.accumulate = true;
    loss.loss.weight = grad.loss.weight = 0.5;
    CU_ASSERT_EQUAL(RUN(loss, reads, TENSORS{VECTOR(losses)}), RH_OK);
    ASSERT_VALUES(losses, 1e-6, 7, 2.5, 9);
    loss.loss.sum = grad.loss.sum = true;
    loss.accumulate = false;
    CU_ASSERT_EQUAL(RUN(loss, reads, TENSORS{VECTOR(losses)}), RH_OK);
    CU_ASSERT_EQUAL(cpu_run(&grad, reads, 2, TENSORS{VECTOR(gx)}, 1), RH_OK);
    ASSERT_VALUES(losses, 1e-6, 7, 2.5, 9);
    ASSERT_VALUES(gx, 1e-6, 0, 1, 2);
    control[CONTROL_LOSS_SLOT] = 3;
    CU_ASSERT_EQUAL(RUN(loss, reads, TENSORS{VECTOR(losses)}), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "control names 3, there are 3");
    control[CONTROL_LOSS_SLOT] = NAN;
    CU_ASSERT_EQUAL(RUN(loss, reads, TENSORS{VECTOR(losses)}), RH_INVALID);
    struct cpu_tensor empty[] = {VECTOR_OF(NULL, 0), VECTOR_OF(NULL, 0), VECTOR(control)};
    control[CONTROL_LOSS_SLOT] = 0;
    loss.loss.sum = false;
    CU_ASSERT_EQUAL(RUN(loss, empty, TENSORS{VECTOR(losses)}), RH_OK);
    CU_ASSERT_TRUE(isnan(losses[0]));
}

/* Mean cross entropy of rows of x; the gradient goes to gx. */
static float cross_entropy(float *x, int64_t *target, int64_t samples, int64_t width, float *gx)
{
    float control[4] = {0}, losses[1] = {-1};
    struct op loss = op_of(OP_cross_entropy), grad = op_of(OP_cross_entropy_grad);
    struct cpu_tensor reads[] = {
        matrix(x, samples, width), {target, I64(samples)}, VECTOR(control)};
    loss.loss.weight = grad.loss.weight = 1;
    CU_ASSERT_EQUAL(RUN(loss, reads, TENSORS{VECTOR(losses)}), RH_OK);
    CU_ASSERT_EQUAL(cpu_run(&grad, reads, 2, TENSORS{matrix(gx, samples, width)}, 1), RH_OK);
    return losses[0];
}

static void test_cross_entropy(void)
{
    float x[] = {1, 2, 3}, zeros[] = {0, 0}, two[] = {2, 0, 0, 0}, gx[4], huge[] = {1e4f, 0};
    UNIT_ASSERT_NEAR(cross_entropy(x, (int64_t[]){2}, 1, 3, gx), 0.4076060, 1e-6); /* O2 */
    ASSERT_VALUES(gx, 1e-6, 0.0900306, 0.2447285, -0.3347590);
    UNIT_ASSERT_NEAR(cross_entropy(zeros, (int64_t[]){0}, 1, 2, gx), 0.6931472, 1e-6);  /* O3 */
    UNIT_ASSERT_NEAR(cross_entropy(two, (int64_t[]){0, 1}, 2, 2, gx), 0.4100376, 1e-6); /* O4 */
    /* an ignored sample counts neither in the sum nor in the divisor, and gets no gradient */
    UNIT_ASSERT_NEAR(cross_entropy(two, (int64_t[]){-100, 1}, 2, 2, gx), 0.6931472, 1e-6);
    ASSERT_VALUES(gx, 1e-6, 0, 0, 0.5, -0.5);
    CU_ASSERT_TRUE(isnan(cross_entropy(two, (int64_t[]){-100, -100}, 2, 2, gx))); /* O6 */
    CU_ASSERT_EQUAL(cross_entropy(huge, (int64_t[]){1}, 1, 2, gx), 1e4f);

    float control[4] = {0}, losses[1];
    int64_t target[] = {1, 2};
    struct op loss = op_of(OP_cross_entropy);
    struct cpu_tensor reads[] = {matrix(two, 2, 2), INTEGERS(target), VECTOR(control)};
    CU_ASSERT_EQUAL(RUN(loss, reads, TENSORS{VECTOR(losses)}), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "sample 1 has 2, there are 2 classes");
    loss.kind = OP_cross_entropy_grad;
    target[1] = -1;
    CU_ASSERT_EQUAL(cpu_run(&loss, reads, 2, TENSORS{matrix(gx, 2, 2)}, 1), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "sample 1 has -1, there are 2 classes");
}

/* Two steps of an optimizer on p = 1 at learning rate 0.1; p after each step goes to `p`. */
static void optimize(struct op op, float g1, float g2, float p[2])
{
    float value = 1, g, m = 99, v = 0, control[4] = {0.1f}; /* sgd's first m is never read */
    int64_t count = 0;
    int states = op.kind == OP_sgd ? op.sgd.momentum != 0 : 2;
    struct cpu_tensor one = {&value, F32(1)}, m_one = {&m, F32(1)}, v_one = {&v, F32(1)};
    struct cpu_tensor steps = {&count, {DTYPE_I64, {0}}};
    struct cpu_tensor reads[] = {VECTOR(control), steps, one, {&g, F32(1)}, m_one, v_one};
    struct cpu_tensor writes[] = {steps, one, m_one, v_one};
    if (op.kind != OP_sgd)
        m = 0;
    for (int i = 0; i < 2; i++) {
        g = i ? g2 : g1;
        CU_ASSERT_EQUAL(cpu_run(&op, reads, 4 + states, writes, 2 + states), RH_OK);
        p[i] = value;
    }
    CU_ASSERT_EQUAL(count, 2);
}

static void test_sgd(void)
{
    float p[2];
    struct op sgd = op_of(OP_sgd);
    optimize(sgd, 1, 1, p);
    ASSERT_VALUES(p, 2e-7, 0.9, 0.8); /* O7 */
    sgd.sgd.momentum = 0.9;
    optimize(sgd, 1, 1, p);
    ASSERT_VALUES(p, 2e-7, 0.9, 0.71); /* O8 */
    sgd.sgd.dampening = 0.5;
    optimize(sgd, 1, 1, p);
    ASSERT_VALUES(p, 2e-7, 0.9, 0.76); /* O9 */
    sgd.sgd.dampening = 0;
    sgd.sgd.nesterov = true;
    optimize(sgd, 1, 1, p);
    ASSERT_VALUES(p, 2e-7, 0.81, 0.539); /* O10 */
    sgd = op_of(OP_sgd);
    sgd.sgd.weight_decay = 0.1;
    optimize(sgd, 1, 1, p);
    ASSERT_VALUES(p, 2e-7, 0.89, 0.7811); /* O11 */
}

static void test_adam(void)
{
    float p[2];
    struct op adam = op_of(OP_adam);
    adam.adam.beta1 = 0.9;
    adam.adam.beta2 = 0.999;
    adam.adam.epsilon = 1e-8;
    optimize(adam, 1, 1, p);
    ASSERT_VALUES(p, 2e-7, 0.900000001, 0.800000002); /* O12 */
    optimize(adam, 0.5f, -0.25f, p);
    ASSERT_VALUES(p, 2e-7, 0.900000002, 0.8733663); /* O13 */
    adam.adam.weight_decay = 0.1;
    optimize(adam, 0.5f, 0.5f, p);
    ASSERT_VALUES(p, 2e-7, 0.9000000017, 0.8000473); /* O14 */
    optimize(adam, 0, 0, p);
    UNIT_ASSERT_NEAR(p[0], 0.90000001, 2e-7); /* O17 */
    adam.kind = OP_adamw;
    optimize(adam, 0.5f, 0.5f, p);
    ASSERT_VALUES(p, 2e-7, 0.890000002, 0.781100004); /* O15 */
    optimize(adam, 0, 0, p);
    ASSERT_VALUES(p, 2e-7, 0.99, 0.9801); /* O16 */
}

/* Two parameters in one op, written to other memory than they are read from. */
static void test_optimizer_tuples(void)
{
    float a[] = {1, 2}, b[] = {3}, ga[] = {10, 20}, gb[] = {30}, control[4] = {0.5f};
    float new_a[2], new_b[1];
    int64_t count[1] = {4}, new_count[1];
    struct op sgd = op_of(OP_sgd);
    struct cpu_tensor reads[] = {VECTOR(control), INTEGERS(count), VECTOR(a),
                                 VECTOR(ga),      VECTOR(b),       VECTOR(gb)};
    struct cpu_tensor writes[] = {INTEGERS(new_count), VECTOR(new_a), VECTOR(new_b)};
    CU_ASSERT_EQUAL(RUN(sgd, reads, writes), RH_OK);
    ASSERT_VALUES(new_a, 0, -4, -8);
    ASSERT_VALUES(new_b, 0, -12);
    CU_ASSERT_EQUAL(new_count[0], 5);
    CU_ASSERT_EQUAL(count[0], 4);
    CU_ASSERT_EQUAL(a[1], 2);
}

static void test_linear(void)
{
    float x[] = {1, 2, 3, 4}, w[] = {1, 0, 0, 1, 1, 1}, b[] = {10, 20, 30}, y[6];
    struct op op = op_of(OP_linear);
    struct cpu_tensor reads[] = {matrix(x, 2, 2), matrix(w, 3, 2), VECTOR(b)};
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{matrix(y, 2, 3)}), RH_OK);
    ASSERT_VALUES(y, 0, 11, 22, 33, 13, 24, 37);
    CU_ASSERT_EQUAL(cpu_run(&op, reads, 2, TENSORS{matrix(y, 2, 3)}, 1), RH_OK);
    ASSERT_VALUES(y, 0, 1, 2, 3, 3, 4, 7);
    /* no inputs: the bias alone; no samples: nothing */
    struct cpu_tensor narrow[] = {matrix(NULL, 2, 0), matrix(NULL, 3, 0), VECTOR(b)};
    CU_ASSERT_EQUAL(RUN(op, narrow, TENSORS{matrix(y, 2, 3)}), RH_OK);
    ASSERT_VALUES(y, 0, 10, 20, 30, 10, 20, 30);
    struct cpu_tensor none[] = {matrix(NULL, 0, 2), matrix(w, 3, 2), VECTOR(b)};
    CU_ASSERT_EQUAL(RUN(op, none, TENSORS{matrix(NULL, 0, 3)}), RH_OK);
    /* 257 is between the bf16 256 and 258: computed in fp32, rounded once, to even */
    uint16_t low[6];
    x[0] = 247;
    struct cpu_tensor half = {low, {DTYPE_BF16, SHAPE(2, 3)}};
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{half}), RH_OK);
    convert_to_f32(DTYPE_BF16, low, y, 6);
    ASSERT_VALUES(y, 0, 256, 22, 280, 13, 24, 37);
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{matrix(y, 2, 2)}), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "shape is (2, 2), (2, 3) wanted");
}

static void test_conv2d(void)
{
    float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w[] = {1, 1, 1, 1}, b[] = {0.5f}, y[9];
    float grouped[] = {1, 2}, doubled[] = {10, 1}, z[2];
    struct op op = op_window(OP_conv2d, 2, 1, 0);
    struct cpu_tensor reads[] = {planes(x, 1, 3, 3), planes(w, 1, 2, 2), VECTOR(b)};
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{planes(y, 1, 2, 2)}), RH_OK);
    ASSERT_VALUES(y, 0, 12.5, 16.5, 24.5, 28.5);
    op = op_window(OP_conv2d, 2, 2, 1);
    CU_ASSERT_EQUAL(cpu_run(&op, reads, 2, TENSORS{planes(y, 1, 2, 2)}, 1), RH_OK);
    ASSERT_VALUES(y, 0, 1, 5, 11, 28);
    op = op_window(OP_conv2d, 2, 1, 0); /* corners */
    op.window.dilation = 2;
    CU_ASSERT_EQUAL(cpu_run(&op, reads, 2, TENSORS{planes(y, 1, 1, 1)}, 1), RH_OK);
    CU_ASSERT_EQUAL(y[0], 20);
    op = op_window(OP_conv2d, 1, 1, 0);
    op.window.stride_w = 2;
    struct cpu_tensor thin[] = {planes(x, 1, 3, 3), planes(w, 1, 1, 1)};
    CU_ASSERT_EQUAL(RUN(op, thin, TENSORS{planes(y, 1, 3, 2)}), RH_OK);
    ASSERT_VALUES(y, 0, 1, 3, 4, 6, 7, 9);
    op = op_window(OP_conv2d, 1, 1, 0);
    op.window.groups = 2;
    struct cpu_tensor pair[] = {planes(grouped, 2, 1, 1), {doubled, F32(2, 1, 1, 1)}};
    CU_ASSERT_EQUAL(RUN(op, pair, TENSORS{planes(z, 2, 1, 1)}), RH_OK);
    ASSERT_VALUES(z, 0, 10, 2);
}

static void test_pools(void)
{
    float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y[4], gx[9], gy[] = {1, 2, 4, 8}, tie[] = {5, 5, 5, 5};
    struct op op = op_window(OP_max_pool2d, 2, 2, 0), global = op_of(OP_avg_pool2d);
    op.window.ceil_mode = true;
    CU_ASSERT_EQUAL(RUN(op, TENSORS{planes(x, 1, 3, 3)}, TENSORS{planes(y, 1, 2, 2)}), RH_OK);
    ASSERT_VALUES(y, 0, 5, 6, 8, 9);
    op.kind = OP_avg_pool2d; /* what hangs over the end does not count */
    CU_ASSERT_EQUAL(RUN(op, TENSORS{planes(x, 1, 3, 3)}, TENSORS{planes(y, 1, 2, 2)}), RH_OK);
    ASSERT_VALUES(y, 0, 3, 4.5, 7.5, 9);
    op = op_window(OP_avg_pool2d, 2, 2, 1); /* padding does */
    CU_ASSERT_EQUAL(RUN(op, TENSORS{planes(x, 1, 3, 3)}, TENSORS{planes(y, 1, 2, 2)}), RH_OK);
    ASSERT_VALUES(y, 0, 0.25, 1.25, 2.75, 7);
    global.window.output_h = global.window.output_w = 1;
    CU_ASSERT_EQUAL(RUN(global, TENSORS{planes(x, 1, 3, 3)}, TENSORS{planes(y, 1, 1, 1)}), RH_OK);
    CU_ASSERT_EQUAL(y[0], 5);
    global.window.output_h = global.window.output_w = 2; /* adaptive windows overlap */
    CU_ASSERT_EQUAL(RUN(global, TENSORS{planes(x, 1, 3, 3)}, TENSORS{planes(y, 1, 2, 2)}), RH_OK);
    ASSERT_VALUES(y, 0, 3, 4, 6, 7);
    op = op_window(OP_max_pool2d_grad, 2, 1, 0); /* overlapping windows, and ties to the first */
    struct cpu_tensor reads[] = {planes(gy, 1, 2, 2), planes(x, 1, 3, 3), planes(y, 1, 2, 2)};
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{planes(gx, 1, 3, 3)}), RH_OK);
    ASSERT_VALUES(gx, 0, 0, 0, 0, 0, 1, 2, 0, 4, 8);
    struct cpu_tensor ties[] = {planes(gy, 1, 1, 1), planes(tie, 1, 2, 2), planes(y, 1, 1, 1)};
    CU_ASSERT_EQUAL(RUN(op, ties, TENSORS{planes(gx, 1, 2, 2)}), RH_OK);
    ASSERT_VALUES(gx, 0, 1, 0, 0, 0);
    x[4] = NAN;
    op = op_window(OP_max_pool2d, 3, 1, 0);
    CU_ASSERT_EQUAL(RUN(op, TENSORS{planes(x, 1, 3, 3)}, TENSORS{planes(y, 1, 1, 1)}), RH_OK);
    CU_ASSERT_TRUE(isnan(y[0]));
}

static void test_batch_norm2d(void)
{
    float x[] = {1, 2, 3, 4}, gamma[] = {2}, beta[] = {1}, mean[] = {10}, var[] = {4}, y[4];
    float save_mean[1], save_invstd[1];
    int64_t count[1] = {7};
    struct op op = op_of(OP_batch_norm2d);
    struct cpu_tensor reads[] = {planes(x, 1, 2, 2), VECTOR(gamma), VECTOR(beta),
                                 VECTOR(mean),       VECTOR(var),   INTEGERS(count)};
    struct cpu_tensor writes[] = {planes(y, 1, 2, 2), VECTOR(save_mean), VECTOR(save_invstd),
                                  VECTOR(mean),       VECTOR(var),       INTEGERS(count)};
    op.norm.momentum = 0.1;
    CU_ASSERT_EQUAL(cpu_run(&op, reads, 6, writes, 1), RH_OK); /* evaluation: 2 (x - 10) / 2 + 1 */
    ASSERT_VALUES(y, 1e-6, -8, -7, -6, -5);
    CU_ASSERT_EQUAL(count[0], 7);
    op.norm.training = true;
    CU_ASSERT_EQUAL(RUN(op, reads, writes), RH_OK);
    double scale = 2 / sqrt(1.25); /* biased variance 1.25, unbiased 5/3 */
    ASSERT_VALUES(y, 1e-6, 1 - 1.5 * scale, 1 - 0.5 * scale, 1 + 0.5 * scale, 1 + 1.5 * scale);
    UNIT_ASSERT_NEAR(save_mean[0], 2.5, 1e-6);
    UNIT_ASSERT_NEAR(save_invstd[0], 1 / sqrt(1.25), 1e-6);
    UNIT_ASSERT_NEAR(mean[0], 9.25, 1e-6);
    UNIT_ASSERT_NEAR(var[0], 3.6 + 0.1 * 5 / 3, 1e-6);
    CU_ASSERT_EQUAL(count[0], 8);
}

static void test_embedding(void)
{
    float w[] = {0, 1, 10, 11, 20, 21}, y[6], gy[] = {1, 1, 1, 1, 1, 1}, gw[6] = {5, 5, 5, 5, 5, 5};
    int64_t index[] = {1, 2, 1};
    struct op op = op_of(OP_embedding), grad = op_of(OP_embedding_weight_grad);
    struct cpu_tensor reads[] = {INTEGERS(index), matrix(w, 3, 2)};
    struct cpu_tensor grad_reads[] = {matrix(gy, 3, 2), INTEGERS(index)};
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{matrix(y, 3, 2)}), RH_OK);
    ASSERT_VALUES(y, 0, 10, 11, 20, 21, 10, 11);
    CU_ASSERT_EQUAL(RUN(grad, grad_reads, TENSORS{matrix(gw, 3, 2)}), RH_OK);
    ASSERT_VALUES(gw, 0, 0, 0, 2, 2, 1, 1); /* M6 */
    index[2] = 3;
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{matrix(y, 3, 2)}), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "sample 2 has 3, the table has 3 rows");
    index[2] = -1;
    CU_ASSERT_EQUAL(RUN(grad, grad_reads, TENSORS{matrix(gw, 3, 2)}), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "sample 2 has -1, the table has 3 rows");
}

static void test_elementwise(void)
{
    float a[] = {-1, 0, 2, NAN}, b[] = {1, 2, 3, 4}, y[4];
    struct op op = op_of(OP_relu);
    CU_ASSERT_EQUAL(RUN(op, TENSORS{VECTOR(a)}, TENSORS{VECTOR(y)}), RH_OK);
    ASSERT_VALUES(y, 0, 0, 0, 2);
    CU_ASSERT_TRUE(isnan(y[3]));
    op.kind = OP_relu_grad;
    struct cpu_tensor reads[] = {VECTOR(b), VECTOR(y)};
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{VECTOR(y)}), RH_OK);
    ASSERT_VALUES(y, 0, 0, 0, 3, 4);
    op.kind = OP_add;
    CU_ASSERT_EQUAL(RUN(op, reads, TENSORS{VECTOR(y)}), RH_OK);
    ASSERT_VALUES(y, 0, 1, 2, 6, 8);
}

static void test_memory(void)
{
    float x[] = {1, 2, 3, 4}, y[] = {NAN, NAN, NAN, NAN}, flat[6], small[] = {7, 8};
    int64_t number[] = {5};
    struct op op = op_of(OP_scale_add), pack = op_of(OP_pack), unpack = op_of(OP_unpack);
    struct cpu_tensor both[] = {VECTOR(x), VECTOR(y)};
    op.scale_add.alpha = 2;
    CU_ASSERT_EQUAL(RUN(op, TENSORS{VECTOR(x)}, TENSORS{VECTOR(y)}), RH_OK); /* y is not read */
    ASSERT_VALUES(y, 0, 2, 4, 6, 8);
    op.scale_add.beta = 0.5;
    CU_ASSERT_EQUAL(RUN(op, both, TENSORS{VECTOR(y)}), RH_OK);
    ASSERT_VALUES(y, 0, 3, 6, 9, 12);
    op.kind = OP_bucket_copy;
    CU_ASSERT_EQUAL(RUN(op, TENSORS{matrix(x, 2, 2)}, TENSORS{VECTOR(y)}), RH_OK);
    ASSERT_VALUES(y, 0, 2, 4, 6, 8);
    struct cpu_tensor parts[] = {matrix(x, 2, 2), VECTOR(small)};
    CU_ASSERT_EQUAL(RUN(pack, parts, TENSORS{VECTOR(flat)}), RH_OK);
    ASSERT_VALUES(flat, 0, 1, 2, 3, 4, 7, 8);
    unpack.accumulate = true;
    CU_ASSERT_EQUAL(RUN(unpack, TENSORS{VECTOR(flat)}, parts), RH_OK);
    ASSERT_VALUES(x, 0, 2, 4, 6, 8);
    unpack.accumulate = false;
    CU_ASSERT_EQUAL(RUN(unpack, TENSORS{VECTOR(flat)}, parts), RH_OK);
    ASSERT_VALUES(small, 0, 7, 8);
    op.kind = OP_cast;
    CU_ASSERT_EQUAL(RUN(op, TENSORS{VECTOR(x)}, TENSORS{VECTOR(y)}), RH_OK);
    ASSERT_VALUES(y, 0, 1, 2, 3, 4);
    uint16_t low[4];
    struct cpu_tensor half = {low, {DTYPE_F16, SHAPE(4)}};
    x[0] = 2049; /* between 2048 and 2050 */
    CU_ASSERT_EQUAL(RUN(op, TENSORS{VECTOR(x)}, TENSORS{half}), RH_OK);
    CU_ASSERT_EQUAL(RUN(op, TENSORS{half}, TENSORS{VECTOR(y)}), RH_OK);
    ASSERT_VALUES(y, 0, 2048, 2, 3, 4);
    op.kind = OP_zero;
    CU_ASSERT_EQUAL(cpu_run(&op, NULL, 0, TENSORS{INTEGERS(number)}, 1), RH_OK);
    CU_ASSERT_EQUAL(number[0], 0);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"mse", test_mse, NULL},
        {"cross entropy", test_cross_entropy, NULL},
        {"sgd", test_sgd, NULL},
        {"adam", test_adam, NULL},
        {"optimizer tuples", test_optimizer_tuples, NULL},
        {"linear", test_linear, NULL},
        {"conv2d", test_conv2d, NULL},
        {"pools", test_pools, NULL},
        {"batch norm", test_batch_norm2d, NULL},
        {"embedding", test_embedding, NULL},
        {"elementwise", test_elementwise, NULL},
        {"memory", test_memory, NULL},
    };
    return UNIT_MAIN("kernels", tests);
}
