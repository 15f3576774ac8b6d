/* Every op on CUDA against the CPU kernel, on fresh random operands. parity_ops [SEED]. Exit 77
 * where there is no GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "parity/parity.h"

static struct tensor_type f32(int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t dims[4] = {a, b, c, d};
    return (struct tensor_type){DTYPE_F32, shape_of(rank, dims)};
}

/* What fp16 and bf16 experiments store in these. */
static struct tensor_type real(const struct tally *t, int rank, int64_t a, int64_t b, int64_t c,
                               int64_t d)
{
    struct tensor_type type = f32(rank, a, b, c, d);
    type.dtype = t->real;
    type.channels_last = t->channels_last && rank == 4;
    return type;
}

static struct tensor_type i64(int rank, int64_t a)
{
    return (struct tensor_type){DTYPE_I64, shape_of(rank, &a)};
}

static void linear_ops(struct tally *t, int64_t n, int64_t i, int64_t o)
{
    struct op op = {.compute = t->real};
    op.kind = OP_linear;
    parity_plain(t, "linear", &op, 3, 1, 1e-5,
                 (struct tensor_type[]){real(t, 2, n, i, 0, 0), real(t, 2, o, i, 0, 0),
                                        real(t, 1, o, 0, 0, 0), real(t, 2, n, o, 0, 0)});
    op.kind = OP_linear_input_grad;
    parity_plain(t, "linear_input_grad", &op, 2, 1, 1e-5,
                 (struct tensor_type[]){real(t, 2, n, o, 0, 0), real(t, 2, o, i, 0, 0),
                                        real(t, 2, n, i, 0, 0)});
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        op.kind = OP_linear_weight_grad;
        op.accumulate = accumulate;
        parity_plain(t, accumulate ? "linear_weight_grad, added" : "linear_weight_grad", &op, 2, 2,
                     1e-5,
                     (struct tensor_type[]){real(t, 2, n, o, 0, 0), real(t, 2, n, i, 0, 0),
                                            f32(2, o, i, 0, 0), f32(1, o, 0, 0, 0)});
    }
}

static void conv_ops(struct tally *t, int64_t n, int64_t c, int64_t h, int64_t o, int kernel,
                     int stride, int padding, int groups)
{
    struct op op = {.compute = t->real};
    int64_t p = (h + 2 * padding - kernel) / stride + 1;
    op.window.kernel_h = op.window.kernel_w = kernel;
    op.window.stride_h = op.window.stride_w = stride;
    op.window.padding_h = op.window.padding_w = padding;
    op.window.groups = groups;
    op.window.dilation = 1;
    struct tensor_type x = real(t, 4, n, c, h, h + 1),
                       w = real(t, 4, o, c / groups, kernel, kernel);
    struct tensor_type y = real(t, 4, n, o, p, (h + 1 + 2 * padding - kernel) / stride + 1);
    struct tensor_type b = real(t, 1, o, 0, 0, 0);
    struct tensor_type gw = w, gb = b;
    gw.dtype = gb.dtype = DTYPE_F32;
    op.kind = OP_conv2d;
    parity_plain(t, "conv2d", &op, 3, 1, 2e-5, (struct tensor_type[]){x, w, b, y});
    op.kind = OP_conv2d_input_grad;
    parity_plain(t, "conv2d_input_grad", &op, 2, 1, 2e-5, (struct tensor_type[]){y, w, x});
    op.accumulate = true;
    parity_plain(t, "conv2d_input_grad, added", &op, 2, 1, 2e-5, (struct tensor_type[]){y, w, x});
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        op.kind = OP_conv2d_weight_grad;
        op.accumulate = accumulate;
        parity_plain(t, accumulate ? "conv2d_weight_grad, added" : "conv2d_weight_grad", &op, 2, 2,
                     5e-5, (struct tensor_type[]){y, x, gw, gb});
    }
}

