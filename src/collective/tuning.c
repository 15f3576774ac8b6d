#include "collective/tuning.h"

static const double base_us[PROTOCOL_COUNT] = {6.6, 14.0, 8.4};

enum hardware { HARDWARE_NVLINK, HARDWARE_PCI, HARDWARE_NET };
static const double ring_us[3][PROTOCOL_COUNT] = {
    {0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}};
static const double tree_us[3][PROTOCOL_COUNT] = {
    {0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}};

/* GB/s that LL reaches at most: one node by GPU, several by CPU (2 nodes, more). */
static const double ll_most_gpu[4] = {39.0, 87.7, 141, 282}; /* Volta, Ampere, Hopper, Blackwell */
static const double ll_most_cpu[2][2] = {{39.0, 20.4}, {22.5, 19.0}}; /* Intel, AMD */
/* GB/s that LL128 reaches in one channel over the network (2 nodes, more). */
static const double ll128_most_channel[4][2] = {{20, 20}, {20, 20}, {36.7, 36.7}, {34.6, 73.4}};

const char *protocol_name(enum protocol protocol)
{
    static const char *const names[] = {"LL", "LL128", "Simple"};
    return names[protocol];
}

int ring_steps(const struct communicator *c, enum collective_kind kind)
{
    switch (kind) {
    case COLLECTIVE_ALL_REDUCE: return 2 * (c->count - 1);
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_REDUCE: return c->count;
    default: return c->count - 1;
    }
}

/* LL128 needs NVLink inside the nodes and Volta or later (NCCL: typeIntra <= NVB). */
bool protocol_available(const struct communicator *c, enum protocol protocol)
{
    return protocol != PROTOCOL_LL128 || (c->by_nvlink && c->compute_capability >= 70);
}

static double pipelined_us(const struct communicator *c, enum protocol protocol)
{
    enum hardware intra = c->by_nvlink ? HARDWARE_NVLINK : HARDWARE_PCI;
    enum hardware hardware = c->nodes > 1 ? HARDWARE_NET : intra;
    if (c->same_channels)
        return ring_us[hardware][protocol];
    const double(*table)[PROTOCOL_COUNT] = protocol == PROTOCOL_SIMPLE ? tree_us : ring_us;
    return c->count * table[hardware][protocol];
}

double ring_latency_seconds(const struct communicator *c, enum collective_kind kind,
                            enum protocol protocol, double bytes)
{
    enum hardware intra = c->by_nvlink ? HARDWARE_NVLINK : HARDWARE_PCI;
    double us = base_us[protocol];
    if (kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_REDUCE)
        return (us + pipelined_us(c, protocol)) * 1e-6;
    double hop = ring_us[intra][protocol];
    double network = (c->per_node == 1 ? tree_us : ring_us)[HARDWARE_NET][protocol];
    double overhead = c->nodes > 1 ? (c->amd_host ? 2.0 : 1.0) : 0;
    if (protocol == PROTOCOL_SIMPLE)
        overhead *= 3;
    hop = hop > overhead ? hop : overhead;
    int crossings = c->nodes > 1 ? c->nodes - 1 : 0;
    if (kind == COLLECTIVE_ALL_REDUCE)
        crossings *= 2;
    us += (ring_steps(c, kind) - crossings) * hop + crossings * network;
    /* the plateau of Ring/Simple over the network, tuning.cc */
    bool plateau = kind == COLLECTIVE_ALL_REDUCE && protocol == PROTOCOL_SIMPLE && c->nodes > 1 &&
                   bytes / (2.0 * c->channels * c->count) >= 64;
    if (plateau)
        us *= c->compute_capability >= 80 ? 1.4 : 1.9;
    return us * 1e-6;
}

static int generation_of(const struct communicator *c)
{
    return c->compute_capability >= 100  ? 3
           : c->compute_capability >= 90 ? 2
           : c->compute_capability >= 80 ? 1
                                         : 0;
}

static double ll_most(const struct communicator *c)
{
    return 1e9 *
           (c->nodes == 1 ? ll_most_gpu[generation_of(c)] : ll_most_cpu[c->amd_host][c->nodes > 2]);
}

/* Inside one node the limit does not bind: NCCL's search gives enough channels. */
static double ll128_most(const struct communicator *c)
{
    return 1e9 * c->channels * ll128_most_channel[generation_of(c)][c->nodes > 2];
}

double ring_slowdown(const struct communicator *c, enum protocol protocol, double bus_bytes,
                     double simple_seconds)
{
    if (protocol == PROTOCOL_SIMPLE || simple_seconds <= 0)
        return 1;
    if (protocol == PROTOCOL_LL128) {
        double most = c->nodes > 1 ? bus_bytes / ll128_most(c) / simple_seconds : 0;
        return most > 1 / 0.92 ? most : 1 / 0.92;
    }
    double capped = bus_bytes / ll_most(c) / simple_seconds;
    return capped > 2 ? capped : 2;
}
