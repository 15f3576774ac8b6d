/* ResNet-50's training graph: FLOPs, the order in which its gradients arrive, and how
 * torch-semantics.md cuts them into buckets and chunks. */
#include "unit.h"

#include <string.h>

#include "graphs.h"
#include "strategy/bucket_assign.h"

/* Parameters in the order in which backward gives their gradients; a node's writes in reverse. */
static void arrival_order(const struct graph *g, int *order)
{
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        for (int k = node->write_count - 1; k >= 0; k--) {
            const struct value *value = &g->values[g->operands[node->write_first + k]];
            if (value->kind == VALUE_PARAMETER_GRADIENT)
                order[count++] = value->index;
        }
    }
    CU_ASSERT_EQUAL_FATAL(count, g->model->parameter_count);
}

static void test_resnet50_arrival(void)
{
    struct model *m = graphs_build("\"resnet50\"");
    struct graph *g = graphs_derive(m, LOSS_CROSS_ENTROPY, 1);
    int order[161];
    CU_ASSERT_EQUAL_FATAL(m->parameter_count, 161);
    arrival_order(g, order);
    for (int i = 0; i < 161; i++)
        CU_ASSERT_EQUAL(order[i], 160 - i);
    graph_free(g);
    model_free(m);
}

static void test_resnet50_flops(void)
{
    struct model *m = graphs_build("\"resnet50\"");
    struct graph *g = graphs_derive(m, LOSS_CROSS_ENTROPY, 2);
    double forward = 0;
    double matrix = 0;
    double backward = 0;
    for (int n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        struct tensor_type types[16];
        for (int k = 0; k < node->read_count; k++)
            types[k] = g->values[g->operands[node->read_first + k]].type;
        for (int k = 0; k < node->write_count; k++)
            types[node->read_count + k] = g->values[g->operands[node->write_first + k]].type;
        double flops = op_flops(&node->op, types, node->read_count, &types[node->read_count],
                                node->write_count);
        bool matrices = op_class(node->op.kind) == OP_CLASS_CONVOLUTION ||
                        op_class(node->op.kind) == OP_CLASS_MATMUL;
        if (node->phase == PHASE_FORWARD)
            forward += flops;
        if (matrices)
            *(node->phase == PHASE_FORWARD ? &matrix : &backward) += flops;
    }
    UNIT_ASSERT_NEAR(forward / 2, 8.2e9, 0.02);
    /* 4.089e9 multiply-adds; backward costs twice that, less the input's gradient of conv1 */
    UNIT_ASSERT_NEAR(matrix / 2, 2 * 4.0892e9, 0.001);
    UNIT_ASSERT_NEAR(backward / 2, 2 * matrix / 2 - 2.0 * 64 * 147 * 112 * 112, 0.001);
    graph_free(g);
    model_free(m);
}

enum { MIB = 1 << 20 };

enum order { REGISTRATION, ARRIVAL };

/* Buckets of ResNet-50's gradients; returns how many, with bytes and tensors. */
static int buckets_of_resnet50(enum order order, const int64_t *limits, int limit_count,
                               int64_t bytes[64], int tensors[64])
{
    struct model *m = graphs_build("\"resnet50\"");
    struct bucket_item items[161];
    int bucket_of[161];
    for (int i = 0; i < 161; i++)
        items[i] = (struct bucket_item){
            4 * shape_elements(&m->parameters[order == ARRIVAL ? 160 - i : i].shape), 0};
    int count = bucket_assign(items, 161, limits, limit_count, bucket_of);
    CU_ASSERT_TRUE_FATAL(count <= 64);
    memset(bytes, 0, 64 * sizeof *bytes);
    memset(tensors, 0, 64 * sizeof *tensors);
    for (int i = 0; i < 161; i++) {
        bytes[bucket_of[i]] += items[i].bytes;
        tensors[bucket_of[i]]++;
        CU_ASSERT_TRUE(i == 0 || bucket_of[i] >= bucket_of[i - 1]);
    }
    model_free(m);
    return count;
}