static void norm_ops(struct tally *t, int64_t n, int64_t c, int64_t h)
{
    struct tensor_type x = real(t, 4, n, c, h, h), v = f32(1, c, 0, 0, 0), count = i64(0, 0);
    struct op op = {.kind = OP_batch_norm2d, .compute = DTYPE_F32};
    op.norm.epsilon = 1e-5;
    op.norm.momentum = 0.1;
    op.norm.training = true;
    parity_compare(t, &(struct subject){.name = "batch_norm2d, training",
                                        .op = op,
                                        .types = {x, v, v, v, v, count, x, v, v, v, v, count},
                                        .reads = 6,
                                        .writes = 6,
                                        .in_place = {0, 0, 0, 4, 5, 6},
                                        .positive = {[4] = true},
                                        .bound = 2e-5});
    op.norm.training = false;
    parity_compare(t, &(struct subject){.name = "batch_norm2d, evaluation",
                                        .op = op,
                                        .types = {x, v, v, v, v, count, x},
                                        .reads = 6,
                                        .writes = 1,
                                        .positive = {[4] = true},
                                        .bound = 2e-5});
    op.norm.training = true;
    op.kind = OP_batch_norm2d_input_grad;
    parity_compare(t, &(struct subject){.name = "batch_norm2d_input_grad",
                                        .op = op,
                                        .types = {x, x, v, v, v, x},
                                        .reads = 5,
                                        .writes = 1,
                                        .positive = {[4] = true},
                                        .bound = 5e-5});
    op.kind = OP_batch_norm2d_weight_grad;
    parity_compare(t, &(struct subject){.name = "batch_norm2d_weight_grad",
                                        .op = op,
                                        .types = {x, x, v, v, v, v},
                                        .reads = 4,
                                        .writes = 2,
                                        .positive = {[3] = true},
                                        .bound = 5e-5});
}

/* Batch norm with relu [and a residual], and its gradient. */
static void fused_norm_ops(struct tally *t, int64_t n, int64_t c, int64_t h)
{
    struct tensor_type x = real(t, 4, n, c, h, h), v = f32(1, c, 0, 0, 0), count = i64(0, 0);
    struct op op = {.kind = OP_batch_norm2d, .compute = DTYPE_F32};
    op.norm.epsilon = 1e-5;
    op.norm.momentum = 0.1;
    op.norm.training = op.norm.relu = true;
    parity_compare(t, &(struct subject){.name = "batch_norm2d, relu",
                                        .op = op,
                                        .types = {x, v, v, v, v, count, x, v, v, v, v, count},
                                        .reads = 6,
                                        .writes = 6,
                                        .in_place = {0, 0, 0, 4, 5, 6},
                                        .positive = {[4] = true},
                                        .bound = 2e-5});
    parity_compare(t, &(struct subject){.name = "batch_norm2d, residual, relu",
                                        .op = op,
                                        .types = {x, v, v, v, v, count, x, x, v, v, v, v, count},
                                        .reads = 7,
                                        .writes = 6,
                                        .in_place = {0, 0, 0, 4, 5, 6},
                                        .positive = {[4] = true},
                                        .bound = 2e-5});
    op.kind = OP_batch_norm2d_grad;
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        op.accumulate = accumulate;
        op.norm.relu = false;
        parity_compare(t, &(struct subject){.name = "batch_norm2d_grad",
                                            .op = op,
                                            .types = {x, x, v, v, v, v, x, v, v},
                                            .reads = 6,
                                            .writes = 3,
                                            .positive = {[5] = true},
                                            .bound = 5e-5});
        op.norm.relu = true;
        parity_compare(t, &(struct subject){.name = "batch_norm2d_grad, relu, residual",
                                            .op = op,
                                            .types = {x, x, v, v, v, v, x, x, v, v, x},
                                            .reads = 7,
                                            .writes = 4,
                                            .positive = {[5] = true},
                                            .bound = 5e-5});
    }
    /* A mask computed anew may flip where y is next to zero: large betas keep clear of it. */
    parity_compare(t, &(struct subject){.name = "batch_norm2d_grad, relu",
                                        .op = op,
                                        .types = {x, x, v, v, v, v, x, v, v},
                                        .reads = 6,
                                        .writes = 3,
                                        .positive = {[5] = true},
                                        .far_from_zero = true,
                                        .bound = 5e-5});
}

