/* Rings and their prices: the worked examples of NCCL 2.28's own model, published times of ring
 * all-reduces, and what must hold on any network. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collective/collective.h"
#include "collective/communicator.h"
#include "collective/tuning.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30 };

/* A cluster with a communicator over its first GPUs. */
struct opened {
    struct platform *platform;
    struct cluster *cluster;
    struct communicator *c;
};

/* `text` is a name or a JSON object. */
static struct cluster *open_cluster(struct platform *platform, const char *text, int devices)
{
    struct cluster *cluster = NULL;
    cJSON *json = text[0] == '{' ? cJSON_Parse(text) : cJSON_CreateString(text);
    if (cluster_open(platform, json, "test", devices, &cluster) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(cluster);
    cJSON_Delete(json);
    return cluster;
}

static struct opened open_first(const char *text, int count)
{
    struct opened o = {0};
    int *devices = malloc((size_t)count * sizeof *devices);
    CU_ASSERT_EQUAL_FATAL(platform_open(&o.platform), RH_OK);
    o.cluster = open_cluster(o.platform, text, count);
    for (int i = 0; i < count; i++)
        devices[i] = i;
    CU_ASSERT_EQUAL_FATAL(communicator_new(o.cluster, devices, count, &o.c), RH_OK);
    free(devices);
    return o;
}

static void close_opened(struct opened *o)
{
    communicator_free(o->c);
    cluster_free(o->cluster);
    platform_close(o->platform);
}

static struct collective_cost price(struct communicator *c, enum collective_kind kind, double bytes)
{
    struct collective_cost cost = {0};
    if (collective_price(c, kind, bytes, 0, &cost) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_TRUE_FATAL(cost.steps > 0);
    return cost;
}

static double all_reduce_seconds(const char *cluster, int count, double bytes)
{
    struct opened o = open_first(cluster, count);
    double seconds = price(o.c, COLLECTIVE_ALL_REDUCE, bytes).seconds;
    close_opened(&o);
    return seconds;
}

/* ---- NCCL's own figures (nccl-model.md 1.10) --------------------------------------------------
 */

static double latency_us(const struct communicator *c, enum collective_kind kind,
                         enum protocol protocol)
{
    return 1e6 * ring_latency_seconds(c, kind, protocol, KIB);
}

static void assert_latencies(const struct communicator *c, enum collective_kind kind, double ll,
                             double ll128, double simple)
{
    UNIT_ASSERT_NEAR(latency_us(c, kind, PROTOCOL_LL), ll, 1e-9);
    UNIT_ASSERT_NEAR(latency_us(c, kind, PROTOCOL_LL128), ll128, 1e-9);
    UNIT_ASSERT_NEAR(latency_us(c, kind, PROTOCOL_SIMPLE), simple, 1e-9);
}

/* Example (a), rings alone. */
static void test_h100_node(void)
{
    struct opened o = open_first("hgx-h100", 8);
    assert_latencies(o.c, COLLECTIVE_ALL_REDUCE, 15.0, 40.6, 56.0);
    assert_latencies(o.c, COLLECTIVE_ALL_GATHER, 10.8, 27.3, 32.2);
    assert_latencies(o.c, COLLECTIVE_REDUCE_SCATTER, 10.8, 27.3, 32.2);
    assert_latencies(o.c, COLLECTIVE_BROADCAST, 7.2, 15.9, 11.8);
    struct collective_cost tiny = price(o.c, COLLECTIVE_ALL_REDUCE, KIB);
    CU_ASSERT_STRING_EQUAL(tiny.algorithm, "ring");
    CU_ASSERT_STRING_EQUAL(tiny.protocol, "LL");
    UNIT_ASSERT_NEAR(tiny.seconds, 15.0e-6, 0.002);
    struct collective_cost small = price(o.c, COLLECTIVE_ALL_REDUCE, MIB);
    CU_ASSERT_STRING_EQUAL(small.protocol, "LL");
    UNIT_ASSERT_NEAR(small.seconds, 28.0e-6, 0.002);
    static const struct {
        double bytes, seconds;
        const char *protocol;
    } large[] = {{4.0 * MIB, 62.8e-6, "LL128"},
                 {16.0 * MIB, 129.2e-6, "LL128"},
                 {64.0 * MIB, 382.2e-6, "Simple"},
                 {256.0 * MIB, 1360.9e-6, "Simple"},
                 {GIB, 5275.6e-6, "Simple"}};
    for (int i = 0; i < 5; i++) {
        struct collective_cost cost = price(o.c, COLLECTIVE_ALL_REDUCE, large[i].bytes);
        CU_ASSERT_STRING_EQUAL(cost.protocol, large[i].protocol);
        UNIT_ASSERT_NEAR(cost.seconds, large[i].seconds, 0.01);
    }
    UNIT_ASSERT_NEAR(GIB / price(o.c, COLLECTIVE_ALL_REDUCE, GIB).seconds, 203.5e9, 0.005);
    UNIT_ASSERT_NEAR(price(o.c, COLLECTIVE_ALL_GATHER, GIB).seconds, 2642.0e-6, 0.005);
    close_opened(&o);
}

/* Example (b): two nodes. */
static void test_two_a100_nodes(void)
{
    struct opened o = open_first("dgx-a100-40gb", 16);
    CU_ASSERT_EQUAL(o.c->nodes, 2);
    CU_ASSERT_EQUAL(communicator_channels(o.c), 8);
    UNIT_ASSERT_NEAR(latency_us(o.c, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL), 68.0, 1e-9);
    UNIT_ASSERT_NEAR(latency_us(o.c, COLLECTIVE_ALL_REDUCE, PROTOCOL_LL128), 78.0, 1e-9);
    /* without and with the plateau's factor of 1.4 */
    UNIT_ASSERT_NEAR(latency_us(o.c, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE), 204.4, 1e-9);
    UNIT_ASSERT_NEAR(1e6 * ring_latency_seconds(o.c, COLLECTIVE_ALL_REDUCE, PROTOCOL_SIMPLE, GIB),
                     286.2, 0.001);
    struct collective_cost large = price(o.c, COLLECTIVE_ALL_REDUCE, GIB);
    CU_ASSERT_STRING_EQUAL(large.protocol, "Simple");
    UNIT_ASSERT_NEAR(large.seconds, 10771.9e-6, 0.005);
    UNIT_ASSERT_NEAR(price(o.c, COLLECTIVE_ALL_REDUCE, 16.0 * MIB).seconds, 274.6e-6, 0.02);
    UNIT_ASSERT_NEAR(price(o.c, COLLECTIVE_ALL_REDUCE, 64.0 * MIB).seconds, 864.4e-6, 0.02);
    UNIT_ASSERT_NEAR(price(o.c, COLLECTIVE_ALL_REDUCE, 256.0 * MIB).seconds, 2907.6e-6, 0.01);
    close_opened(&o);
}

/* ---- rings ------------------------------------------------------------------------------------
 */

/* Each channel visits every member once and comes back. */
static void assert_cycles(const struct communicator *c)
{
    CU_ASSERT_TRUE(communicator_channels(c) >= 1);
    for (int channel = 0; channel < communicator_channels(c); channel++) {
        bool *seen = calloc((size_t)c->count, sizeof *seen);
        int at = 0;
        int visits = 0;
        while (at >= 0 && at < c->count && !seen[at]) {
            seen[at] = true;
            visits++;
            at = communicator_next(c, channel, at);
        }
        CU_ASSERT_EQUAL(visits, c->count);
        CU_ASSERT_EQUAL(at, 0);
        free(seen);
    }
}

/* No ring hop uses more NVLinks than two GPUs share, over all channels and in each direction. */
static void assert_lanes(const struct cluster *cluster, const struct communicator *c)
{
    int used[8][8] = {{0}};
    for (int channel = 0; channel < c->channels; channel++)
        for (int i = 0; i < c->count; i++) {
            int a = c->devices[i];
            int b = c->devices[communicator_next(c, channel, i)];
            used[a][b]++;
        }
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 8; b++)
            CU_ASSERT_TRUE(used[a][b] <= (a == b ? 0 : node_nvlinks(cluster->nodes[0], a, b)));
}

static void test_dgx1_rings(void)
{
    struct opened o = open_first("dgx-1v", 8);
    CU_ASSERT_EQUAL(communicator_channels(o.c), 6);
    CU_ASSERT_TRUE(o.c->by_nvlink);
    assert_cycles(o.c);
    assert_lanes(o.cluster, o.c);
    close_opened(&o);
}

/* All 247 subsets of 2 to 8 GPUs. */
static void test_dgx1_subsets(void)
{
    struct opened o = open_first("dgx-1v", 8);
    int subsets = 0;
    for (unsigned set = 0; set < 256; set++) {
        int devices[8];
        int count = 0;
        struct communicator *c = NULL;
        for (int i = 0; i < 8; i++)
            if (set >> i & 1)
                devices[count++] = i;
        if (count < 2)
            continue;
        CU_ASSERT_EQUAL_FATAL(communicator_new(o.cluster, devices, count, &c), RH_OK);
        assert_cycles(c);
        if (c->by_nvlink && count > 2)
            assert_lanes(o.cluster, c);
        struct collective_cost cost = price(c, COLLECTIVE_ALL_REDUCE, MIB);
        CU_ASSERT_TRUE(cost.seconds > 0 && isfinite(cost.seconds));
        communicator_free(c);
        subsets++;
    }
    CU_ASSERT_EQUAL(subsets, 247);
    close_opened(&o);
}

static void test_rings_elsewhere(void)
{
    static const struct {
        const char *cluster;
        int count;
    } cases[] = {{"hgx-h100", 8},        {"hgx-h100", 24},         {"dgx-1v", 16},
                 {"dgx-1v", 12},         {"dgx-a100-80gb", 19},    {"8x4090-ethernet", 16},
                 {"4x3090-ethernet", 6}, {"fat-tree-network", 33}, {"ring-network", 17}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened o = open_first(cases[i].cluster, cases[i].count);
        assert_cycles(o.c);
        CU_ASSERT_TRUE(price(o.c, COLLECTIVE_ALL_REDUCE, MIB).seconds > 0);
        close_opened(&o);
    }
}

/* Members may stand in any order. */
static void test_rank_order(void)
{
    static const int order[8] = {5, 2, 7, 0, 3, 6, 1, 4};
    struct opened o = open_first("dgx-1v", 8);
    struct communicator *c = NULL;
    CU_ASSERT_EQUAL_FATAL(communicator_new(o.cluster, order, 8, &c), RH_OK);
    CU_ASSERT_EQUAL(communicator_device(c, 0), 5);
    CU_ASSERT_EQUAL(communicator_channels(c), 6);
    assert_cycles(c);
    assert_lanes(o.cluster, c);
    communicator_free(c);
    close_opened(&o);
}

/* ---- published times of networks ------------------------------------------------------------- */

/* 2(N-1)(2 us + m/B): 25 MiB on links of 25e9 B/s, four of 500 ns between leaves. */
static void test_fat_tree_exactly(void)
{
    static const int counts[] = {8, 64, 256, 1024};
    for (int i = 0; i < 4; i++) {
        int n = counts[i];
        double expected = 2.0 * (n - 1) * (2e-6 + 26214400.0 / n / 25e9);
        UNIT_ASSERT_NEAR(all_reduce_seconds("fat-tree-network", n, 26214400), expected, 1e-9);
    }
    UNIT_ASSERT_NEAR(all_reduce_seconds("fat-tree-network", 1024, 26214400), 6.19e-3, 0.001);
}

/* Four quarters after each other: 4 * 2(N-1)(500 ns + m/B + 10 ns), m = S/4N; the published times
 * without their last term, local memory of 1.61 m/1718 ns a step. */
static void test_ring_network(void)
{
    static const struct {
        int n;
        double bytes, published;
    } rows[] = {
        {8, MIB, 64.440e-6},      {8, 25.0 * MIB, 926.056e-6},     {8, GIB, 36.790164e-3},
        {64, MIB, 296.896e-6},    {64, 25.0 * MIB, 1266.592e-6},   {64, GIB, 41.613556e-3},
        {256, MIB, 1079.200e-6},  {256, 25.0 * MIB, 2060.440e-6},  {256, GIB, 42.887980e-3},
        {1024, MIB, 4206.616e-6}, {1024, 25.0 * MIB, 5196.880e-6}, {1024, GIB, 46.129156e-3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double m = rows[i].bytes / 4 / rows[i].n;
        double steps = 4 * 2.0 * (rows[i].n - 1);
        double formula = steps * (floor(500 + m / 53.687) + 10) * 1e-9;
        double local = steps * 1.61 * m / 1718 * 1e-9;
        double ours = 4 * all_reduce_seconds("ring-network", rows[i].n, rows[i].bytes / 4);
        UNIT_ASSERT_NEAR(ours, formula, 0.01);
        UNIT_ASSERT_NEAR(ours, rows[i].published - local, 0.01);
    }
}

/* ---- what must always hold ------------------------------------------------------------------- */

static double on_network(const char *type, int count, double bytes, double rate, double latency)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"node\":\"network-endpoint\",\"fabric\":{\"type\":\"%s\",\"link_bytes_per_second\":"
             "%.0f,\"latency_seconds\":%.9g%s},\"collectives\":\"links\"}",
             type, rate, latency, strcmp(type, "ring") ? ",\"leaf_nodes\":4,\"rails\":false" : "");
    return all_reduce_seconds(text, count, bytes);
}

