/* NCCL's latencies and bandwidth factors of the ring algorithm, per protocol.
 * Source: NCCL 2.28.9 src/graph/tuning.cc (tables baseLat, hwLat, llMaxBw,
 * perChMaxRingLL128). */
#ifndef REHEARSE_COLLECTIVE_TUNING_H
#define REHEARSE_COLLECTIVE_TUNING_H

#include "collective/communicator.h"

enum protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, PROTOCOL_COUNT };
const char *protocol_name(enum protocol protocol);

/* Steps of the ring that follow each other: 2(n-1), n-1, or n for broadcast and reduce. */
int ring_steps(const struct communicator *c, enum collective_kind kind);
bool protocol_available(const struct communicator *c, enum protocol protocol);
/* Latency of one call of `bytes`. */
double ring_latency_seconds(const struct communicator *c, enum collective_kind kind,
                            enum protocol protocol, double bytes);
/* Factor on the time that the bytes take on the links with Simple; `simple_seconds` is that time
 * and `bus_bytes` what one ring edge carries over all channels. */
double ring_slowdown(const struct communicator *c, enum protocol protocol, double bus_bytes,
                     double simple_seconds);

#endif
