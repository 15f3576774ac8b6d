/* The inside of a communicator, shared by the ring search and the pricing. */
#ifndef REHEARSE_COLLECTIVE_COMMUNICATOR_H
#define REHEARSE_COLLECTIVE_COMMUNICATOR_H

#include "collective/collective.h"

struct priced {
    enum collective_kind kind;
    int root;
    double bytes;
    struct collective_cost cost;
    struct collective_flow *flows;
};

struct communicator {
    struct cluster *cluster;
    int *devices; /* count: cluster devices in rank order */
    int count;
    int nodes;    /* machines that take part */
    int per_node; /* members on the first of them */
    int channels;
    int *next;              /* channels x count */
    bool same_channels;     /* NCCL's sameChannels: all channels take one way (NVSwitch) */
    bool by_nvlink;         /* every hop inside a node is NVLink */
    int compute_capability; /* the least among the members */
    bool amd_host;
    struct priced *priced;
    int priced_count, priced_capacity;
};

/* Sets channels and next (ring.c). */
enum rh_status rings_find(struct communicator *c);

#endif
