#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/check.h"
#include "plan/packing.h"
#include "plan/placement.h"
#include "tests/unit/plans.h"
#include "tests/unit/unit.h"

static const struct buffer *buffer_at(const struct plan *plan, int buffer)
{
    return &plan->roles[0].buffers[buffer];
}

static bool share(const struct plan *plan, int a, int b)
{
    const struct buffer *x = buffer_at(plan, a), *y = buffer_at(plan, b);
    return x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

static void test_persistent(void)
{
    struct plan *plan = plans_new(1, 1);
    int a = plans_persistent(plan, "a", 1);  /* 4 bytes */
    int b = plans_persistent(plan, "b", 65); /* 260 bytes */
    int c = plans_persistent(plan, "c", 64);
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    CU_ASSERT_EQUAL(buffer_at(plan, a)->offset, 0);
    CU_ASSERT_EQUAL(buffer_at(plan, b)->offset, 256);
    CU_ASSERT_EQUAL(buffer_at(plan, c)->offset, 768);
    CU_ASSERT_EQUAL(plan->roles[0].persistent_bytes[0], 1024);
    CU_ASSERT_EQUAL(plan->roles[0].persistent_bytes[1], 0);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 0);
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK); /* again: the same, not added up */
    CU_ASSERT_EQUAL(plan->roles[0].persistent_bytes[0], 1024);
    plan_free(plan);
}

/* A chain needs two of its buffers at a time. */
static void test_chain(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    int link[10];
    for (int i = 0; i < 10; i++) {
        link[i] = plans_transient(plan, plan_text(plan, "link %d", i), 256);
        if (i == 0)
            plans_zero(&w, 0, "zero", plans_view(plan, link[0]));
        else
            plans_relu(&w, 0, "relu", plans_view(plan, link[i - 1]), plans_view(plan, link[i]));
    }
    int unused = plans_transient(plan, "unused", 1000000);
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 2 * 1024);
    for (int i = 1; i < 10; i++)
        CU_ASSERT_FALSE(share(plan, link[i - 1], link[i]));
    CU_ASSERT_TRUE(share(plan, link[0], link[2]));
    CU_ASSERT_EQUAL(buffer_at(plan, unused)->offset, 0);
    CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_OK);
    plan_free(plan);
}

static void test_lists_share(void)
{
    struct plan *plan = plans_new(1, 1);
    int other = role_add_list(plan, 0, "first");
    int a = plans_transient(plan, "a", 256);
    struct buffer buffer = *buffer_at(plan, a);
    buffer.list = other;
    int b = role_add_buffer(plan, 0, buffer);
    struct writer w = plans_writer(plan, 0);
    plans_zero(&w, 0, "a", plans_view(plan, a));
    w.list = other;
    plans_zero(&w, 0, "b", plans_view(plan, b));
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 1024);
    CU_ASSERT_TRUE(share(plan, a, b));
    plan_free(plan);
}

/* DDP with compressed buckets: backward goes on while the other stream sends a bucket. By list
 * order a bucket is over before the next gradient is written. */
enum { LAYERS = 6, BUCKETS = 3 };

static struct plan *compressed_buckets(int gradient[LAYERS + 1], int bucket[BUCKETS])
{
    struct plan *plan = plans_new(2, 2);
    struct writer w = plans_writer(plan, 0);
    int dp = plan_add_group(plan, "dp", 1, 0, NULL);
    gradient[0] = plans_transient(plan, "gradient 0", 256);
    plans_zero(&w, 0, "loss", plans_view(plan, gradient[0]));
    for (int i = 1; i <= LAYERS; i++) {
        gradient[i] = plans_transient(plan, plan_text(plan, "gradient %d", i), 256);
        struct view g = plans_view(plan, gradient[i]);
        plans_relu(&w, 0, plan_text(plan, "backward %d", i), plans_view(plan, gradient[i - 1]), g);
        if (i % 2)
            continue;
        int b = i / 2 - 1;
        bucket[b] = plans_transient(plan, plan_text(plan, "compressed %d", b), 256);
        struct view c = plans_view(plan, bucket[b]);
        struct view whole =
            plans_view(plan, plans_persistent(plan, plan_text(plan, "bucket %d", b), 256));
        struct collect_part part = {1, &c, &c};
        plans_relu(&w, 0, plan_text(plan, "compress %d", b), g, c);
        write_join(&w, 0, 1, plan_text(plan, "bucket %d ready", b));
        write_collect(&w, plan_text(plan, "all-reduce %d", b), COLLECTIVE_ALL_REDUCE, REDUCE_SUM,
                      dp, 0, 0, &part, 1);
        plans_relu(&w, 1, plan_text(plan, "expand %d", b), c, whole);
    }
    write_join(&w, 1, 0, "all buckets done");
    return plan;
}