static void pool_ops(struct tally *t, int64_t n, int64_t c, int64_t h, int kernel, int stride,
                     int padding)
{
    struct op op = {.compute = DTYPE_F32};
    int64_t p = (h + 2 * padding - kernel) / stride + 1;
    struct tensor_type x = real(t, 4, n, c, h, h), y = real(t, 4, n, c, p, p),
                       one = real(t, 4, n, c, 1, 1);
    op.window.kernel_h = op.window.kernel_w = kernel;
    op.window.stride_h = op.window.stride_w = stride;
    op.window.padding_h = op.window.padding_w = padding;
    op.window.dilation = op.window.groups = 1;
    op.kind = OP_max_pool2d;
    parity_plain(t, "max_pool2d", &op, 1, 1, 0, (struct tensor_type[]){x, y});
    op.kind = OP_max_pool2d_grad;
    parity_plain(t, "max_pool2d_grad", &op, 3, 1, 1e-6, (struct tensor_type[]){y, x, y, x});
    op.kind = OP_avg_pool2d;
    parity_plain(t, "avg_pool2d", &op, 1, 1, 1e-5, (struct tensor_type[]){x, y});
    op.kind = OP_avg_pool2d_grad;
    parity_plain(t, "avg_pool2d_grad", &op, 1, 1, 1e-5, (struct tensor_type[]){y, x});
    op.window.output_h = op.window.output_w = 1;
    op.kind = OP_avg_pool2d;
    parity_plain(t, "avg_pool2d, global", &op, 1, 1, 1e-5, (struct tensor_type[]){x, one});
    op.kind = OP_avg_pool2d_grad;
    parity_plain(t, "avg_pool2d_grad, global", &op, 1, 1, 1e-5, (struct tensor_type[]){one, x});
}

static void loss_ops(struct tally *t, int64_t n, int64_t c)
{
    struct tensor_type x = real(t, 2, n, c, 0, 0), target = i64(1, n), control = f32(1, 4, 0, 0, 0);
    struct op op = {.compute = DTYPE_F32};
    op.loss.weight = 0.25;
    for (int sum = 0; sum < 2; sum++) {
        op.loss.sum = sum;
        op.accumulate = false;
        op.kind = OP_mse_loss_grad;
        parity_plain(t, "mse_loss_grad", &op, 2, 1, 1e-6, (struct tensor_type[]){x, x, x});
        op.kind = OP_cross_entropy_grad;
        parity_compare(t, &(struct subject){.name = "cross_entropy_grad",
                                            .op = op,
                                            .types = {x, target, x},
                                            .reads = 2,
                                            .writes = 1,
                                            .limit = {[1] = c},
                                            .bound = 1e-5});
        op.accumulate = sum; /* into the last of three slots; else the only one is written */
        struct tensor_type losses = f32(1, sum ? 3 : 1, 0, 0, 0);
        op.kind = OP_mse_loss;
        parity_plain(t, "mse_loss", &op, 3, 1, 1e-5, (struct tensor_type[]){x, x, control, losses});
        op.kind = OP_cross_entropy;
        parity_compare(t, &(struct subject){.name = "cross_entropy",
                                            .op = op,
                                            .types = {x, target, control, losses},
                                            .reads = 3,
                                            .writes = 1,
                                            .limit = {[1] = c},
                                            .bound = 1e-5});
    }
}

