/* The numbers of plans made by hand, on the host: every expected value can be worked out on paper.
 */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/reference/numbers.h"
#include "base/status.h"
#include "op/convert.h"
#include "plan/check.h"
#include "plan/placement.h"

/* One role over `workers` on axis "dp", one stream a device, one list; group 0 is dp, 1 local. */
struct bench {
    struct plan *plan;
    struct writer w;
    struct numbers *numbers;
    int group, local;
};

static struct bench bench_new(int workers, int gpus)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {workers}};
    struct bench b = {.plan = plan_new("bench", &mesh, -1)};
    b.group = plan_add_group(b.plan, "dp", 1, 0, NULL);
    b.local = plan_add_group(b.plan, "local", 0, 0, NULL);
    role_init(b.plan, 0, "worker", gpus);
    for (int d = 0; d < gpus; d++)
        role_add_stream(b.plan, 0, "compute", d);
    b.w = (struct writer){b.plan, 0, role_add_list(b.plan, 0, "list"), WORK_OTHER, -1};
    return b;
}

static int add(struct bench *b, int device, enum dtype dtype, enum buffer_use use,
               struct shape shape)
{
    struct buffer buffer = {.name = "buffer",
                            .device = device,
                            .type = {dtype, shape},
                            .purpose = PURPOSE_COMMUNICATION,
                            .use = use,
                            .list = -1,
                            .index = -1};
    return role_add_buffer(b->plan, 0, buffer);
}

static struct shape vector(int64_t elements)
{
    return shape_of(1, &elements);
}

static struct shape matrix(int64_t rows, int64_t columns)
{
    return shape_of(2, (int64_t[]){rows, columns});
}

static struct view whole(const struct bench *b, int buffer)
{
    return view_of(&b->plan->roles[0], buffer);
}

static void must(enum rh_status status)
{
    if (status != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_EQUAL(status, RH_OK);
}

static void refused(enum rh_status status, const char *part, const char *other)
{
    CU_ASSERT_EQUAL(status, RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), part);
    UNIT_ASSERT_CONTAINS(fail_message(), other);
}

static enum rh_status make(struct bench *b)
{
    struct backend_options options = {.numbers = true};
    return numbers_new(&options, b->plan, &b->numbers);
}

static void load(struct bench *b)
{
    must(plan_check(b->plan));
    must(make(b));
    CU_ASSERT_PTR_NOT_NULL_FATAL(b->numbers);
}

static const struct run_entry once[] = {{0, 1, true}};

static enum rh_status run(struct bench *b)
{
    struct run_order order = {once, 1, 0, 1};
    double loss;
    return numbers_run(b->numbers, &order, NULL, &loss);
}

static void bench_free(struct bench *b)
{
    if (b->numbers)
        numbers_free(b->numbers);
    plan_free(b->plan);
}

static void put(struct bench *b, int worker, int buffer, const float *values, int count)
{
    must(numbers_write(b->numbers, worker, buffer, values, (size_t)count * sizeof *values));
}

static void expect(struct bench *b, int worker, int buffer, const float *values, int count)
{
    float got[64];
    must(numbers_read(b->numbers, worker, buffer, got, (size_t)count * sizeof *got));
    for (int i = 0; i < count; i++) {
        if (got[i] != values[i])
            fprintf(stderr, "    worker %d, element %d: %g, not %g\n", worker, i, (double)got[i],
                    (double)values[i]);
        CU_ASSERT_EQUAL(got[i], values[i]);
    }
}

#define PUT(b, worker, buffer, ...)                                                                \
    put(b, worker, buffer, (float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float))
#define EXPECT(b, worker, buffer, ...)                                                             \
    expect(b, worker, buffer, (float[]){__VA_ARGS__},                                              \
           sizeof((float[]){__VA_ARGS__}) / sizeof(float))

/* One collective over dp, a part a worker. */
static void over_workers(struct bench *b, enum collective_kind kind, enum reduce_op reduce,
                         int root, int from, int to)
{
    struct view send = whole(b, from), receive = whole(b, to);
    struct collect_part part = {0, &send, &receive};
    write_collect(&b->w, "meeting", kind, reduce, b->group, root, 0, &part, 1);
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* Worker w gives (w + 1) (i + 1): the sum is n (n + 1) / 2 (i + 1), exact in fp32. */
static void all_reduce(void)
{
    for (int workers = 1; workers <= 8; workers++) {
        struct bench b = bench_new(workers, 1);
        int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(5));
        over_workers(&b, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, x, x);
        load(&b);
        for (int w = 0; w < workers; w++) {
            float s = (float)w + 1;
            PUT(&b, w, x, s, 2 * s, 3 * s, 4 * s, 5 * s);
        }
        must(run(&b));
        float sum = (float)(workers * (workers + 1) / 2);
        for (int w = 0; w < workers; w++)
            EXPECT(&b, w, x, sum, 2 * sum, 3 * sum, 4 * sum, 5 * sum);
        bench_free(&b);
    }
}