/* What list order alone would take, in buffers of 1 KiB. */
static size_t slots_by_list_order(const struct plan *plan)
{
    struct packing_item items[LAYERS + 1 + BUCKETS];
    struct uses uses;
    int count = 0;
    uses_init(&uses, &plan->roles[0], 0, NULL);
    for (int i = 0; i < plan->roles[0].buffer_count; i++)
        if (uses.first[i] >= 0)
            items[count++] = (struct packing_item){i, buffer_at(plan, i)->bytes, 0};
    size_t least = packing_least(items, count, &uses);
    uses_clear(&uses);
    return least / 1024;
}

static void test_compressed_buckets(void)
{
    int gradient[LAYERS + 1], bucket[BUCKETS];
    struct plan *plan = compressed_buckets(gradient, bucket);
    CU_ASSERT_EQUAL_FATAL(plan_check_shapes(plan), RH_OK);
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_OK);
    CU_ASSERT_EQUAL(slots_by_list_order(plan), 2);
    /* At the last backward op: two gradients, and two buckets that nobody has waited for. */
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0] / 1024, 4);
    for (int b = 0; b < BUCKETS; b++) {
        for (int other = 0; other < b; other++)
            CU_ASSERT_FALSE(share(plan, bucket[b], bucket[other]));
        for (int i = 2 * b + 2; i <= LAYERS; i++)
            CU_ASSERT_FALSE(share(plan, bucket[b], gradient[i]));
    }
    /* By hand as list order has it: the next gradient goes where the bucket is still being sent. */
    plan->roles[0].buffers[gradient[3]].offset = buffer_at(plan, bucket[0])->offset;
    CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "'all-reduce 0'");
    UNIT_ASSERT_CONTAINS(fail_message(), "'backward 3'");
    UNIT_ASSERT_CONTAINS(fail_message(), "'compressed 0'");
    UNIT_ASSERT_CONTAINS(fail_message(), "'gradient 3'");
    plan_free(plan);
}

/* Forward activations that stay until their backward, on one stream, with sizes that fall and rise
 * as a ResNet's do. */
static void test_quality(void)
{
    enum { DEPTH = 170 };
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    int y[DEPTH + 1], g[DEPTH + 1];
    int64_t size[DEPTH + 1];
    for (int i = 0; i <= DEPTH; i++)
        size[i] = (int64_t)(i % 3 == 2 ? 802816 : 200704) >> (i / 50);
    y[0] = plans_transient(plan, "y", size[0]);
    plans_zero(&w, 0, "input", plans_view(plan, y[0]));
    for (int i = 1; i <= DEPTH; i++) {
        y[i] = plans_transient(plan, "y", size[i]);
        plans_relu(&w, 0, "forward", plans_view(plan, y[i - 1]), plans_view(plan, y[i]));
    }
    g[DEPTH] = plans_transient(plan, "g", size[DEPTH]);
    plans_relu(&w, 0, "loss", plans_view(plan, y[DEPTH]), plans_view(plan, g[DEPTH]));
    for (int i = DEPTH - 1; i >= 0; i--) {
        struct op op = {.kind = OP_relu_grad};
        g[i] = plans_transient(plan, "g", size[i]);
        struct view reads[] = {plans_view(plan, g[i + 1]), plans_view(plan, y[i])};
        struct view write = plans_view(plan, g[i]);
        write_compute(&w, 0, "backward", &op, reads, 2, &write, 1);
    }
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_OK);
    struct uses uses;
    struct packing_item items[2 * DEPTH + 2];
    uses_init(&uses, &plan->roles[0], 0, NULL);
    for (int i = 0; i < 2 * DEPTH + 2; i++)
        items[i] = (struct packing_item){i, (buffer_at(plan, i)->bytes + 255) / 256 * 256, 0};
    double least = (double)packing_least(items, 2 * DEPTH + 2, &uses);
    CU_ASSERT_TRUE((double)plan->roles[0].arena_bytes[0] <= 1.05 * least);
    CU_ASSERT_TRUE((double)plan->roles[0].arena_bytes[0] >= least);
    uses_clear(&uses);
    plan_free(plan);
}

/* Past the length where all pairs are looked at: work that the other stream is still reading. */
static void test_long(void)
{
    enum { LINKS = 6000 };
    struct plan *plan = plans_new(1, 2);
    struct writer w = plans_writer(plan, 0);
    struct view out = plans_view(plan, plans_persistent(plan, "out", 64));
    struct view previous = plans_view(plan, plans_transient(plan, "link", 64));
    plans_zero(&w, 0, "zero", previous);
    for (int i = 1; i < LINKS; i++) {
        struct view next = plans_view(plan, plans_transient(plan, "link", 64 * (1 + i * 7 % 13)));
        plans_relu(&w, 0, "relu", view_narrow(previous, 0, 0, 64), view_narrow(next, 0, 0, 64));
        if (i % 10 == 0) {
            write_join(&w, 0, 1, "ready");
            plans_relu(&w, 1, "send", view_narrow(next, 0, 0, 64), out);
        }
        if (i % 50 == 0)
            write_join(&w, 1, 0, "sent");
        previous = next;
    }
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_OK);
    /* The largest two links and five that are being sent, 13 x 256 bytes at most each. */
    CU_ASSERT_TRUE(plan->roles[0].arena_bytes[0] <= 7 * 13 * 256);
    CU_ASSERT_TRUE(plan->roles[0].arena_bytes[0] >= 2 * 13 * 256);
    plan_free(plan);
}

