/* Collectives as flows: which bytes cross which links, and how much latency the algorithm adds.
 * Pure functions of (cluster, members, kind, size). Rings here; NCCL's other algorithms come beside
 * it. Sources: NCCL 2.28 src/graph/{tuning,search}.cc for latencies and ring search; Patarasu and
 * Yuan 2009 for the ring's 2(n-1)/n bytes. */
#ifndef REHEARSE_COLLECTIVE_COLLECTIVE_H
#define REHEARSE_COLLECTIVE_COLLECTIVE_H

#include "platform/platform.h"

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_GATHER,     /* bytes: of the gathered whole */
    COLLECTIVE_REDUCE_SCATTER, /* bytes: of the whole before */
    COLLECTIVE_ALL_TO_ALL,     /* bytes: that one member holds */
    COLLECTIVE_KIND_COUNT
};
const char *collective_name(enum collective_kind kind); /* "all_reduce" … */

enum reduce_op { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN };

/* A communicator: members (device numbers of the cluster, in rank order) and the rings found for
 * them, searched once. On native clusters there is one ring in rank order. */
struct communicator;
enum rh_status communicator_new(struct cluster *cluster, const int *devices, int count,
                                struct communicator **communicator);
void communicator_free(struct communicator *communicator);
int communicator_channels(const struct communicator *c);
int communicator_device(const struct communicator *c, int member); /* of the cluster */
/* Member that follows `member` in ring `channel`. */
int communicator_next(const struct communicator *c, int channel, int member);

/* All the bytes that one member sends to another in one channel, on one route (cluster_route with
 * that channel). */
struct collective_flow {
    int from, to; /* members */
    int channel;
    double bytes; /* on the wire: LL doubles them */
};

struct collective_cost {
    const char *algorithm, *protocol; /* "ring", "Simple" */
    double latency_seconds;           /* paid once, beside the flows */
    int steps; /* of the algorithm, one after another: 2(n-1) for a ring all-reduce */
    double step_latency_seconds;
    const struct collective_flow *flows; /* kept by the communicator */
    int flow_count;
    double seconds; /* alone on its links: latency + max over links bytes / rate */
    double link_class_bytes[LINK_CLASS_COUNT]; /* bytes on the wire of each link class, summed over
                                                  links and directions */
};

/* `root` is a member; ignored by rootless kinds. One member: no flows and no time. `seconds` and
 * class bytes need routes and are 0 on native clusters. Prices are remembered by the communicator.
 */
enum rh_status collective_price(struct communicator *c, enum collective_kind kind, double bytes,
                                int root, struct collective_cost *cost);

/* A point-to-point transfer between two devices alone on its links: start-up plus bytes / rate. */
enum rh_status transfer_price(struct cluster *cluster, int from, int to, double bytes,
                              double *seconds, double *latency_seconds);

#endif