/* In rank order: 2^24 + 1 + 1 loses both ones in fp32, 1 + 1 + 2^24 neither. */
static void sums_go_in_rank_order(void)
{
    static const float big = 16777216, in[2][3] = {{16777216, 1, 1}, {1, 1, 16777216}};
    for (int first = 0; first < 2; first++) {
        struct bench b = bench_new(3, 1);
        int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(1));
        over_workers(&b, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, x, x);
        load(&b);
        for (int w = 0; w < 3; w++)
            put(&b, w, x, &in[first][w], 1);
        must(run(&b));
        EXPECT(&b, 1, x, first ? big + 2 : big);
        bench_free(&b);
    }
}

static void largest_and_smallest(void)
{
    struct bench b = bench_new(3, 1);
    int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    int most = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    int least = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    over_workers(&b, COLLECTIVE_ALL_REDUCE, REDUCE_MAX, 0, x, most);
    over_workers(&b, COLLECTIVE_ALL_REDUCE, REDUCE_MIN, 0, x, least);
    load(&b);
    PUT(&b, 0, x, 1, -1);
    PUT(&b, 1, x, 3, -3);
    PUT(&b, 2, x, 2, -2);
    must(run(&b));
    EXPECT(&b, 2, most, 3, -1);
    EXPECT(&b, 0, least, 1, -3);
    bench_free(&b);
}

/* Beyond what a double can tell apart. */
static void sums_of_integers(void)
{
    struct bench b = bench_new(2, 1);
    int x = add(&b, 0, DTYPE_I64, USE_NONE, vector(1));
    int64_t big = INT64_C(9007199254740992), one = 1, got = 0;
    over_workers(&b, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, x, x);
    load(&b);
    must(numbers_write(b.numbers, 0, x, &big, sizeof big));
    must(numbers_write(b.numbers, 1, x, &one, sizeof one));
    must(run(&b));
    must(numbers_read(b.numbers, 1, x, &got, sizeof got));
    CU_ASSERT_EQUAL(got, big + 1);
    bench_free(&b);
}

static void reduce_onto_a_root(void)
{
    struct bench b = bench_new(3, 1);
    int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    int y = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    over_workers(&b, COLLECTIVE_REDUCE, REDUCE_SUM, 1, x, y);
    load(&b);
    for (int w = 0; w < 3; w++)
        PUT(&b, w, x, (float)w, 10);
    must(run(&b));
    EXPECT(&b, 1, y, 3, 30);
    EXPECT(&b, 0, y, 0, 0);
    EXPECT(&b, 2, y, 0, 0);
    bench_free(&b);
}

static void gather_and_scatter(void)
{
    struct bench b = bench_new(2, 1);
    int mine = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    int all = add(&b, 0, DTYPE_F32, USE_NONE, vector(4));
    int piece = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    over_workers(&b, COLLECTIVE_ALL_GATHER, REDUCE_SUM, 0, mine, all);
    over_workers(&b, COLLECTIVE_REDUCE_SCATTER, REDUCE_SUM, 0, all, piece);
    load(&b);
    PUT(&b, 0, mine, 1, 2);
    PUT(&b, 1, mine, 3, 4);
    must(run(&b));
    for (int w = 0; w < 2; w++)
        EXPECT(&b, w, all, 1, 2, 3, 4);
    EXPECT(&b, 0, piece, 2, 4);
    EXPECT(&b, 1, piece, 6, 8);
    bench_free(&b);
}

/* Worker w's piece k becomes worker k's piece w; also where it lies in place. */
static void all_to_all(void)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct bench b = bench_new(3, 1);
        int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(3));
        int y = in_place ? x : add(&b, 0, DTYPE_F32, USE_NONE, vector(3));
        over_workers(&b, COLLECTIVE_ALL_TO_ALL, REDUCE_SUM, 0, x, y);
        load(&b);
        for (int w = 0; w < 3; w++)
            PUT(&b, w, x, (float)(10 * w), (float)(10 * w + 1), (float)(10 * w + 2));
        must(run(&b));
        for (int w = 0; w < 3; w++)
            EXPECT(&b, w, y, (float)w, (float)(10 + w), (float)(20 + w));
        bench_free(&b);
    }
}