static void test_time_grows_with_ranks_and_latency(void)
{
    static const char *const types[] = {"fat_tree", "ring"};
    for (int t = 0; t < 2; t++) {
        double before = 0;
        for (int n = 2; n <= 256; n += n < 16 ? 1 : 48) {
            double seconds = on_network(types[t], n, 25.0 * MIB, 25e9, 5e-7);
            CU_ASSERT_TRUE(seconds > before);
            before = seconds;
        }
        before = 0;
        for (double latency = 1e-7; latency < 1e-4; latency *= 2) {
            double seconds = on_network(types[t], 32, 25.0 * MIB, 25e9, latency);
            CU_ASSERT_TRUE(seconds > before);
            before = seconds;
        }
        before = INFINITY;
        for (double rate = 1e9; rate < 1e12; rate *= 1.7) {
            double seconds = on_network(types[t], 32, 25.0 * MIB, rate, 5e-7);
            CU_ASSERT_TRUE(seconds < before);
            before = seconds;
        }
    }
}

/* More bytes never take less time, whatever protocol is chosen. */
static void test_time_grows_with_bytes(void)
{
    static const struct {
        const char *cluster;
        int count;
    } cases[] = {{"hgx-h100", 8}, {"dgx-1v", 8}, {"dgx-1v", 4}, {"8x4090-ethernet", 8}};
    for (int i = 0; i < 4; i++) {
        struct opened o = open_first(cases[i].cluster, cases[i].count);
        for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
            double before = 0;
            for (double bytes = 64; bytes < 4e9; bytes *= 3) {
                double seconds = price(o.c, (enum collective_kind)kind, bytes).seconds;
                CU_ASSERT_TRUE(seconds >= before);
                before = seconds;
            }
        }
        close_opened(&o);
    }
}

