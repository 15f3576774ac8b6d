/* Convolutions by cuDNN's graph API: what is asked of an engine, and its operation graph. */
#ifndef REHEARSE_BACKENDS_CUDA_CONVOLUTION_H
#define REHEARSE_BACKENDS_CUDA_CONVOLUTION_H

#include "backends/cuda/session.h"

struct convolution_request {
    struct op op;    /* kind, compute, accumulate and window */
    enum dtype type; /* elements of x, w and y */
    enum dtype out;  /* of the written tensor */
    int64_t n, c, h, w, k, p, q;
    bool channels_last; /* x, w and y; else NCHW and KCRS */
    bool bias, relu;    /* forward only */
};

/* Unique ids of the graph's tensors in a variant pack. */
enum { CONVOLUTION_X = 1, CONVOLUTION_W, CONVOLUTION_Y };

/* A finalized graph of the bare convolution that adds beta times the written tensor, whose elements
 * are `out`. The descriptors are the caller's, even after a failure: convolution_graph_drop. */
struct convolution_graph {
    cudnnBackendDescriptor_t x, w, y, window, operation, graph;
};
enum rh_status convolution_graph_make(struct session *session,
                                      const struct convolution_request *request, enum dtype out,
                                      float beta, const char *name,
                                      struct convolution_graph *graph);
void convolution_graph_drop(struct convolution_graph *graph);

#endif
