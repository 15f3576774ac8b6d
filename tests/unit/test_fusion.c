/* Fused ops have the values of their parts, and fused plans the losses of the plain ones with fewer
 * launches; what an event or another reader stands between stays apart. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cpu/cpu.h"
#include "plan/check.h"
#include "plan/fuse.h"
#include "rehearse.h"
#include "tests/unit/plans.h"
#include "tests/unit/tensors.h"
#include "tests/unit/unit.h"

enum { N = 3, C = 2, PIXELS = 6, ELEMENTS = N * C * PIXELS };

static struct cpu_tensor picture(float *data)
{
    return (struct cpu_tensor){data, {DTYPE_F32, shape_of(4, (int64_t[]){N, C, 2, 3})}};
}

static struct cpu_tensor channel(float *data)
{
    return (struct cpu_tensor){data, {DTYPE_F32, shape_of(1, (int64_t[]){C})}};
}

static void spread(float *data, int count, unsigned seed)
{
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

#define RUN(op, reads, writes)                                                                     \
    CU_ASSERT_EQUAL(cpu_run(&(op), reads, (int)(sizeof(reads) / sizeof *(reads)), writes,          \
                            (int)(sizeof(writes) / sizeof *(writes))),                             \
                    RH_OK)

/* Everything that goes through a batch norm, a residual and relu, forth and back. */
struct values {
    float x[ELEMENTS], residual[ELEMENTS], gy[ELEMENTS], gamma[C], beta[C];
    float mean[C], var[C], save_mean[C], save_invstd[C];
    float y[ELEMENTS], masked[ELEMENTS], gx[ELEMENTS], ggamma[C], gbeta[C];
    int64_t count[1];
};

static void values_start(struct values *v)
{
    memset(v, 0, sizeof *v);
    spread(v->x, ELEMENTS, 1);
    spread(v->residual, ELEMENTS, 2);
    spread(v->gy, ELEMENTS, 3);
    spread(v->gamma, C, 4);
    spread(v->beta, C, 5);
    v->var[0] = v->var[1] = 1;
    v->ggamma[0] = v->gbeta[1] = 0.5f; /* to be added to */
}

static const struct tensor_type one_count = {.dtype = DTYPE_I64};

static void in_parts(struct values *v, bool residual)
{
    struct op norm = {.kind = OP_batch_norm2d,
                      .norm = {.epsilon = 1e-5, .momentum = 0.1, .training = true}};
    struct op add = {.kind = OP_add}, relu = {.kind = OP_relu}, back = {.kind = OP_relu_grad};
    struct op input = norm, weight = norm;
    float out[ELEMENTS];
    struct cpu_tensor count = {v->count, one_count};
    struct cpu_tensor reads[] = {picture(v->x),    channel(v->gamma), channel(v->beta),
                                 channel(v->mean), channel(v->var),   count};
    struct cpu_tensor writes[] = {picture(out),     channel(v->save_mean), channel(v->save_invstd),
                                  channel(v->mean), channel(v->var),       count};
    RUN(norm, reads, writes);
    struct cpu_tensor sum[] = {picture(out), picture(v->residual)}, to_out[] = {picture(out)};
    if (residual)
        RUN(add, sum, to_out);
    struct cpu_tensor to_y[] = {picture(v->y)};
    RUN(relu, to_out, to_y);
    struct cpu_tensor mask[] = {picture(v->gy), picture(v->y)}, masked[] = {picture(v->masked)};
    RUN(back, mask, masked);
    input.kind = OP_batch_norm2d_input_grad;
    weight.kind = OP_batch_norm2d_weight_grad;
    weight.accumulate = true;
    struct cpu_tensor for_input[] = {picture(v->masked), picture(v->x), channel(v->gamma),
                                     channel(v->save_mean), channel(v->save_invstd)};
    struct cpu_tensor for_weight[] = {picture(v->masked), picture(v->x), channel(v->save_mean),
                                      channel(v->save_invstd)};
    struct cpu_tensor gx[] = {picture(v->gx)}, gw[] = {channel(v->ggamma), channel(v->gbeta)};
    RUN(input, for_input, gx);
    RUN(weight, for_weight, gw);
}