/* What a ring's members send and receive, over all channels. */
static void member_bytes(const struct collective_cost *cost, double *sent, double *received)
{
    for (int i = 0; i < cost->flow_count; i++) {
        sent[cost->flows[i].from] += cost->flows[i].bytes;
        received[cost->flows[i].to] += cost->flows[i].bytes;
    }
}

static void test_bytes_on_every_edge(void)
{
    enum { N = 12 };
    static const double share[] = {2.0 * (N - 1) / N, 0, 0, (N - 1.0) / N, (N - 1.0) / N,
                                   (N - 1.0) / N};
    struct opened o = open_first("fat-tree-network", N);
    for (int kind = 0; kind < COLLECTIVE_KIND_COUNT; kind++) {
        struct collective_cost cost = price(o.c, (enum collective_kind)kind, 6e6);
        double sent[N] = {0};
        double received[N] = {0};
        double all = 0;
        member_bytes(&cost, sent, received);
        for (int i = 0; i < N; i++) {
            all += sent[i];
            if (share[kind] > 0) {
                UNIT_ASSERT_NEAR(sent[i], 6e6 * share[kind], 1e-12);
                UNIT_ASSERT_NEAR(received[i], 6e6 * share[kind], 1e-12);
            }
        }
        if (kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_REDUCE)
            UNIT_ASSERT_NEAR(all, 6e6 * (N - 1), 1e-12);
    }
    close_opened(&o);
}