static void small_ops(struct tally *t, int64_t n)
{
    struct tensor_type x = real(t, 1, n, 0, 0, 0);
    struct op op = {.compute = DTYPE_F32};
    op.kind = OP_relu;
    parity_plain(t, "relu", &op, 1, 1, 0, (struct tensor_type[]){x, x});
    op.kind = OP_relu_grad;
    parity_plain(t, "relu_grad", &op, 2, 1, 0, (struct tensor_type[]){x, x, x});
    op.kind = OP_add;
    parity_plain(t, "add", &op, 2, 1, 0, (struct tensor_type[]){x, x, x});
    op.kind = OP_zero;
    parity_plain(t, "zero", &op, 0, 1, 0, (struct tensor_type[]){x});
    op.kind = OP_bucket_copy;
    op.scale_add.alpha = 0.125;
    parity_plain(t, "bucket_copy", &op, 1, 1, 1e-7, (struct tensor_type[]){x, x});
    op.kind = OP_scale_add;
    op.scale_add.beta = -0.5;
    parity_compare(t, &(struct subject){.name = "scale_add",
                                        .op = op,
                                        .types = {x, x, x},
                                        .reads = 2,
                                        .writes = 1,
                                        .in_place = {2},
                                        .bound = 1e-6});
    struct tensor_type flat = f32(1, 3 * n, 0, 0, 0), part = f32(1, n, 0, 0, 0), tf32 = part;
    tf32.dtype = DTYPE_TF32;
    op.kind = OP_cast;
    parity_plain(t, "cast, back", &op, 1, 1, 0, (struct tensor_type[]){x, tf32});
    parity_plain(t, "cast", &op, 1, 1, 0, (struct tensor_type[]){part, x});
    op = (struct op){.kind = OP_pack, .compute = DTYPE_F32};
    parity_plain(t, "pack", &op, 3, 1, 0, (struct tensor_type[]){part, part, part, flat});
    op.kind = OP_unpack;
    parity_plain(t, "unpack", &op, 1, 3, 0, (struct tensor_type[]){flat, part, part, part});
}

static void optimizer_ops(struct tally *t, int64_t n)
{
    struct tensor_type p = f32(1, n, 0, 0, 0), q = f32(2, 3, n, 0, 0), control = f32(1, 4, 0, 0, 0),
                       count = i64(0, 0);
    struct op op = {.kind = OP_sgd, .compute = DTYPE_F32};
    op.sgd.momentum = 0.9;
    op.sgd.weight_decay = 0.01;
    parity_compare(t,
                   &(struct subject){.name = "sgd, momentum",
                                     .op = op,
                                     .types = {control, count, p, p, p, q, q, q, count, p, p, q, q},
                                     .reads = 8,
                                     .writes = 5,
                                     .in_place = {2, 3, 5, 6, 8},
                                     .limit = {[1] = 3},
                                     .bound = 1e-5});
    op = (struct op){.kind = OP_adamw, .compute = DTYPE_F32};
    op.adam.beta1 = 0.9;
    op.adam.beta2 = 0.999;
    op.adam.epsilon = 1e-8;
    op.adam.weight_decay = 0.01;
    parity_compare(t, &(struct subject){.name = "adamw",
                                        .op = op,
                                        .types = {control, count, p, p, p, p, count, p, p, p},
                                        .reads = 6,
                                        .writes = 4,
                                        .in_place = {2, 3, 5, 6},
                                        .positive = {[5] = true},
                                        .limit = {[1] = 3},
                                        .bound = 2e-5});
    op.kind = OP_adam;
    parity_compare(t, &(struct subject){.name = "adam",
                                        .op = op,
                                        .types = {control, count, p, p, p, p, count, p, p, p},
                                        .reads = 6,
                                        .writes = 4,
                                        .in_place = {2, 3, 5, 6},
                                        .positive = {[5] = true},
                                        .limit = {[1] = 3},
                                        .bound = 2e-5});
}