static void test_peak(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    double peak[PURPOSE_COUNT], sum = 0;
    plans_persistent(plan, "weight", 100);   /* 400 bytes, 512 placed */
    int a = plans_transient(plan, "a", 256); /* 1024 */
    int b = plans_transient(plan, "b", 300); /* 1200, 1280 placed */
    int c = plans_transient(plan, "c", 64);  /* 256 */
    plan->roles[0].buffers[b].purpose = PURPOSE_WORKSPACE;
    plans_zero(&w, 0, "a", plans_view(plan, a));
    plans_zero(&w, 0, "b", plans_view(plan, b));
    plans_relu(&w, 0, "keep a", plans_view(plan, a), plans_view(plan, a));
    plans_zero(&w, 0, "c", plans_view(plan, c));
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    plan_peak(plan, 0, 0, peak);
    CU_ASSERT_EQUAL(peak[PURPOSE_PARAMETERS], 400);
    CU_ASSERT_EQUAL(peak[PURPOSE_ACTIVATIONS], 1024);
    CU_ASSERT_EQUAL(peak[PURPOSE_WORKSPACE], 1200 + 80 + 112); /* with all padding: the largest */
    CU_ASSERT_EQUAL(peak[PURPOSE_RUNTIME], 0);
    for (int p = 0; p < PURPOSE_COUNT; p++)
        sum += peak[p];
    CU_ASSERT_EQUAL(sum,
                    (double)(plan->roles[0].persistent_bytes[0] + plan->roles[0].arena_bytes[0]));
    plan_peak(plan, 0, 1, peak);
    for (int p = 0; p < PURPOSE_COUNT; p++)
        CU_ASSERT_EQUAL(peak[p], 0);
    plan_free(plan);
}

static void test_fits(void)
{
    const double gib = 1024.0 * 1024 * 1024;
    struct plan *plan = plans_new(1, 1);
    plans_persistent(plan, "embedding", 3LL << 28); /* 3 GiB */
    plans_persistent(plan, "bias", 1 << 18);        /* 1 MiB */
    plans_persistent(plan, "layer1.0.conv1", 5LL << 28);
    plans_persistent(plan, "head", 1LL << 28);
    CU_ASSERT_EQUAL_FATAL(plan_place(plan), RH_OK);
    CU_ASSERT_EQUAL(plan_fits(plan, 0, 0, "node0:gpu3", 8 * gib, 0.75 * gib), RH_OUT_OF_MEMORY);
    CU_ASSERT_STRING_EQUAL(fail_message(),
                           "does not fit on 'node0:gpu3': 9.0 GiB asked, 7.2 of 8.0 GiB available "
                           "(768.0 MiB runtime); largest: layer1.0.conv1 5.0 GiB, embedding 3.0 "
                           "GiB, head 1.0 GiB");
    CU_ASSERT_EQUAL(plan_fits(plan, 0, 0, "node0:gpu3", 9.25 * gib, 0.25 * gib), RH_OUT_OF_MEMORY);
    CU_ASSERT_EQUAL(plan_fits(plan, 0, 0, "node0:gpu3", 9.5 * gib, 0.25 * gib), RH_OK);
    CU_ASSERT_EQUAL(plan_fits(plan, 0, 1, "node0:host", 0, 0), RH_OK);
    plan_free(plan);
}

/* A shape that overflows must be refused, not wrap to a small number. */
static void test_absurd(void)
{
    struct plan *plan = plans_new(1, 1);
    struct buffer buffer = {.name = "huge", .lifetime = LIFETIME_PERSISTENT};
    buffer.type = (struct tensor_type){DTYPE_F32, shape_of(2, (int64_t[]){1LL << 40, 1LL << 40})};
    struct view view = plans_view(plan, role_add_buffer(plan, 0, buffer));
    struct writer w = plans_writer(plan, 0);
    plans_zero(&w, 0, "zero", view);
    CU_ASSERT_EQUAL(plan_place(plan), RH_OUT_OF_MEMORY);
    UNIT_ASSERT_CONTAINS(fail_message(), "'huge'");
    CU_ASSERT_EQUAL(plan_check(plan), RH_OUT_OF_MEMORY);
    UNIT_ASSERT_CONTAINS(fail_message(), "at most 64.0 TiB");
    plan_free(plan);
}

static const struct unit_test tests[] = {
    {"persistent area", test_persistent, NULL},
    {"chain", test_chain, NULL},
    {"lists share the arena", test_lists_share, NULL},
    {"compressed buckets", test_compressed_buckets, NULL},
    {"quality", test_quality, NULL},
    {"a long list", test_long, NULL},
    {"peak by purpose", test_peak, NULL},
    {"does not fit", test_fits, NULL},
    {"absurd size", test_absurd, NULL},
};

int main(void)
{
    return UNIT_MAIN("placement", tests);
}