/* One worker, three devices: DataParallel's broadcast, from a device that is not the first. */
static void broadcast_between_local_devices(void)
{
    struct bench b = bench_new(1, 3);
    int x[3];
    struct view views[3];
    struct collect_part parts[3];
    for (int d = 0; d < 3; d++) {
        x[d] = add(&b, d, DTYPE_F32, USE_NONE, vector(3));
        views[d] = whole(&b, x[d]);
        parts[d] = (struct collect_part){d, d == 1 ? &views[d] : NULL, d == 1 ? NULL : &views[d]};
    }
    write_collect(&b.w, "replicas", COLLECTIVE_BROADCAST, REDUCE_SUM, b.local, 0, 1, parts, 3);
    load(&b);
    PUT(&b, 0, x[1], 7, 8, 9);
    must(run(&b));
    for (int d = 0; d < 3; d++)
        EXPECT(&b, 0, x[d], 7, 8, 9);
    bench_free(&b);
}

/* ---- copies and messages --------------------------------------------------------------------- */

/* Columns of one matrix into rows of a turned one, on another device; the rest stays. */
static void strided_copy(void)
{
    struct bench b = bench_new(1, 2);
    int x = add(&b, 0, DTYPE_F32, USE_NONE, matrix(2, 3));
    int y = add(&b, 1, DTYPE_F32, USE_NONE, matrix(2, 4));
    struct view from = view_narrow(whole(&b, x), 1, 1, 2); /* columns 1 and 2 */
    struct view to = view_narrow(whole(&b, y), 1, 0, 2);
    to.offset = sizeof(float); /* elements 1 and 3 of each row */
    to.stride[1] = 2;
    write_copy(&b.w, 0, "columns", from, to);
    load(&b);
    PUT(&b, 0, x, 1, 2, 3, 4, 5, 6);
    PUT(&b, 0, y, 10, 11, 12, 13, 14, 15, 16, 17);
    must(run(&b));
    EXPECT(&b, 0, y, 10, 2, 12, 3, 14, 5, 16, 6);
    EXPECT(&b, 0, x, 1, 2, 3, 4, 5, 6);
    bench_free(&b);
}

static void computing_on_strided_views(void)
{
    struct bench b = bench_new(1, 1);
    int x = add(&b, 0, DTYPE_F32, USE_NONE, matrix(2, 3));
    int y = add(&b, 0, DTYPE_F32, USE_NONE, matrix(2, 3));
    struct view from = view_narrow(whole(&b, x), 1, 1, 1), to = view_narrow(whole(&b, y), 1, 2, 1);
    struct op relu = {.kind = OP_relu};
    write_compute(&b.w, 0, "relu", &relu, &from, 1, &to, 1);
    load(&b);
    PUT(&b, 0, x, 1, -2, 3, 4, 5, 6);
    PUT(&b, 0, y, 9, 9, 9, 9, 9, 9);
    must(run(&b));
    EXPECT(&b, 0, y, 9, 9, 0, 9, 9, 5);
    bench_free(&b);
}

/* Everyone gives to the right and gets from the left. */
static void a_ring_of_messages(void)
{
    for (int workers = 2; workers <= 5; workers++) {
        struct bench b = bench_new(workers, 1);
        int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(1));
        int y = add(&b, 0, DTYPE_F32, USE_NONE, vector(1));
        struct exchange_message both[2] = {{true, 0, {true, 1}, "right", whole(&b, x)},
                                           {false, 0, {true, -1}, "right", whole(&b, y)}};
        write_exchange(&b.w, "shift", b.group, both, 2);
        load(&b);
        for (int w = 0; w < workers; w++)
            PUT(&b, w, x, (float)(w + 1));
        must(run(&b));
        for (int w = 0; w < workers; w++)
            EXPECT(&b, w, y, (float)((w + workers - 1) % workers + 1));
        bench_free(&b);
    }
}