/* Nothing goes into a broadcast's root, nor out of a reduce's. */
static void test_roots(void)
{
    struct opened o = open_first("dgx-1v", 8);
    for (int root = 0; root < 8; root++) {
        struct collective_cost cost;
        double sent[8] = {0};
        double received[8] = {0};
        CU_ASSERT_EQUAL(collective_price(o.c, COLLECTIVE_BROADCAST, 64.0 * MIB, root, &cost),
                        RH_OK);
        member_bytes(&cost, sent, received);
        CU_ASSERT_EQUAL(received[root], 0);
        CU_ASSERT_TRUE(sent[root] > 0);
        memset(sent, 0, sizeof sent);
        memset(received, 0, sizeof received);
        CU_ASSERT_EQUAL(collective_price(o.c, COLLECTIVE_REDUCE, 64.0 * MIB, root, &cost), RH_OK);
        member_bytes(&cost, sent, received);
        CU_ASSERT_EQUAL(sent[root], 0);
        CU_ASSERT_TRUE(received[root] > 0);
    }
    close_opened(&o);
}

/* The slowest link's share of the time is its bytes over its rate: no link is too fast. */
static void test_no_link_is_faster_than_its_rate(void)
{
    static const char *const clusters[] = {"dgx-1v", "hgx-h100", "8x4090-ethernet",
                                           "fat-tree-network"};
    for (int i = 0; i < 4; i++) {
        struct opened o = open_first(clusters[i], 16);
        double *bytes = calloc((size_t)cluster_link_count(o.cluster), sizeof *bytes);
        double by_class[LINK_CLASS_COUNT] = {0};
        struct collective_cost cost = price(o.c, COLLECTIVE_ALL_REDUCE, 256.0 * MIB);
        for (int f = 0; f < cost.flow_count; f++) {
            const struct collective_flow *flow = &cost.flows[f];
            struct route route;
            CU_ASSERT_EQUAL_FATAL(cluster_route(o.cluster, communicator_device(o.c, flow->from),
                                                communicator_device(o.c, flow->to), flow->channel,
                                                &route),
                                  RH_OK);
            for (int k = 0; k < route.count; k++) {
                bytes[route.links[k]] += flow->bytes;
                by_class[cluster_link(o.cluster, route.links[k])->class] += flow->bytes;
            }
        }
        double slowest = 0;
        for (int l = 0; l < cluster_link_count(o.cluster); l++)
            slowest = fmax(slowest, bytes[l] / cluster_link(o.cluster, l)->bytes_per_second);
        UNIT_ASSERT_NEAR(cost.latency_seconds + slowest, cost.seconds, 1e-9);
        for (int k = 0; k < LINK_CLASS_COUNT; k++)
            UNIT_ASSERT_NEAR(by_class[k], cost.link_class_bytes[k], 1e-9);
        free(bytes);
        close_opened(&o);
    }
}

