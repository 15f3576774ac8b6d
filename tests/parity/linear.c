/* Linear layers and losses with their gradients, alone and as fusion joins them. */
#include "parity/parity.h"

struct layer {
    int64_t n, i, o;
};

/* Also in tf32: fp32 operands whose products keep 10 bits. */
static void forward(struct tally *t, const struct layer *l, struct op op, double bound)
{
    struct tensor_type types[] = {real(t, 2, l->n, l->i, 0, 0), real(t, 2, l->o, l->i, 0, 0),
                                  real(t, 1, l->o, 0, 0, 0), real(t, 2, l->n, l->o, 0, 0)};
    struct tensor_type bare[] = {types[0], types[1], types[3]};
    op.kind = OP_linear;
    parity_plain(t, "linear", &op, 3, 1, bound, types);
    parity_plain(t, "linear, no bias", &op, 2, 1, bound, bare);
    op.linear.relu = true;
    parity_plain(t, "linear, relu", &op, 3, 1, bound, types);
    parity_plain(t, "linear, relu, no bias", &op, 2, 1, bound, bare);
}

static void backward(struct tally *t, const struct layer *l, struct op op, double bound)
{
    struct tensor_type x = real(t, 2, l->n, l->i, 0, 0), w = real(t, 2, l->o, l->i, 0, 0),
                       y = real(t, 2, l->n, l->o, 0, 0);
    struct tensor_type gw = f32(2, l->o, l->i, 0, 0), gb = f32(1, l->o, 0, 0, 0);
    op.kind = OP_linear_input_grad;
    parity_plain(t, "linear_input_grad", &op, 2, 1, bound, (struct tensor_type[]){y, w, x});
    parity_plain(t, "linear_input_grad, masked", &op, 3, 1, bound,
                 (struct tensor_type[]){y, w, x, x});
    op.kind = OP_linear_weight_grad;
    parity_plain(t, "linear_weight_grad, no bias", &op, 2, 1, bound,
                 (struct tensor_type[]){y, x, gw});
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        op.accumulate = accumulate;
        parity_plain(t, accumulate ? "linear_weight_grad, added" : "linear_weight_grad", &op, 2, 2,
                     bound, (struct tensor_type[]){y, x, gw, gb});
    }
}

void parity_linear(struct tally *t)
{
    /* small ones, odd ones that no vector fits, a head, and layers that epilogues are for */
    static const struct layer layers[] = {{20, 10, 5},      {1, 1, 1},        {33, 127, 65},
                                          {256, 512, 1000}, {1000, 784, 256}, {4097, 64, 10}};
    for (int i = 0; i < (int)(sizeof layers / sizeof *layers); i++) {
        struct op op = {.compute = t->real};
        forward(t, &layers[i], op, 1e-5);
        backward(t, &layers[i], op, 1e-5);
        if (t->real != DTYPE_F32)
            continue;
        op.compute = DTYPE_TF32;
        forward(t, &layers[i], op, 2e-3);
        backward(t, &layers[i], op, 2e-3);
    }
}

/* The gradient alone, the loss alone, and both in one: into the last of three slots where they are
 * added, else the only one is written. */
static void mse(struct tally *t, struct op op, int64_t n, int64_t c)
{
    struct tensor_type x = real(t, 2, n, c, 0, 0), control = f32(1, 4, 0, 0, 0);
    struct tensor_type losses = f32(1, op.accumulate ? 3 : 1, 0, 0, 0);
    op.kind = OP_mse_loss;
    parity_plain(t, "mse_loss", &op, 3, 1, 1e-5, (struct tensor_type[]){x, x, control, losses});
    op.kind = OP_mse_loss_grad;
    parity_plain(t, "mse_loss_grad, loss", &op, 3, 2, 1e-5,
                 (struct tensor_type[]){x, x, control, x, losses});
    op.accumulate = false;
    parity_plain(t, "mse_loss_grad", &op, 2, 1, 1e-6, (struct tensor_type[]){x, x, x});
}

static void cross_entropy(struct tally *t, struct op op, int64_t n, int64_t c)
{
    struct tensor_type x = real(t, 2, n, c, 0, 0), target = i64(1, n), control = f32(1, 4, 0, 0, 0);
    struct tensor_type losses = f32(1, op.accumulate ? 3 : 1, 0, 0, 0);
    struct subject s = {.name = "cross_entropy",
                        .op = op,
                        .types = {x, target, control, losses},
                        .reads = 3,
                        .writes = 1,
                        .limit = {[1] = c},
                        .bound = 1e-5};
    s.op.kind = OP_cross_entropy;
    parity_compare(t, &s);
    s.name = "cross_entropy_grad, loss";
    s.op.kind = OP_cross_entropy_grad;
    s.writes = 2;
    s.types[3] = x;
    s.types[4] = losses;
    parity_compare(t, &s);
    s.name = "cross_entropy_grad";
    s.op.accumulate = false;
    s.reads = 2;
    s.writes = 1;
    s.types[2] = x;
    parity_compare(t, &s);
}

void parity_losses(struct tally *t)
{
    static const int64_t sizes[][2] = {{7, 5}, {128, 1000}, {20000, 10}};
    for (int i = 0; i < 3; i++)
        for (int sum = 0; sum < 2; sum++) {
            struct op op = {.compute = DTYPE_F32, .accumulate = sum};
            op.loss.weight = 0.25;
            op.loss.sum = sum;
            mse(t, op, sizes[i][0], sizes[i][1]);
            cross_entropy(t, op, sizes[i][0], sizes[i][1]);
        }
}