/* What nothing wrote is a NaN, in every list, although the one before wrote there. */
static void transient_bytes_are_poisoned(void)
{
    struct bench b = bench_new(1, 1);
    int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(2));
    int scratch = role_add_buffer(b.plan, 0,
                                  (struct buffer){.name = "scratch",
                                                  .type = {DTYPE_F32, vector(2)},
                                                  .purpose = PURPOSE_WORKSPACE,
                                                  .lifetime = LIFETIME_TRANSIENT});
    struct op zero = {.kind = OP_zero};
    struct view view = whole(&b, scratch);
    float got[2] = {0};
    write_copy(&b.w, 0, "read too early", view, whole(&b, x));
    write_compute(&b.w, 0, "zero", &zero, NULL, 0, &view, 1);
    must(plan_place(b.plan)); /* plan_check would refuse it */
    must(make(&b));
    for (int i = 0; i < 2; i++) {
        must(run(&b));
        must(numbers_read(b.numbers, 0, x, got, sizeof got));
        CU_ASSERT_TRUE(isnan(got[0]) && isnan(got[1]));
    }
    refused(numbers_read(b.numbers, 0, scratch, got, sizeof got), "scratch", "transient");
    bench_free(&b);
}

/* ---- training -------------------------------------------------------------------------------- */

struct fed {
    int calls, step[64], pass[64], worker[64];
};

/* x = 1 and 2 on the two workers; a target half below the first step's output, so that the first
 * gradient of the output is 1. */
static enum rh_status fill(void *context, int worker, int step, int pass,
                           const struct buffer *buffer, const int coordinate[MESH_MAX_AXES],
                           void *data)
{
    struct fed *fed = context;
    float *values = data;
    float x = (float)(coordinate[0] + 1);
    if (buffer->use == USE_INPUT) {
        values[0] = x;
        fed->step[fed->calls] = step;
        fed->pass[fed->calls] = pass;
        fed->worker[fed->calls++] = worker;
    } else if (buffer->use == USE_TARGET)
        values[0] = x - 0.5f;
    else
        memcpy(values, (float[CONTROL_ELEMENTS]){0.1f, (float)step}, 2 * sizeof *values);
    return RH_OK;
}

struct ddp {
    struct bench b;
    int x, target, control, weight, gradient, losses, count;
};

static void compute(struct ddp *d, const char *name, struct op op, const int *operands, int reads,
                    int writes)
{
    struct view views[8];
    for (int i = 0; i < reads + writes; i++)
        views[i] = whole(&d->b, operands[i]);
    write_compute(&d->b.w, 0, name, &op, views, reads, views + reads, writes);
}

/* y = w x, mean squared error, the gradient halved into a bucket and summed, SGD. */
static struct ddp ddp_new(int steps)
{
    struct ddp d = {.b = bench_new(2, 1)};
    struct bench *b = &d.b;
    d.x = add(b, 0, DTYPE_F32, USE_INPUT, matrix(1, 1));
    d.target = add(b, 0, DTYPE_F32, USE_TARGET, matrix(1, 1));
    d.control = add(b, 0, DTYPE_F32, USE_CONTROL, vector(CONTROL_ELEMENTS));
    d.weight = add(b, 0, DTYPE_F32, USE_PARAMETER, matrix(1, 1));
    d.gradient = add(b, 0, DTYPE_F32, USE_GRADIENT, matrix(1, 1));
    d.losses = add(b, 0, DTYPE_F32, USE_LOSSES, vector(steps));
    d.count = add(b, 0, DTYPE_I64, USE_OPTIMIZER, shape_of(0, NULL));
    int y = add(b, 0, DTYPE_F32, USE_NONE, matrix(1, 1));
    int gy = add(b, 0, DTYPE_F32, USE_NONE, matrix(1, 1));
    int bucket = add(b, 0, DTYPE_F32, USE_NONE, matrix(1, 1));
    struct op forward = {.kind = OP_linear}, backward = {.kind = OP_linear_weight_grad};
    struct op loss = {.kind = OP_mse_loss, .loss = {.weight = 1}};
    struct op loss_grad = {.kind = OP_mse_loss_grad, .loss = {.weight = 1}};
    struct op average = {.kind = OP_bucket_copy, .scale_add = {.alpha = 0.5}};
    struct op sgd = {.kind = OP_sgd};
    compute(&d, "forward", forward, (int[]){d.x, d.weight, y}, 2, 1);
    compute(&d, "loss", loss, (int[]){y, d.target, d.control, d.losses}, 3, 1);
    compute(&d, "loss gradient", loss_grad, (int[]){y, d.target, gy}, 2, 1);
    compute(&d, "backward", backward, (int[]){gy, d.x, d.gradient}, 2, 1);
    compute(&d, "into the bucket", average, (int[]){d.gradient, bucket}, 1, 1);
    over_workers(b, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, bucket, d.gradient);
    compute(&d, "sgd", sgd, (int[]){d.control, d.count, d.weight, d.gradient, d.count, d.weight}, 4,
            2);
    return d;
}