static void at_once(struct values *v, bool residual)
{
    struct op norm = {.kind = OP_batch_norm2d,
                      .norm = {.epsilon = 1e-5, .momentum = 0.1, .training = true, .relu = true}};
    struct op back = norm;
    struct cpu_tensor count = {v->count, one_count};
    struct cpu_tensor reads[] = {picture(v->x),       channel(v->gamma), channel(v->beta),
                                 channel(v->mean),    channel(v->var),   count,
                                 picture(v->residual)};
    struct cpu_tensor writes[] = {picture(v->y),    channel(v->save_mean), channel(v->save_invstd),
                                  channel(v->mean), channel(v->var),       count};
    CU_ASSERT_EQUAL(cpu_run(&norm, reads, residual ? 7 : 6, writes, 6), RH_OK);
    back.kind = OP_batch_norm2d_grad;
    back.accumulate = true;
    struct cpu_tensor back_reads[] = {
        picture(v->gy),        picture(v->x),           channel(v->gamma), channel(v->beta),
        channel(v->save_mean), channel(v->save_invstd), picture(v->y)};
    struct cpu_tensor back_writes[] = {picture(v->gx), channel(v->ggamma), channel(v->gbeta),
                                       picture(v->masked)};
    CU_ASSERT_EQUAL(cpu_run(&back, back_reads, residual ? 7 : 6, back_writes, residual ? 4 : 3),
                    RH_OK);
}

static void equal_values(void)
{
    for (int residual = 0; residual < 2; residual++) {
        static struct values parts;
        static struct values whole;
        values_start(&parts);
        values_start(&whole);
        in_parts(&parts, residual);
        at_once(&whole, residual);
        CU_ASSERT_EQUAL(memcmp(parts.y, whole.y, sizeof parts.y), 0);
        CU_ASSERT_EQUAL(memcmp(parts.gx, whole.gx, sizeof parts.gx), 0);
        CU_ASSERT_EQUAL(memcmp(parts.ggamma, whole.ggamma, sizeof parts.ggamma), 0);
        CU_ASSERT_EQUAL(memcmp(parts.gbeta, whole.gbeta, sizeof parts.gbeta), 0);
        CU_ASSERT_EQUAL(memcmp(parts.var, whole.var, sizeof parts.var), 0);
        CU_ASSERT_EQUAL(parts.count[0], whole.count[0]);
        if (residual)
            CU_ASSERT_EQUAL(memcmp(parts.masked, whole.masked, sizeof parts.masked), 0);
        int zeros = 0; /* relu is seen to do something */
        for (int i = 0; i < ELEMENTS; i++)
            zeros += whole.y[i] == 0;
        CU_ASSERT_TRUE(zeros > 3 && zeros < ELEMENTS - 3);
    }
}

static void misuse(void)
{
    static struct values v;
    values_start(&v);
    struct op back = {.kind = OP_batch_norm2d_grad, .norm = {.training = true}};
    struct cpu_tensor reads[] = {picture(v.gy),   picture(v.x),         channel(v.gamma),
                                 channel(v.beta), channel(v.save_mean), channel(v.save_invstd),
                                 picture(v.y)};
    struct cpu_tensor writes[] = {picture(v.gx), channel(v.ggamma), channel(v.gbeta)};
    CU_ASSERT_EQUAL(cpu_run(&back, reads, 7, writes, 3), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "'y' and 'gresidual' go together");
    reads[3] = picture(v.x);
    CU_ASSERT_EQUAL(cpu_run(&back, reads, 6, writes, 3), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "beta");
}

static const char model[] =
    "{\"name\":\"norm\",\"input\":[2,8,8],\"layers\":["
    "{\"name\":\"c0\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n0\",\"op\":\"batch_norm2d\"},{\"name\":\"r0\",\"op\":\"relu\"},"
    "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n1\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"d\",\"op\":\"conv2d\",\"out\":4,\"kernel\":1,\"input\":\"r0\"},"
    "{\"name\":\"nd\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"n1\",\"nd\"]},{\"name\":\"r1\",\"op\":\"relu\"},"
    "{\"name\":\"c2\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n2\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"t\",\"op\":\"add\",\"inputs\":[\"n2\",\"r1\"]},{\"name\":\"r2\",\"op\":\"relu\"},"
    "{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1},{\"name\":\"f\",\"op\":\"flatten\"},"
    "{\"name\":\"fc\",\"op\":\"linear\",\"out\":5}]}";