static void test_one_member(void)
{
    struct opened o = open_first("hgx-h100", 1);
    struct collective_cost cost;
    CU_ASSERT_EQUAL(collective_price(o.c, COLLECTIVE_ALL_REDUCE, MIB, 0, &cost), RH_OK);
    CU_ASSERT_EQUAL(cost.flow_count, 0);
    CU_ASSERT_EQUAL(cost.seconds, 0);
    close_opened(&o);
}

static void test_price_is_remembered(void)
{
    struct opened o = open_first("dgx-1v", 8);
    struct collective_cost first = price(o.c, COLLECTIVE_ALL_REDUCE, MIB);
    price(o.c, COLLECTIVE_ALL_GATHER, MIB);
    struct collective_cost again = price(o.c, COLLECTIVE_ALL_REDUCE, MIB);
    CU_ASSERT_PTR_EQUAL(first.flows, again.flows);
    CU_ASSERT_EQUAL(first.seconds, again.seconds);
    CU_ASSERT_EQUAL(o.c->priced_count, 2);
    close_opened(&o);
}

static void test_transfer(void)
{
    struct opened o = open_first("fat-tree-network", 8);
    double seconds = 0;
    double latency = 0;
    CU_ASSERT_EQUAL(transfer_price(o.cluster, 0, 7, 25e6, &seconds, &latency), RH_OK);
    UNIT_ASSERT_NEAR(latency, 2e-6, 1e-9);
    UNIT_ASSERT_NEAR(seconds, 2e-6 + 1e-3, 1e-9);
    close_opened(&o);
    o = open_first("dgx-1v", 8);
    double nothing = 0;
    CU_ASSERT_EQUAL(transfer_price(o.cluster, 0, 1, 0, &nothing, &latency), RH_OK);
    CU_ASSERT_EQUAL(transfer_price(o.cluster, 0, 1, 1e9, &seconds, &latency), RH_OK);
    UNIT_ASSERT_NEAR(nothing, latency, 1e-12);
    CU_ASSERT_TRUE(seconds > nothing);
    close_opened(&o);
}