/* torch-semantics 12.8, D2 and D3: gradients 1 and 2 average to 1.5, w = 1 - 0.1 * 1.5. Then y =
 * 0.85 and 1.7 against 0.5 and 1.5: gradients 0.7 and 0.8, w = 0.85 - 0.075. */
static void distributed_data_parallel_by_hand(void)
{
    struct ddp d = ddp_new(2);
    struct run_order order = {once, 1, 0, 1};
    struct fed fed = {0};
    struct backend_feed feed = {&fed, fill};
    double losses[2] = {0};
    float got;
    load(&d.b);
    for (int w = 0; w < 2; w++)
        PUT(&d.b, w, d.weight, 1);
    must(numbers_run(d.b.numbers, &order, &feed, losses));
    UNIT_ASSERT_NEAR(losses[0], 0.25, 1e-7);
    for (int w = 0; w < 2; w++) {
        EXPECT(&d.b, w, d.gradient, 1.5f);
        must(numbers_read(d.b.numbers, w, d.weight, &got, sizeof got));
        UNIT_ASSERT_NEAR((double)got, 0.85, 1e-7);
        PUT(&d.b, w, d.weight, 1);
    }
    order.steps = 2;
    must(numbers_run(d.b.numbers, &order, &feed, losses));
    UNIT_ASSERT_NEAR(losses[0], 0.25, 1e-7);
    UNIT_ASSERT_NEAR(losses[1], (0.1225 + 0.04) / 2, 1e-6);
    for (int w = 0; w < 2; w++) {
        must(numbers_read(d.b.numbers, w, d.weight, &got, sizeof got));
        UNIT_ASSERT_NEAR((double)got, 0.775, 1e-6);
    }
    order.steps = 3;
    refused(numbers_run(d.b.numbers, &order, &feed, losses), "2 losses", "3 steps");
    bench_free(&d.b);
}

