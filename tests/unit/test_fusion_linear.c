/* Linear layers fused with relu, both ways, and losses with their gradients: the bits of their
 * parts, the losses of the plain plans in every strategy; what stays apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "op/convert.h"
#include "plan/check.h"
#include "plan/fuse.h"
#include "rehearse.h"
#include "tests/unit/plans.h"
#include "tests/unit/tensors.h"
#include "tests/unit/unit.h"

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
enum { TYPES = sizeof types / sizeof *types, N = 7, IN = 9, OUT = 6 };

static struct cpu_tensor spread(enum dtype dtype, struct shape shape, int seed)
{
    struct cpu_tensor wide = tensor_spread(shape, seed);
    struct cpu_tensor tensor = tensor_new(type_of(dtype, shape));
    convert_from_f32(dtype, wide.data, tensor.data, shape_elements(&shape));
    free(wide.data);
    return tensor;
}

static void run(struct op op, const struct cpu_tensor *reads, int read_count,
                const struct cpu_tensor *writes, int write_count)
{
    enum rh_status status = cpu_run(&op, reads, read_count, writes, write_count);
    if (status != RH_OK)
        fprintf(stderr, "    %s\n", rh_error());
    CU_ASSERT_EQUAL(status, RH_OK);
}

static bool same(const struct cpu_tensor *a, const struct cpu_tensor *b)
{
    return !memcmp(a->data, b->data, type_bytes(&a->type));
}

static void free_all(struct cpu_tensor *tensors, int count)
{
    for (int i = 0; i < count; i++)
        free(tensors[i].data);
}

/* How many of the elements are nothing. */
static int zeros(const struct cpu_tensor *t)
{
    size_t size = dtype_bytes(t->type.dtype);
    int count = 0;
    for (int64_t i = 0; i < shape_elements(&t->type.shape); i++)
        count += !memcmp((char *)t->data + (size_t)i * size, "\0\0\0", size);
    return count;
}

static void linear_and_relu(void)
{
    for (int t = 0; t < TYPES; t++)
        for (int bias = 0; bias < 2; bias++) {
            struct cpu_tensor reads[] = {spread(types[t], SHAPE(N, IN), 1),
                                         spread(types[t], SHAPE(OUT, IN), 2),
                                         spread(types[t], SHAPE(OUT), 3)};
            struct tensor_type type = type_of(types[t], SHAPE(N, OUT));
            struct cpu_tensor y[] = {tensor_new(type), tensor_new(type), tensor_new(type)};
            struct op whole = op_of(OP_linear);
            run(op_of(OP_linear), reads, 2 + bias, &y[0], 1);
            run(op_of(OP_relu), &y[0], 1, &y[1], 1);
            whole.linear.relu = true;
            run(whole, reads, 2 + bias, &y[2], 1);
            CU_ASSERT_TRUE(same(&y[1], &y[2]));
            CU_ASSERT_TRUE(!same(&y[0], &y[2]));
            free_all(reads, 3);
            free_all(y, 3);
        }
}

static void input_gradient_and_mask(void)
{
    for (int t = 0; t < TYPES; t++) {
        struct cpu_tensor reads[] = {spread(types[t], SHAPE(N, OUT), 1),
                                     spread(types[t], SHAPE(OUT, IN), 2),
                                     spread(types[t], SHAPE(N, IN), 3)};
        struct tensor_type type = type_of(types[t], SHAPE(N, IN));
        struct cpu_tensor gx[] = {tensor_new(type), tensor_new(type), tensor_new(type)};
        run(op_of(OP_relu), &reads[2], 1, &reads[2], 1);
        run(op_of(OP_linear_input_grad), reads, 2, &gx[0], 1);
        const struct cpu_tensor masked[] = {gx[0], reads[2]};
        run(op_of(OP_relu_grad), masked, 2, &gx[1], 1);
        run(op_of(OP_linear_input_grad), reads, 3, &gx[2], 1);
        CU_ASSERT_TRUE(same(&gx[1], &gx[2]));
        int masks = zeros(&gx[2]);
        CU_ASSERT_TRUE(masks > N && masks < N * IN - N);
        free_all(reads, 3);
        free_all(gx, 3);
    }
}

/* Into the second of three slots, with another weight than 1; one sample of cross entropy is not
 * counted. A scale is the gradient's alone. */
