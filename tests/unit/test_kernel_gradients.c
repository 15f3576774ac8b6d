/* Every gradient kernel against differences of its forward kernel: for f = sum(r * y) with a fixed
 * r as y's gradient, each element of each input is moved by -2h, -h, h, 2h. The fourth-order
 * formula and double sums leave the rounding of y itself: about 1e-7 / h. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdio.h>

#include "tensors.h"
#include "unit.h"

enum { MOST_READS = 6 };

/* A forward op with its operands, and gy: as many values as write 0 has. */
struct forward {
    struct op op;
    struct cpu_tensor reads[MOST_READS], writes[OP_MAX_WRITES], gy;
    int read_count, write_count;
};

static void forward_add(struct forward *f, struct cpu_tensor read)
{
    f->reads[f->read_count++] = read;
}

/* Infers, allocates and runs; gy is spread. */
static void forward_start(struct forward *f)
{
    struct tensor_type reads[MOST_READS], writes[OP_MAX_WRITES];
    for (int i = 0; i < f->read_count; i++)
        reads[i] = f->reads[i].type;
    CU_ASSERT_EQUAL_FATAL(op_infer(&f->op, reads, f->read_count, writes, &f->write_count), RH_OK);
    for (int i = 0; i < f->write_count; i++)
        f->writes[i] = tensor_new(writes[i]);
    f->gy = tensor_spread(writes[0].shape, 5);
    CU_ASSERT_EQUAL_FATAL(cpu_run(&f->op, f->reads, f->read_count, f->writes, f->write_count),
                          RH_OK);
}

static void forward_end(struct forward *f)
{
    for (int i = 0; i < f->read_count; i++)
        free(f->reads[i].data);
    for (int i = 0; i < f->write_count; i++)
        free(f->writes[i].data);
    free(f->gy.data);
}

static double objective(struct forward *f)
{
    const float *y = f->writes[0].data, *gy = f->gy.data;
    int64_t elements = shape_elements(&f->gy.type.shape);
    double sum = 0;
    CU_ASSERT_EQUAL(cpu_run(&f->op, f->reads, f->read_count, f->writes, f->write_count), RH_OK);
    for (int64_t i = 0; i < elements; i++)
        sum += (double)y[i] * gy[i];
    return sum;
}

static double moved(struct forward *f, float *element, double by)
{
    float kept = *element;
    *element = (float)(kept + by);
    double value = objective(f);
    *element = kept;
    return value;
}

/* `gradient` of read `wrt` against differences; tolerance relative to the largest gradient. */
static void assert_gradient(struct forward *f, int wrt, const struct cpu_tensor *gradient, double h)
{
    float *x = f->reads[wrt].data;
    const float *gx = gradient->data;
    int64_t elements = shape_elements(&gradient->type.shape);
    double largest = 0, worst = 0;
    CU_ASSERT_TRUE_FATAL(shape_equal(&gradient->type.shape, &f->reads[wrt].type.shape));
    for (int64_t i = 0; i < elements; i++) {
        double two = moved(f, &x[i], 2 * h), one = moved(f, &x[i], h);
        double minus_one = moved(f, &x[i], -h), minus_two = moved(f, &x[i], -2 * h);
        double slope = (8 * (one - minus_one) - (two - minus_two)) / (12 * h);
        largest = fmax(largest, fabs(slope));
        worst = fmax(worst, fabs(slope - gx[i]));
    }
    CU_ASSERT_TRUE(largest > 0);
    if (!(worst <= 2e-4 * largest))
        fprintf(stderr, "    %s: read %d: largest slope %g, worst difference %g\n",
                op_name(f->op.kind), wrt, largest, worst);
    CU_ASSERT_TRUE(worst <= 2e-4 * largest);
}

/* Runs a gradient op whose operands are given, into new memory of the types of the reads `first`
 * and `second` (-1: none) of the forward op, and compares. A second run that accumulates must
 * double. */
static void check_gradient(struct forward *f, enum op_kind kind, const struct cpu_tensor *reads,
                           int read_count, int first, int second, double h)
{
    struct op op = f->op;
    int wrt[] = {first, second}, count = second < 0 ? 1 : 2;
    bool input_grad = first == 0;
    struct cpu_tensor writes[2];
    op.kind = kind;
    for (int i = 0; i < count; i++)
        writes[i] = tensor_new(f->reads[wrt[i]].type);
    for (int i = 0; i < count; i++) /* what was there must not matter */
        memset(writes[i].data, 0x7f, type_bytes(&writes[i].type));
    CU_ASSERT_EQUAL(cpu_run(&op, reads, read_count, writes, count), RH_OK);
    for (int i = 0; i < count; i++)
        assert_gradient(f, wrt[i], &writes[i], h);
    op.accumulate = true;
    float once[] = {*(float *)writes[0].data, count > 1 ? *(float *)writes[1].data : 0};
    for (int i = 0; i < count && !input_grad; i++) {
        CU_ASSERT_EQUAL(cpu_run(&op, reads, read_count, writes, count), RH_OK);
        UNIT_ASSERT_NEAR(*(float *)writes[i].data, (2 + i) * once[i], 1e-5);
    }
    for (int i = 0; i < count; i++)
        free(writes[i].data);
}