/* torch-semantics.md D15 to D18. */
static void test_resnet50_buckets(void)
{
    static const int64_t whole[] = {-1};
    static const int64_t usual[] = {MIB, 25 * MIB};
    static const int64_t given[] = {25 * MIB};
    static const int64_t small[] = {MIB};
    static const int64_t five[] = {8196000, 31502336, 26255360, 26550272, 9724160};
    static const int five_tensors[] = {2, 15, 12, 51, 81};
    static const int64_t four[] = {30257056, 26255360, 28366848, 17348864};
    int64_t bytes[64];
    int tensors[64];
    CU_ASSERT_EQUAL(buckets_of_resnet50(ARRIVAL, whole, 1, bytes, tensors), 1);
    CU_ASSERT_EQUAL(bytes[0], 102228128);
    CU_ASSERT_EQUAL(buckets_of_resnet50(ARRIVAL, usual, 2, bytes, tensors), 5);
    CU_ASSERT_EQUAL(memcmp(bytes, five, sizeof five), 0);
    CU_ASSERT_EQUAL(memcmp(tensors, five_tensors, sizeof five_tensors), 0);
    CU_ASSERT_EQUAL(buckets_of_resnet50(ARRIVAL, given, 1, bytes, tensors), 4);
    CU_ASSERT_EQUAL(memcmp(bytes, four, sizeof four), 0);
    CU_ASSERT_EQUAL(buckets_of_resnet50(ARRIVAL, small, 1, bytes, tensors), 35);
    CU_ASSERT_EQUAL(bytes[0], 8196000);
}

/* In registration order: D19 (find_unused; launched from the last to the first) and C27
 * (broadcast's chunks of 10 MiB, closed by the tensor that fills them). */
static void test_resnet50_registration(void)
{
    static const int64_t usual[] = {MIB, 25 * MIB};
    static const int64_t chunk[] = {10 * MIB};
    static const int64_t launched[] = {12410784, 31502336, 29669376, 27022336, 1623296};
    static const int64_t chunks[] = {11821312, 12355584, 12093440, 13639680, 12615680,
                                     13639680, 13651968, 12406784, 4000};
    static const int chunk_tensors[] = {82, 24, 24, 6, 6, 6, 6, 6, 1};
    int64_t bytes[64];
    int tensors[64];
    CU_ASSERT_EQUAL_FATAL(buckets_of_resnet50(REGISTRATION, usual, 2, bytes, tensors), 5);
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(bytes[i], launched[4 - i]);
    CU_ASSERT_EQUAL(buckets_of_resnet50(REGISTRATION, chunk, 1, bytes, tensors), 9);
    CU_ASSERT_EQUAL(memcmp(bytes, chunks, sizeof chunks), 0);
    CU_ASSERT_EQUAL(memcmp(tensors, chunk_tensors, sizeof chunk_tensors), 0);
}

/* C28: reduce's chunks are closed before the tensor that would overfill them. */
static void test_resnet50_reduce_chunks(void)
{
    static const int64_t expected[] = {9724160, 9986048, 9994240, 6569984, 9441280,
                                       4210688, 8404992, 4198400, 9441280, 8409088,
                                       9441280, 4210688, 8196000};
    enum { EXPECTED = sizeof expected / sizeof *expected };
    struct model *m = graphs_build("\"resnet50\"");
    int64_t open = 0;
    int count = 0;
    for (int i = 0; i <= m->parameter_count; i++) {
        int64_t bytes =
            i < m->parameter_count ? 4 * shape_elements(&m->parameters[i].shape) : INT64_MAX / 2;
        if (open > 0 && open + bytes > 10 * MIB) {
            CU_ASSERT_TRUE_FATAL(count < EXPECTED);
            CU_ASSERT_EQUAL(open, expected[count++]);
            open = 0;
        }
        open += bytes;
    }
    CU_ASSERT_EQUAL(count, EXPECTED);
    model_free(m);
}

static const struct unit_test tests[] = {
    {"resnet50 arrival", test_resnet50_arrival, NULL},
    {"resnet50 flops", test_resnet50_flops, NULL},
    {"resnet50 buckets", test_resnet50_buckets, NULL},
    {"resnet50 registration", test_resnet50_registration, NULL},
    {"resnet50 reduce chunks", test_resnet50_reduce_chunks, NULL},
};

int main(void)
{
    return UNIT_MAIN("graph_resnet50", tests);
}