static void loss_and_gradient(void)
{
    float control_values[CONTROL_ELEMENTS] = {[CONTROL_LOSS_SLOT] = 1};
    int64_t labels[N] = {0, 5, -100, 3, 1, 1, 4};
    float scales[SCALER_ELEMENTS] = {[SCALER_SCALE] = 3};
    struct cpu_tensor control = VECTOR(control_values), target = INTEGERS(labels);
    for (int t = 0; t < TYPES; t++)
        for (int kind = 0; kind < 16; kind++) {
            bool mse = kind & 1, scaled = kind & 8;
            float slots[2][3] = {{1, 2, 3}, {1, 2, 3}};
            struct cpu_tensor x = spread(types[t], SHAPE(N, OUT), 1);
            struct cpu_tensor other = spread(types[t], SHAPE(N, OUT), 2);
            struct cpu_tensor losses[] = {VECTOR(slots[0]), VECTOR(slots[1])};
            struct cpu_tensor gx[] = {tensor_new(x.type), tensor_new(x.type)};
            const struct cpu_tensor scaler = VECTOR(scales);
            const struct cpu_tensor reads[] = {x, mse ? other : target, control, scaler};
            const struct cpu_tensor alone[] = {x, mse ? other : target, scaler};
            const struct cpu_tensor writes[] = {gx[1], losses[1]};
            struct op loss = op_of(mse ? OP_mse_loss : OP_cross_entropy);
            loss.loss.weight = 0.25;
            loss.loss.sum = kind & 2;
            struct op gradient = loss;
            gradient.kind = mse ? OP_mse_loss_grad : OP_cross_entropy_grad;
            loss.accumulate = kind & 4;
            run(loss, reads, 3, &losses[0], 1);
            gradient.scaled = scaled;
            run(gradient, alone, scaled ? 3 : 2, &gx[0], 1);
            gradient.accumulate = loss.accumulate;
            run(gradient, reads, scaled ? 4 : 3, writes, 2);
            CU_ASSERT_TRUE(same(&gx[0], &gx[1]));
            CU_ASSERT_TRUE(same(&losses[0], &losses[1]));
            CU_ASSERT_EQUAL(slots[1][2], 3);
            CU_ASSERT_NOT_EQUAL(slots[1][1], 2);
            gradient.scaled = false;
            run(gradient, reads, 3, writes, 2);
            CU_ASSERT_EQUAL(same(&gx[0], &gx[1]), !scaled);
            free(x.data);
            free(other.data);
            free_all(gx, 2);
        }
}

enum { STEPS = 4 };

static bool losses_of(const char *train, const char *rest, double losses[STEPS])
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    char *text = text_format(
        "{\"name\":\"fusion\",\"model\":{\"name\":\"mlp\",\"sizes\":[7,12,9,5]},"
        "\"data\":{\"batch\":24,\"seed\":7},\"train\":{\"optimizer\":{\"type\":\"sgd\",\"lr\":0.05,"
        "\"momentum\":0.9},\"steps\":%d%s},%s,\"cluster\":\"hgx-h200\",\"backend\":\"reference\"}",
        STEPS, train, rest);
    bool fine = rh_experiment_open(text, &experiment) == RH_OK &&
                rh_experiment_run(experiment, RH_NUMBERS, &result) == RH_OK;
    if (!fine)
        fprintf(stderr, "    %s %s: %s\n", train, rest, rh_error());
    for (int i = 0; fine && i < STEPS; i++)
        losses[i] = rh_result_loss(result, i);
    rh_result_free(result);
    rh_experiment_close(experiment);
    free(text);
    return fine;
}

/* To the last bit: nothing is rounded less often here. */
static void same_losses(void)
{
    static const char *const ways[] = {
        "\"devices\":1,\"strategy\":\"single\"",
        "\"devices\":3,\"strategy\":\"data_parallel\"",
        "\"devices\":2,\"strategy\":\"ddp\"",
        "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"relu1\"]}",
        "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"fc2\"]}",
        "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"1f1b\",\"microbatches\":"
        "4}",
    };
    static const char *const trains[] = {"", ",\"accumulate\":2", ",\"loss\":\"cross_entropy\"",
                                         ",\"loss\":\"cross_entropy\",\"precision\":\"bf16\"",
                                         ",\"precision\":\"fp16\""};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t t = 0; t < sizeof trains / sizeof *trains; t++) {
            double plain[STEPS];
            double fused[STEPS];
            char *with = text_format("%s,\"fusion\":true", trains[t]);
            bool ran = losses_of(trains[t], ways[w], plain) && losses_of(with, ways[w], fused);
            CU_ASSERT_TRUE(ran);
            CU_ASSERT_TRUE(ran && !memcmp(plain, fused, sizeof plain));
            free(with);
        }
}

/* A linear layer, its relu and, backwards, the mask: x, w, linear's, relu's, gy, gx, masked. */
enum operands { X, W, LINEAR, Y, GY, GX, MASKED, OPERANDS };

enum between { NOTHING, RECORD, READER, WRITER, ELSEWHERE };

static struct view square(struct plan *plan, bool passing)
{
    struct tensor_type type = F32(4, 4);
    return view_of(&plan->roles[0],
                   role_add_buffer(plan, 0,
                                   (struct buffer){.name = "b",
                                                   .type = type,
                                                   .purpose = PURPOSE_ACTIVATIONS,
                                                   .lifetime = passing ? LIFETIME_TRANSIENT
                                                                       : LIFETIME_PERSISTENT,
                                                   .list = passing ? 0 : -1}));
}

static void between(struct writer *w, enum between what, struct view handed)
{
    if (what == RECORD)
        write_record(w, 0, role_add_event(w->plan, 0, "e"));
    if (what == READER)
        plans_relu(w, 0, "reader", handed, square(w->plan, true));
}