static void check_linear(int64_t n, int64_t in, int64_t out, bool bias)
{
    struct forward f = {.op = op_of(OP_linear)};
    forward_add(&f, tensor_spread(SHAPE(n, in), 1));
    forward_add(&f, tensor_spread(SHAPE(out, in), 2));
    if (bias)
        forward_add(&f, tensor_spread(SHAPE(out), 3));
    forward_start(&f);
    struct cpu_tensor by_w[] = {f.gy, f.reads[1]}, by_x[] = {f.gy, f.reads[0]};
    check_gradient(&f, OP_linear_input_grad, by_w, 2, 0, -1, 0.25);
    check_gradient(&f, OP_linear_weight_grad, by_x, 2, 1, bias ? 2 : -1, 0.25);
    forward_end(&f);
}

static void test_linear(void)
{
    check_linear(1, 1, 1, true);
    check_linear(7, 5, 3, true);
    check_linear(4, 13, 9, false);
}

static void check_conv2d(struct op op, struct shape x, int64_t out, bool bias)
{
    struct forward f = {.op = op};
    forward_add(&f, tensor_spread(x, 1));
    forward_add(&f, tensor_spread(SHAPE(out, x.dim[1] / op.window.groups, op.window.kernel_h,
                                        op.window.kernel_w),
                                  2));
    if (bias)
        forward_add(&f, tensor_spread(SHAPE(out), 3));
    forward_start(&f);
    struct cpu_tensor by_w[] = {f.gy, f.reads[1]}, by_x[] = {f.gy, f.reads[0]};
    check_gradient(&f, OP_conv2d_input_grad, by_w, 2, 0, -1, 0.25);
    check_gradient(&f, OP_conv2d_weight_grad, by_x, 2, 1, bias ? 2 : -1, 0.25);
    forward_end(&f);
}

static void test_conv2d(void)
{
    struct op odd = op_window(OP_conv2d, 3, 2, 1);
    check_conv2d(op_window(OP_conv2d, 1, 1, 0), SHAPE(2, 3, 4, 5), 4, false);
    check_conv2d(op_window(OP_conv2d, 1, 2, 0), SHAPE(2, 3, 5, 5), 4, false);
    check_conv2d(op_window(OP_conv2d, 3, 1, 1), SHAPE(2, 2, 5, 4), 3, true);
    check_conv2d(odd, SHAPE(2, 4, 7, 6), 4, true);
    odd.window.groups = 2;
    check_conv2d(odd, SHAPE(2, 4, 7, 6), 6, true);
    odd.window.kernel_w = 2;
    odd.window.stride_w = 3;
    odd.window.padding_w = 0;
    odd.window.dilation = 2;
    check_conv2d(odd, SHAPE(1, 4, 7, 9), 2, false);
    struct op depthwise = op_window(OP_conv2d, 3, 1, 2);
    depthwise.window.groups = 3;
    check_conv2d(depthwise, SHAPE(2, 3, 4, 3), 3, false);
}

/* Only y has a gradient, the saved statistics have none of their own. */
static void check_batch_norm2d(struct shape x, double epsilon)
{
    struct forward f = {.op = op_of(OP_batch_norm2d)};
    struct shape c = SHAPE(x.dim[1]);
    f.op.norm.training = true;
    f.op.norm.momentum = 0.1;
    f.op.norm.epsilon = epsilon;
    forward_add(&f, tensor_spread(x, 1));
    for (int i = 0; i < 4; i++)
        forward_add(&f, tensor_spread(c, 2 + i));
    forward_add(&f, tensor_new(type_of(DTYPE_I64, (struct shape){0})));
    forward_start(&f);
    struct cpu_tensor input[] = {f.gy, f.reads[0], f.reads[1], f.writes[1], f.writes[2]};
    struct cpu_tensor weight[] = {f.gy, f.reads[0], f.writes[1], f.writes[2]};
    check_gradient(&f, OP_batch_norm2d_weight_grad, weight, 4, 1, 2, 0.25);
    objective(&f); /* the statistics of the unmoved x, again */
    check_gradient(&f, OP_batch_norm2d_input_grad, input, 5, 0, -1, 0.02);
    forward_end(&f);
}

static void test_batch_norm2d(void)
{
    check_batch_norm2d(SHAPE(2, 3, 3, 5), 1e-5);
    check_batch_norm2d(SHAPE(5, 2, 1, 1), 1e-5);
    check_batch_norm2d(SHAPE(1, 4, 3, 3), 0.1);
}