/* Passes count through the lists of a step, and start again with the next. */
static void passes_of_a_step(void)
{
    static const struct run_entry entries[] = {
        {1, 1, false}, {0, 1, true}, {1, 1, false}, {1, 2, false}, {0, 1, true}};
    static const int steps[] = {0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
    static const int passes[] = {0, 1, 0, 1, 2, 3, 0, 1, 2, 3};
    struct bench b = bench_new(2, 1);
    struct run_order order = {entries, 5, 2, 3};
    struct fed fed = {0};
    struct backend_feed feed = {&fed, fill};
    double losses[3];
    add(&b, 0, DTYPE_F32, USE_INPUT, matrix(1, 1));
    role_add_list(b.plan, 0, "accumulate");
    load(&b);
    must(numbers_run(b.numbers, &order, &feed, losses));
    CU_ASSERT_EQUAL(fed.calls, 20);
    for (int i = 0; i < 20 && fed.calls == 20; i++) {
        CU_ASSERT_EQUAL(fed.worker[i], i % 2);
        CU_ASSERT_EQUAL(fed.step[i], steps[i / 2]);
        CU_ASSERT_EQUAL(fed.pass[i], passes[i / 2]);
    }
    CU_ASSERT_TRUE(isnan(losses[0]) && isnan(losses[2]));
    bench_free(&b);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void other_types_are_refused(void)
{
    struct bench b = bench_new(2, 1);
    int x = add(&b, 0, DTYPE_I32, USE_NONE, vector(1000));
    over_workers(&b, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, x, x);
    must(plan_place(b.plan));
    must(make(&b));
    refused(run(&b), "meeting", "int32");
    bench_free(&b);
}

/* 2048 + 1 + 1 in fp16 is 2048: each sum is rounded, to even; inf comes through. */
static void halves_are_rounded_each_time(void)
{
    static const float given[3][3] = {{2048, 0.1F, 70000}, {1, 0.2F, 0}, {1, 0.3F, 0}};
    struct bench b = bench_new(3, 1);
    uint16_t values[3];
    float sum[3];
    int x = add(&b, 0, DTYPE_F16, USE_NONE, vector(3));
    over_workers(&b, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, x, x);
    must(plan_place(b.plan));
    must(make(&b));
    for (int worker = 0; worker < 3; worker++) {
        convert_from_f32(DTYPE_F16, given[worker], values, 3);
        must(numbers_write(b.numbers, worker, x, values, sizeof values));
    }
    must(run(&b));
    for (int worker = 0; worker < 3; worker++) {
        must(numbers_read(b.numbers, worker, x, values, sizeof values));
        convert_to_f32(DTYPE_F16, values, sum, 3);
        CU_ASSERT_EQUAL(sum[0], 2048);
        UNIT_ASSERT_NEAR((double)sum[1], 0.6, 1e-3);
        CU_ASSERT_TRUE(isinf(sum[2]));
    }
    bench_free(&b);
}

/* bf16 of every other element, one of two 16-bit rows: computed as fp32, rounded once, the elements
 * between left alone. */
static void low_precision_is_computed(void)
{
    struct op scale = {.kind = OP_scale_add, .compute = DTYPE_F32};
    struct bench b = bench_new(1, 1);
    int x = add(&b, 0, DTYPE_BF16, USE_NONE, vector(4));
    struct view every_other = whole(&b, x);
    uint16_t values[4] = {0x3f80, 0x4040, 0xbf80, 0x4080}; /* 1 3 -1 4 */
    scale.scale_add.alpha = 1.01171875; /* 1 + 3/256: halfway between two bf16, to even */
    every_other.type.shape = vector(2);
    every_other.stride[0] = 2;
    write_compute(&b.w, 0, "scaled", &scale, &every_other, 1, &every_other, 1);
    must(plan_place(b.plan));
    must(make(&b));
    must(numbers_write(b.numbers, 0, x, values, sizeof values));
    must(run(&b));
    must(numbers_read(b.numbers, 0, x, values, sizeof values));
    CU_ASSERT_EQUAL(values[0], 0x3f82);
    CU_ASSERT_EQUAL(values[1], 0x4040);
    CU_ASSERT_EQUAL(values[2], 0xbf82);
    CU_ASSERT_EQUAL(values[3], 0x4080);
    bench_free(&b);
}

static void a_root_without_a_side(void)
{
    static const enum collective_kind kinds[] = {COLLECTIVE_BROADCAST, COLLECTIVE_REDUCE};
    for (int k = 0; k < 2; k++) {
        struct bench b = bench_new(2, 1);
        struct view view = whole(&b, add(&b, 0, DTYPE_F32, USE_NONE, vector(4)));
        struct collect_part part = {0, k ? &view : NULL, k ? NULL : &view};
        write_collect(&b.w, "meeting", kinds[k], REDUCE_SUM, b.group, 1, 0, &part, 1);
        must(plan_place(b.plan));
        must(make(&b));
        refused(run(&b), "worker 1", k ? "receives nothing" : "sends nothing");
        bench_free(&b);
    }
}

static void what_is_read_and_written(void)
{
    struct bench b = bench_new(2, 1);
    float values[4] = {0};
    int x = add(&b, 0, DTYPE_F32, USE_NONE, vector(4));
    load(&b);
    refused(numbers_write(b.numbers, 0, x, values, 12), "16", "12");
    refused(numbers_read(b.numbers, 0, x, values, 12), "16", "12");
    refused(numbers_write(b.numbers, 2, x, values, 16), "worker 2", "has 2");
    refused(numbers_read(b.numbers, 0, 1, values, 16), "buffer 1", "has 1");
    refused(numbers_write(NULL, 0, x, values, 16), "without numbers", "");
    bench_free(&b);
}

/* 2 x 1 PiB: refused before anything of it is asked for. */
static void too_little_memory(void)
{
    struct bench b = bench_new(2, 1);
    add(&b, 0, DTYPE_F32, USE_NONE, vector(4));
    must(plan_check(b.plan));
    b.plan->roles[0].persistent_bytes[0] = (size_t)1 << 50;
    CU_ASSERT_EQUAL(make(&b), RH_OUT_OF_MEMORY);
    CU_ASSERT_PTR_NULL(b.numbers);
    UNIT_ASSERT_CONTAINS(fail_message(), "2097152.0 GiB");
    UNIT_ASSERT_CONTAINS(fail_message(), "available");
    bench_free(&b);
}

/* ---- the table of backends ------------------------------------------------------------------- */

static void backends_by_name(void)
{
    const struct backend *found = NULL;
    char version[128];
    int count = 0;
    const struct backend *const *all = backend_all(&count);
    static const char *const names[] = {"simgrid", "reference", "cuda"};
    CU_ASSERT_EQUAL_FATAL(count, 3);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_STRING_EQUAL(all[i]->name, names[i]);
        must(backend_find(names[i], &found));
        CU_ASSERT_PTR_EQUAL(found, all[i]);
        enum rh_status status = all[i]->probe(version);
        CU_ASSERT_TRUE(status == RH_OK || status == RH_INVALID || status == RH_FAILED);
        if (status == RH_INVALID)
            UNIT_ASSERT_CONTAINS(fail_message(), "was not built");
    }
    must(backend_find("reference", &found));
    must(found->probe(version));
    refused(backend_find("referenze", &found), "referenze", "reference");
}

/* Through the seam: no times, capacities from the device models, losses and values. */
static void a_session(void)
{
    const struct backend *backend = NULL;
    struct platform *platform = NULL;
    struct session *session = NULL;
    struct device_description gpu = {0};
    struct result result = {0};
    struct fed fed = {0};
    struct backend_feed feed = {&fed, fill};
    struct run_order order = {once, 1, 0, 2};
    struct ddp d = ddp_new(2);
    struct backend_options options = {.devices = (int[]){0, 1}, .device_count = 2, .numbers = true};
    cJSON *json = cJSON_CreateString("dgx-1v");
    float one = 1;
    must(platform_open(&platform));
    must(cluster_open(platform, json, "test", 2, &options.cluster));
    cJSON_Delete(json);
    CU_ASSERT_PTR_NOT_NULL_FATAL(options.cluster);
    must(backend_find("reference", &backend));
    must(backend->open(&options, &session));
    must(backend->describe(session, 1, &gpu));
    CU_ASSERT_TRUE(gpu.capacity_bytes > 10e9);
    UNIT_ASSERT_CONTAINS(gpu.name, "gpu1");
    must(plan_check(d.b.plan));
    must(backend->load(session, d.b.plan));
    for (int w = 0; w < 2; w++)
        must(backend->write(session, w, d.weight, &one, sizeof one));
    must(backend->run(session, &order, &feed, &result));
    CU_ASSERT_EQUAL(result.step_count, 2);
    CU_ASSERT_EQUAL(result.step_seconds[1], 0);
    CU_ASSERT_EQUAL(result.median_step_seconds, 0);
    CU_ASSERT_EQUAL(result.devices[1].capacity_bytes, gpu.capacity_bytes);
    UNIT_ASSERT_NEAR(result.losses[0], 0.25, 1e-7);
    must(backend->read(session, 1, d.weight, &one, sizeof one));
    UNIT_ASSERT_NEAR((double)one, 0.775, 1e-6);
    backend->unload(session);
    backend->close(session);
    result_free(&result);
    cluster_free(options.cluster);
    platform_close(platform);
    bench_free(&d.b);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"all-reduce", all_reduce, NULL},
        {"sums go in rank order", sums_go_in_rank_order, NULL},
        {"largest and smallest", largest_and_smallest, NULL},
        {"sums of integers", sums_of_integers, NULL},
        {"reduce onto a root", reduce_onto_a_root, NULL},
        {"gather and scatter", gather_and_scatter, NULL},
        {"all-to-all", all_to_all, NULL},
        {"broadcast between local devices", broadcast_between_local_devices, NULL},
        {"strided copy", strided_copy, NULL},
        {"computing on strided views", computing_on_strided_views, NULL},
        {"a ring of messages", a_ring_of_messages, NULL},
        {"transient bytes are poisoned", transient_bytes_are_poisoned, NULL},
        {"DDP by hand", distributed_data_parallel_by_hand, NULL},
        {"passes of a step", passes_of_a_step, NULL},
        {"other types are refused", other_types_are_refused, NULL},
        {"halves are rounded each time", halves_are_rounded_each_time, NULL},
        {"low precision is computed", low_precision_is_computed, NULL},
        {"a root without a side", a_root_without_a_side, NULL},
        {"what is read and written", what_is_read_and_written, NULL},
        {"too little memory", too_little_memory, NULL},
        {"backends by name", backends_by_name, NULL},
        {"a session", a_session, NULL},
    };
    return UNIT_MAIN("reference", tests);
}
