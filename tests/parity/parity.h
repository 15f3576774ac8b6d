/* One op on two backends: a plan of one instruction, random operands, outputs poisoned first. */
#ifndef REHEARSE_TESTS_PARITY_H
#define REHEARSE_TESTS_PARITY_H

#include "backends/backend.h"

enum { MOST_OPERANDS = 16 };

/* One op with its operand types; how operands are filled beyond normal(0, 1). */
struct subject {
    const char *name;
    struct op op;
    struct tensor_type types[MOST_OPERANDS]; /* reads, then writes */
    int reads, writes;
    int in_place[MOST_OPERANDS];  /* write k is read in_place[k] - 1; 0: its own memory */
    int64_t limit[MOST_OPERANDS]; /* int64 reads: uniform below it */
    bool positive[MOST_OPERANDS];
    bool skip;          /* scaled optimizers: the scaler says so */
    bool far_from_zero; /* batch_norm2d_grad: beta is large, of either sign */
    double bound;       /* of |difference| relative to the largest value */
};

struct tally {
    uint64_t seed;
    enum dtype real;    /* of activations and what goes with them */
    bool channels_last; /* the format of pictures and convolutions' weights */
    int passed, failed;
    bool seen[OP_COUNT];
    struct platform *platform;
    struct cluster *cluster;
    struct session *sessions[2];
    const struct backend *backends[2];
};

/* RH_FAILED or RH_INVALID with the reason: the test cannot run here. */
enum rh_status parity_find_gpu(struct tally *t);
enum rh_status parity_open(struct tally *t);
void parity_close(struct tally *t);
/* Prints a line, and counts it. Where the tally's type rounds, a bound above 0 is at least one unit
 * in the last place: two sums that differ by rounding in fp32 may fall on either side. */
void parity_compare(struct tally *t, const struct subject *s);
/* One without anything special about its operands. */
void parity_plain(struct tally *t, const char *name, const struct op *op, int reads, int writes,
                  double bound, const struct tensor_type *types);

/* scaled.c: ops on gradients of n elements. */
void parity_scaled(struct tally *t, int64_t n);

#endif
