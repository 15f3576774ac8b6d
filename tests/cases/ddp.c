/* D1 … D66: DistributedDataParallel. Without more words: 2 ranks, y = w x, w = 1. A loss that is
 * the sum of y stands in as a summed squared error against targets 0.5 below y: its gradient is x
 * as well. */
#include "cases/training.h"

#include "strategy/bucket_assign.h"

static const char *const two = "\"devices\":2,\"strategy\":\"ddp\"";
static const char *const summed = "{\"type\":\"mse\",\"reduction\":\"sum\"}";

/* x = 1 on rank 0, 2 on rank 1; targets w x - 0.5. */
static struct case_training plain(float w)
{
    static const float x[] = {1, 2};
    static float targets[2];
    for (int i = 0; i < 2; i++)
        targets[i] = w * x[i] - 0.5f;
    return (struct case_training){
        .rest = two, .loss = summed, .rows = 2, .inputs = x, .targets = targets, .w = w};
}

static double gradient_of(struct live *live, int rank)
{
    return live_read(live, rank, USE_GRADIENT, 0, 0);
}

static double weight_of(struct live *live, int rank)
{
    return live_read(live, rank, USE_PARAMETER, 0, 0);
}

CASE(D1, "w = 5 on rank 0 and 7 on rank 1: rank 0's goes to all")
{
    struct case_training t = plain(5);
    t.optimizer = "{\"type\":\"sgd\",\"lr\":0}";
    struct live *live = live_open(&t);
    live_write(live, 1, USE_PARAMETER, 0, 7);
    CHECK(weight_of(live, 1) == 7);
    live_run(live);
    CHECK(weight_of(live, 0) == 5 && weight_of(live, 1) == 5);
}

CASE(D2, "x = 1 and 2: gradient 1.5 on both; each rank keeps its own loss")
{
    struct case_training t = plain(1);
    struct live *live = live_open(&t);
    live_run(live);
    for (int rank = 0; rank < 2; rank++)
        CHECK(gradient_of(live, rank) == 1.5);
    static const float x[] = {1, 2};
    t.targets = NULL;
    t.inputs = x;
    live = live_open(&t);
    live_run(live);
    CHECK(live_read(live, 0, USE_LOSSES, -1, 0) == 1);
    CHECK(live_read(live, 1, USE_LOSSES, -1, 0) == 4);
}

CASE(D3, "then SGD with lr 0.1: w = 0.85 on both")
{
    struct case_training t = plain(1);
    t.optimizer = "{\"type\":\"sgd\",\"lr\":0.1}";
    struct live *live = live_open(&t);
    live_run(live);
    CHECK_NEAR(weight_of(live, 0), 0.85, 1e-6);
    CHECK(weight_of(live, 0) == weight_of(live, 1));
}

DIFFERS(D4,
        "local batches of different size: each rank counts the same, so the mean of means is taken",
        "a batch that the ranks do not divide is refused, so the mean of means is the mean")
CASE(D4, "three rows on two ranks")
{
    struct case_training t = plain(2);
    t.rows = 3;
    t.inputs = VALUES(1, 2, 3);
    t.targets = NULL;
    CHECK_NOT_TRAINED(&t, "3");
}

CASE(D5, "w = 2, [1, 2] and [3, 4], mean of (w x)^2: local 10 and 50, average 30 as in one process")
{
    struct case_training t = plain(2);
    t.loss = NULL;
    t.rows = 4;
    t.inputs = VALUES(1, 2, 3, 4);
    t.targets = NULL;
    struct live *live = live_open(&t);
    live_run(live);
    CHECK_NEAR(live_read(live, 0, USE_LOSSES, -1, 0), 10, 1e-6);
    CHECK_NEAR(live_read(live, 1, USE_LOSSES, -1, 0), 50, 1e-6);
    CHECK_NEAR(gradient_of(live, 0), 30, 1e-6);
    CHECK_NEAR(gradient_of(live, 1), 30, 1e-6);
    CHECK_NEAR(case_trained(&t)->losses[0], 30, 1e-6);
}

NOT_YET(D6, "a parameter added to the input", "a layer that adds a parameter")
NOT_YET(D7, "a hook that returns other values", "communication hooks")
NOT_YET(D8, "a hook that only sums: no division by DDP", "communication hooks")