enum { STEPS = 4 };

static bool losses_of(const char *train, const char *rest, double losses[STEPS])
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    char *text = text_format(
        "{\"name\":\"fusion\",\"model\":%s,\"data\":{\"batch\":24,\"seed\":7},\"train\":{"
        "\"optimizer\":{\"type\":\"sgd\",\"lr\":0.05,\"momentum\":0.9},\"steps\":%d%s},%s,"
        "\"cluster\":\"dgx-1v\",\"backend\":\"reference\"}",
        model, STEPS, train, rest);
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

static void same_losses(void)
{
    static const char *const ways[] = {
        "\"devices\":1,\"strategy\":\"single\"",
        "\"devices\":3,\"strategy\":\"data_parallel\"",
        "\"devices\":2,\"strategy\":\"ddp\"",
        "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"n1\"]}",
        "\"devices\":2,\"strategy\":{\"type\":\"model_parallel\",\"split_at\":[\"r1\"]}",
        "\"devices\":2,\"strategy\":{\"type\":\"pipeline\",\"schedule\":\"1f1b\",\"microbatches\":"
        "4}",
    };
    static const char *const trains[] = {"", ",\"accumulate\":2",
                                         ",\"memory_format\":\"channels_last\""};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t t = 0; t < sizeof trains / sizeof *trains; t++) {
            double plain[STEPS];
            double fused[STEPS];
            char *with = text_format("%s,\"fusion\":true", trains[t]);
            bool ran = losses_of(trains[t], ways[w], plain) && losses_of(with, ways[w], fused);
            CU_ASSERT_TRUE(ran);
            for (int k = 0; ran && k < STEPS; k++)
                UNIT_ASSERT_NEAR(fused[k], plain[k], 2e-6);
            free(with);
        }
}

/* batch_norm2d and relu on one stream, with what the caller puts between and behind them. */
enum between { NOTHING, RECORD, READER };

static int fused_away(enum between what)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    int stream = 0;
    struct tensor_type wide = {DTYPE_F32, shape_of(4, (int64_t[]){2, 3, 4, 4})};
    struct tensor_type narrow = {DTYPE_F32, shape_of(1, (int64_t[]){3})};
    struct view views[10];
    for (int i = 0; i < 10; i++) {
        bool passing = i == 6; /* what batch norm hands to relu */
        struct buffer buffer = {.name = "b",
                                .type = i == 5            ? one_count
                                        : i == 0 || i > 5 ? wide
                                                          : narrow,
                                .lifetime = passing ? LIFETIME_TRANSIENT : LIFETIME_PERSISTENT,
                                .list = passing ? 0 : -1};
        views[i] = view_of(&plan->roles[0], role_add_buffer(plan, 0, buffer));
    }
    struct op norm = {.kind = OP_batch_norm2d, .norm = {.epsilon = 1e-5}};
    struct op relu = {.kind = OP_relu};
    write_compute(&w, stream, "norm", &norm, views, 6, &views[6], 1);
    if (what == RECORD)
        write_record(&w, stream, role_add_event(plan, 0, "e"));
    write_compute(&w, stream, "relu", &relu, &views[6], 1, &views[7], 1);
    if (what == READER)
        write_compute(&w, stream, "relu", &relu, &views[6], 1, &views[8], 1);
    int removed = plan_fuse(plan);
    CU_ASSERT_EQUAL(plan_check(plan), RH_OK);
    const struct list *list = &plan->roles[0].lists[0];
    if (what == NOTHING) {
        CU_ASSERT_EQUAL(list->count, 1);
        CU_ASSERT_STRING_EQUAL(list->instructions[0].name, "norm");
        CU_ASSERT_TRUE(list->instructions[0].compute.op.norm.relu);
    }
    plan_free(plan);
    return removed;
}

static void what_stays_apart(void)
{
    CU_ASSERT_EQUAL(fused_away(NOTHING), 1);
    CU_ASSERT_EQUAL(fused_away(RECORD), 0);
    CU_ASSERT_EQUAL(fused_away(READER), 0);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"equal values", equal_values, NULL},
        {"misuse", misuse, NULL},
        {"same losses", same_losses, NULL},
        {"what stays apart", what_stays_apart, NULL},
    };
    return UNIT_MAIN("fusion", tests);
}