static void test_names(void)
{
    CU_ASSERT_STRING_EQUAL(collective_name(COLLECTIVE_ALL_REDUCE), "all_reduce");
    CU_ASSERT_STRING_EQUAL(collective_name(COLLECTIVE_ALL_TO_ALL), "all_to_all");
}

/* 16,384 members, opened, searched and priced. */
static void test_speed(void)
{
    clock_t start = clock();
    struct opened o = open_first("fat-tree-h100", 16384);
    CU_ASSERT_TRUE(price(o.c, COLLECTIVE_ALL_REDUCE, 25.0 * MIB).seconds > 0);
    close_opened(&o);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
#ifdef __SANITIZE_ADDRESS__
    seconds /= 10;
#endif
    if (seconds >= 1)
        fprintf(stderr, "    16,384 members took %.2f s\n", seconds);
    CU_ASSERT_TRUE(seconds < 1);
}

static const struct unit_test tests[] = {
    {"h100 node", test_h100_node, NULL},
    {"two a100 nodes", test_two_a100_nodes, NULL},
    {"dgx1 rings", test_dgx1_rings, NULL},
    {"dgx1 subsets", test_dgx1_subsets, NULL},
    {"rings elsewhere", test_rings_elsewhere, NULL},
    {"rank order", test_rank_order, NULL},
    {"fat tree exactly", test_fat_tree_exactly, NULL},
    {"ring network", test_ring_network, NULL},
    {"time grows with ranks and latency", test_time_grows_with_ranks_and_latency, NULL},
    {"time grows with bytes", test_time_grows_with_bytes, NULL},
    {"bytes on every edge", test_bytes_on_every_edge, NULL},
    {"roots", test_roots, NULL},
    {"no link is faster than its rate", test_no_link_is_faster_than_its_rate, NULL},
    {"one member", test_one_member, NULL},
    {"price is remembered", test_price_is_remembered, NULL},
    {"transfer", test_transfer, NULL},
    {"names", test_names, NULL},
    {"speed", test_speed, NULL},
};

int main(void)
{
    setenv("REHEARSE_PLATFORMS", unit_source("platforms"), 1);
    return UNIT_MAIN("collective", tests);
}