CASE(D10, "one rank: the gradient as it is")
{
    static const char *const ways[] = {"\"devices\":1,\"strategy\":\"ddp\"",
                                       "\"devices\":1,\"strategy\":\"single\""};
    for (int i = 0; i < 2; i++) {
        struct case_training t = plain(1);
        t.rest = ways[i];
        struct live *live = live_open(&t);
        live_run(live);
        CHECK(gradient_of(live, 0) == 3);
    }
}

static void check_buckets(const struct bucket_item *items, int count, const int64_t *limits,
                          int limit_count, const int *expected, int buckets)
{
    int got[8];
    CHECK(bucket_assign(items, count, limits, limit_count, got) == buckets);
    for (int i = 0; i < count; i++)
        CHECK(got[i] == expected[i]);
}

CASE(D11, "counts 100, 200, 100, 50, limit [400]: a bucket each")
{
    const struct bucket_item items[] = {{400, 0}, {800, 0}, {400, 0}, {200, 0}};
    check_buckets(items, 4, (const int64_t[]){400}, 1, (const int[]){0, 1, 2, 3}, 4);
}

static const struct bucket_item alternating[] = {{200, 0}, {200, 1}, {200, 0},
                                                 {200, 1}, {200, 0}, {200, 1}};

CASE(D12, "two types by turns, limit [400]: [0, 2] [1, 3] [4] [5]")
{
    check_buckets(alternating, 6, (const int64_t[]){400}, 1, (const int[]){0, 1, 0, 1, 2, 3}, 4);
}

CASE(D13, "four of 40 bytes, limits [40, 80]: [0] [1, 2] [3]")
{
    const struct bucket_item items[] = {{40, 0}, {40, 0}, {40, 0}, {40, 0}};
    check_buckets(items, 4, (const int64_t[]){40, 80}, 2, (const int[]){0, 1, 1, 2}, 3);
}

CASE(D14, "as D12 with limits [200, 400]: [0] [1] [2, 4] [3, 5]")
{
    check_buckets(alternating, 6, (const int64_t[]){200, 400}, 2, (const int[]){0, 1, 2, 3, 2, 3},
                  4);
}

/* ResNet-50's buckets of a list, in the order in which they are launched. */
static void resnet_buckets(const char *keys, const char *list, const double *bytes, int count)
{
    char rest[128];
    snprintf(rest, sizeof rest, "\"devices\":2,\"strategy\":{\"type\":\"ddp\",\"ddp\":{%s}}", keys);
    struct case_training t = {
        .model = "\"resnet50\"", .rest = rest, .rows = 4, .loss = "\"cross_entropy\""};
    const struct strategy_plan *plan = case_plan(&t);
    CHECK(plan_count(plan, list, INSTRUCTION_COLLECT, "bucket") == count);
    for (int i = 0; bytes && i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "bucket %d", i);
        double got = plan_bytes(plan, list, INSTRUCTION_COLLECT, name);
        if (got != bytes[i])
            fprintf(stderr, "    bucket %d: %.0f bytes, expected %.0f\n", i, got, bytes[i]);
        CHECK(got == bytes[i]);
    }
}

CASE(D15, "ResNet-50, first iteration: one bucket of 102,228,128 bytes")
{
    resnet_buckets("", "first", (const double[]){102228128}, 1);
}

CASE(D16, "later iterations: 5 buckets, the first closed at 1 MiB, the others at 25 MiB")
{
    resnet_buckets("", "steady", (const double[]){8196000, 31502336, 26255360, 26550272, 9724160},
                   5);
}

CASE(D17, "a cap of 25 given: 4 buckets, no small first one")
{
    resnet_buckets("\"bucket_cap_mb\":25", "steady",
                   (const double[]){30257056, 26255360, 28366848, 17348864}, 4);
}

CASE(D18, "a cap of 1 given: 35 buckets, the first of 8,196,000 bytes")
{
    resnet_buckets("\"bucket_cap_mb\":1", "steady", NULL, 35);
    struct case_training t = {
        .model = "\"resnet50\"",
        .rest = "\"devices\":2,\"strategy\":{\"type\":\"ddp\",\"ddp\":{\"bucket_cap_mb\":1}}",
        .rows = 4,
        .loss = "\"cross_entropy\""};
    CHECK(plan_bytes(case_plan(&t), "steady", INSTRUCTION_COLLECT, "bucket 0") == 8196000);
}