/* Instructions that went away: of the forward pair, and of the backward one. */
static int forward_fused(enum between what)
{
    struct plan *plan = plans_new(1, 2);
    struct writer w = plans_writer(plan, 0);
    struct view v[OPERANDS];
    for (int i = 0; i < OPERANDS; i++)
        v[i] = square(plan, i == LINEAR || i == Y);
    struct op linear = op_of(OP_linear);
    write_compute(&w, 0, "linear", &linear, v, 2, &v[LINEAR], 1);
    between(&w, what, v[LINEAR]);
    if (what == ELSEWHERE)
        write_join(&w, 0, 1, "e");
    plans_relu(&w, what == ELSEWHERE, "relu", v[LINEAR], v[Y]);
    int removed = plan_fuse(plan);
    CU_ASSERT_EQUAL(plan_check(plan), RH_OK);
    if (removed) {
        const struct list *list = &plan->roles[0].lists[0];
        CU_ASSERT_TRUE(list->instructions[0].compute.op.linear.relu);
        CU_ASSERT_STRING_EQUAL(list->instructions[0].name, "linear");
    }
    plan_free(plan);
    return removed;
}

static int backward_fused(enum between what)
{
    struct plan *plan = plans_new(1, 2);
    struct writer w = plans_writer(plan, 0);
    struct view v[OPERANDS];
    for (int i = 0; i < OPERANDS; i++)
        v[i] = square(plan, i >= LINEAR && i != GY);
    struct op input = op_of(OP_linear_input_grad), mask = op_of(OP_relu_grad);
    plans_relu(&w, 0, "relu", v[X], v[Y]);
    const struct view reads[] = {v[GY], v[W]}, masks[] = {v[GX], v[Y]};
    write_compute(&w, 0, "input", &input, reads, 2, &v[GX], 1);
    between(&w, what, v[GX]);
    if (what == WRITER)
        plans_relu(&w, 0, "writer", v[X], v[Y]);
    if (what == ELSEWHERE)
        write_join(&w, 0, 1, "e");
    write_compute(&w, what == ELSEWHERE, "relu", &mask, masks, 2, &v[MASKED], 1);
    int removed = plan_fuse(plan);
    CU_ASSERT_EQUAL(plan_check(plan), RH_OK);
    plan_free(plan);
    return removed;
}

/* A loss and its scaled gradient, with a writer of the scaler between them or not. */
static int loss_fused(bool changed)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    struct view x = square(plan, false), target = square(plan, false), gx = square(plan, true);
    struct tensor_type vectors[] = {F32(CONTROL_ELEMENTS), F32(SCALER_ELEMENTS), F32(3)};
    struct view v[3];
    for (int i = 0; i < 3; i++)
        v[i] = view_of(&plan->roles[0],
                       role_add_buffer(plan, 0,
                                       (struct buffer){.name = "v",
                                                       .type = vectors[i],
                                                       .purpose = PURPOSE_INPUTS,
                                                       .lifetime = LIFETIME_PERSISTENT,
                                                       .list = -1}));
    struct op loss = op_of(OP_mse_loss), gradient = op_of(OP_mse_loss_grad);
    struct op zero = op_of(OP_zero);
    const struct view reads[] = {x, target, v[0]}, scaled[] = {x, target, v[1]};
    gradient.scaled = true;
    write_compute(&w, 0, "loss", &loss, reads, 3, &v[2], 1);
    if (changed)
        write_compute(&w, 0, "zero", &zero, NULL, 0, &v[1], 1);
    write_compute(&w, 0, "gradient", &gradient, scaled, 3, &gx, 1);
    int removed = plan_fuse(plan);
    CU_ASSERT_EQUAL(plan_check(plan), RH_OK);
    const struct instruction *first = &plan->roles[0].lists[0].instructions[0];
    CU_ASSERT_EQUAL(first->compute.read_count, removed ? 4 : 3);
    CU_ASSERT_EQUAL(first->compute.op.scaled, removed == 1);
    plan_free(plan);
    return removed;
}

static void what_stays_apart(void)
{
    CU_ASSERT_EQUAL(loss_fused(false), 1);
    CU_ASSERT_EQUAL(loss_fused(true), 0);
    CU_ASSERT_EQUAL(forward_fused(NOTHING), 1);
    CU_ASSERT_EQUAL(forward_fused(RECORD), 0);
    CU_ASSERT_EQUAL(forward_fused(READER), 0);
    CU_ASSERT_EQUAL(forward_fused(ELSEWHERE), 0);
    CU_ASSERT_EQUAL(backward_fused(NOTHING), 1);
    CU_ASSERT_EQUAL(backward_fused(RECORD), 1); /* older operands: as with DDP's buckets */
    CU_ASSERT_EQUAL(backward_fused(READER), 0);
    CU_ASSERT_EQUAL(backward_fused(WRITER), 0);
    CU_ASSERT_EQUAL(backward_fused(ELSEWHERE), 0);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"linear and relu", linear_and_relu, NULL},
        {"input gradient and mask", input_gradient_and_mask, NULL},
        {"loss and gradient", loss_and_gradient, NULL},
        {"same losses", same_losses, NULL},
        {"what stays apart", what_stays_apart, NULL},
    };
    return UNIT_MAIN("fusion of linear layers", tests);
}
