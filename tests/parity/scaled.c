/* What scales and clips gradients: the norm, the decision, and the ops that heed it. */
#include "parity/parity.h"

static struct tensor_type f32(int rank, int64_t a, int64_t b)
{
    int64_t dims[2] = {a, b};
    return (struct tensor_type){DTYPE_F32, shape_of(rank, dims)};
}

static void optimizers(struct tally *t, int64_t n, bool skip)
{
    struct tensor_type p = f32(1, n, 0), control = f32(1, CONTROL_ELEMENTS, 0);
    struct tensor_type scaler = f32(1, SCALER_ELEMENTS, 0), count = {.dtype = DTYPE_I64};
    struct op op = {.kind = OP_sgd, .compute = DTYPE_F32, .scaled = true};
    op.sgd.momentum = 0.9;
    parity_compare(t, &(struct subject){.name = skip ? "sgd, skipped" : "sgd, scaled",
                                        .op = op,
                                        .types = {control, count, scaler, p, p, p, count, p, p},
                                        .reads = 6,
                                        .writes = 3,
                                        .in_place = {2, 4, 6},
                                        .limit = {[1] = 3},
                                        .skip = skip,
                                        .bound = 1e-5});
    op = (struct op){.kind = OP_adamw, .compute = DTYPE_F32, .scaled = true};
    op.adam.beta1 = 0.9;
    op.adam.beta2 = 0.999;
    op.adam.epsilon = 1e-8;
    parity_compare(t,
                   &(struct subject){.name = skip ? "adamw, skipped" : "adamw, scaled",
                                     .op = op,
                                     .types = {control, count, scaler, p, p, p, p, count, p, p, p},
                                     .reads = 7,
                                     .writes = 4,
                                     .in_place = {2, 4, 6, 7},
                                     .positive = {[6] = true},
                                     .limit = {[1] = 3},
                                     .skip = skip,
                                     .bound = 2e-5});
}

static void loss_gradients(struct tally *t, int64_t n, int64_t c)
{
    struct tensor_type x = f32(2, n, c), target = {DTYPE_I64, shape_of(1, &n)};
    struct tensor_type scaler = f32(1, SCALER_ELEMENTS, 0);
    struct op op = {.kind = OP_mse_loss_grad, .compute = DTYPE_F32, .loss = {.weight = 0.5}};
    x.dtype = t->real;
    parity_plain(t, "mse_loss_grad, scaled", &op, 3, 1, 1e-6,
                 (struct tensor_type[]){x, x, scaler, x});
    op.kind = OP_cross_entropy_grad;
    parity_compare(t, &(struct subject){.name = "cross_entropy_grad, scaled",
                                        .op = op,
                                        .types = {x, target, scaler, x},
                                        .reads = 3,
                                        .writes = 1,
                                        .limit = {[1] = c},
                                        .bound = 1e-5});
}

void parity_scaled(struct tally *t, int64_t n)
{
    struct tensor_type g = f32(1, n, 0), h = f32(2, 3, n), norm = f32(1, NORM_ELEMENTS, 0);
    struct tensor_type norms = f32(2, 3, NORM_ELEMENTS), scaler = f32(1, SCALER_ELEMENTS, 0);
    struct op op = {.kind = OP_grad_norm, .compute = DTYPE_F32};
    loss_gradients(t, 9, 5);
    loss_gradients(t, 64, 1000);
    optimizers(t, n, false);
    optimizers(t, n, true);
    parity_plain(t, "grad_norm", &op, 3, 1, 1e-5, (struct tensor_type[]){g, h, g, norm});
    for (int skip = 0; skip < 2; skip++) {
        op = (struct op){
            .kind = OP_grad_scaler, .compute = DTYPE_F32, .scaler = {0.5, skip, 2, 0.5, 2}};
        parity_compare(t, &(struct subject){.name = skip ? "grad_scaler, skipping" : "grad_scaler",
                                            .op = op,
                                            .types = {norms, scaler, scaler},
                                            .reads = 2,
                                            .writes = 1,
                                            .in_place = {2},
                                            .positive = {true, true},
                                            .bound = 1e-6});
    }
}