static void check_relu(struct shape x)
{
    struct forward f = {.op = op_of(OP_relu)};
    forward_add(&f, tensor_spread(x, 1));
    forward_start(&f);
    struct cpu_tensor reads[] = {f.gy, f.writes[0]};
    check_gradient(&f, OP_relu_grad, reads, 2, 0, -1, 0.01);
    forward_end(&f);
}

static void test_relu(void)
{
    check_relu(SHAPE(7));
    check_relu(SHAPE(3, 2, 5));
}

static void check_pool(struct op op, struct shape x)
{
    bool maximum = op.kind == OP_max_pool2d;
    struct forward f = {.op = op};
    forward_add(&f, tensor_spread(x, 1));
    forward_start(&f);
    struct cpu_tensor reads[] = {f.gy, f.reads[0], f.writes[0]};
    check_gradient(&f, maximum ? OP_max_pool2d_grad : OP_avg_pool2d_grad, reads, maximum ? 3 : 1, 0,
                   -1, maximum ? 0.01 : 0.25);
    forward_end(&f);
}

static void test_pools(void)
{
    static const enum op_kind kinds[] = {OP_max_pool2d, OP_avg_pool2d};
    for (int i = 0; i < 2; i++) {
        check_pool(op_window(kinds[i], 2, 2, 0), SHAPE(2, 2, 4, 4));
        check_pool(op_window(kinds[i], 3, 2, 1), SHAPE(1, 3, 7, 5)); /* overlap */
        struct op rounded = op_window(kinds[i], 3, 2, 0);
        rounded.window.ceil_mode = true;
        check_pool(rounded, SHAPE(2, 1, 6, 4));
        rounded.window.padding_h = 1;
        rounded.window.kernel_w = 2;
        check_pool(rounded, SHAPE(1, 2, 6, 5));
    }
    struct op dilated = op_window(OP_max_pool2d, 2, 1, 0);
    dilated.window.dilation = 2;
    check_pool(dilated, SHAPE(1, 2, 5, 4));
    struct op adaptive = op_of(OP_avg_pool2d);
    adaptive.window.output_h = adaptive.window.output_w = 1;
    check_pool(adaptive, SHAPE(2, 3, 5, 7)); /* global */
    adaptive.window.output_h = 2;
    adaptive.window.output_w = 3;
    check_pool(adaptive, SHAPE(2, 3, 5, 7));
}

static void test_embedding(void)
{
    int64_t index[] = {3, 0, 3, 6, 3, 0};
    struct forward f = {.op = op_of(OP_embedding)};
    forward_add(&f, tensor_new(I64(6)));
    memcpy(f.reads[0].data, index, sizeof index);
    forward_add(&f, tensor_spread(SHAPE(7, 3), 2));
    forward_start(&f);
    struct cpu_tensor reads[] = {f.gy, f.reads[0]};
    check_gradient(&f, OP_embedding_weight_grad, reads, 2, 1, -1, 0.25);
    forward_end(&f);
}

/* A loss is one number: its own gradient is 1. */
static void check_loss(struct op op, struct cpu_tensor x, struct cpu_tensor target, double h)
{
    struct forward f = {.op = op};
    forward_add(&f, x);
    forward_add(&f, target);
    forward_add(&f, tensor_new(F32(CONTROL_ELEMENTS)));
    forward_start(&f);
    *(float *)f.gy.data = 1;
    check_gradient(&f, op.kind == OP_mse_loss ? OP_mse_loss_grad : OP_cross_entropy_grad, f.reads,
                   2, 0, -1, h);
    forward_end(&f);
}

static void test_losses(void)
{
    for (int sum = 0; sum < 2; sum++) {
        struct op mse = op_of(OP_mse_loss), entropy = op_of(OP_cross_entropy);
        mse.loss.sum = entropy.loss.sum = sum;
        mse.loss.weight = entropy.loss.weight = sum ? 1 : 0.25;
        check_loss(mse, tensor_spread(SHAPE(3, 5), 1), tensor_spread(SHAPE(3, 5), 2), 0.25);
        struct cpu_tensor target = tensor_new(I64(4));
        memcpy(target.data, (int64_t[]){2, 0, -100, 6}, 4 * sizeof(int64_t));
        check_loss(entropy, tensor_spread(SHAPE(4, 7), 1), target, 0.05);
    }
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"linear", test_linear, NULL},
        {"conv2d", test_conv2d, NULL},
        {"batch norm", test_batch_norm2d, NULL},
        {"relu", test_relu, NULL},
        {"pools", test_pools, NULL},
        {"embedding", test_embedding, NULL},
        {"losses", test_losses, NULL},
    };
    return UNIT_MAIN("kernel_gradients", tests);
}