static void embedding_ops(struct tally *t, int64_t rows, int64_t vocabulary, int64_t width)
{
    struct tensor_type index = i64(1, rows), w = real(t, 2, vocabulary, width, 0, 0),
                       y = real(t, 2, rows, width, 0, 0);
    struct op op = {.kind = OP_embedding, .compute = DTYPE_F32};
    parity_compare(t, &(struct subject){.name = "embedding",
                                        .op = op,
                                        .types = {index, w, y},
                                        .reads = 2,
                                        .writes = 1,
                                        .limit = {vocabulary},
                                        .bound = 0});
    struct tensor_type gw = w;
    gw.dtype = DTYPE_F32;
    op.kind = OP_embedding_weight_grad;
    parity_compare(t, &(struct subject){.name = "embedding_weight_grad",
                                        .op = op,
                                        .types = {y, index, gw},
                                        .reads = 2,
                                        .writes = 1,
                                        .limit = {[1] = vocabulary},
                                        .bound = 1e-6});
}

static void check_coverage(struct tally *t)
{
    for (enum op_kind kind = 0; kind < OP_COUNT; kind++)
        if (op_class(kind) != OP_CLASS_VIEW && !t->seen[kind]) {
            printf("FAILED no test of %s\n", op_name(kind));
            t->failed++;
        }
}

/* What depends on the memory format. */
static void picture_ops(struct tally *t)
{
    conv_ops(t, 2, 3, 9, 4, 3, 1, 1, 1);
    conv_ops(t, 3, 8, 14, 16, 3, 2, 1, 4);
    conv_ops(t, 2, 3, 31, 8, 7, 2, 3, 1);
    conv_ops(t, 4, 64, 14, 32, 1, 1, 0, 1);
    norm_ops(t, 4, 3, 5);
    norm_ops(t, 16, 65, 14);
    norm_ops(t, 8, 256, 7);
    fused_norm_ops(t, 4, 3, 5);
    fused_norm_ops(t, 8, 64, 14);
    pool_ops(t, 2, 3, 9, 3, 2, 1);
    pool_ops(t, 3, 17, 12, 2, 2, 0);
    pool_ops(t, 4, 64, 14, 3, 2, 1);
}

static void all_ops(struct tally *t)
{
    linear_ops(t, 20, 10, 5);
    linear_ops(t, 33, 127, 65);
    linear_ops(t, 256, 512, 1000);
    picture_ops(t);
    loss_ops(t, 7, 5);
    loss_ops(t, 128, 1000);
    small_ops(t, 1);
    small_ops(t, 1025);
    small_ops(t, 1 << 20);
    embedding_ops(t, 16, 1000, 10);
    embedding_ops(t, 129, 33, 7);
}

int main(int argc, char **argv)
{
    struct tally t = {.seed = argc > 1 ? (uint64_t)atoll(argv[1]) : (uint64_t)time(NULL)};
    if (parity_find_gpu(&t) != RH_OK) {
        printf("skipped parity: %s\nparity: 0 passed, 0 failed, 1 skipped\n", fail_message());
        return 77;
    }
    if (parity_open(&t) != RH_OK) {
        printf("FAILED %s\nparity: 0 passed, 1 failed, 0 skipped\n", fail_message());
        parity_close(&t);
        return 1;
    }
    printf("seed %llu\n", (unsigned long long)t.seed);
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < 3; i++) {
        t.real = types[i];
        t.channels_last = false;
        all_ops(&t);
        t.channels_last = true;
        picture_ops(&t);
    }
    optimizer_ops(&t, 1);
    optimizer_ops(&t, 999);
    parity_scaled(&t, 1);
    parity_scaled(&t, 50001);
    check_coverage(&t);
    printf("parity: %d passed, %d failed, 0 skipped\n", t.passed, t.failed);
    parity_close(&t);
    return t.failed != 0;
}
