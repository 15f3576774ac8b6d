/* The inside of convolutions: operation graphs, ways to compute a request, and their candidates. */
#ifndef REHEARSE_BACKENDS_CUDA_CONVOLUTION_WAY_H
#define REHEARSE_BACKENDS_CUDA_CONVOLUTION_WAY_H

#include "backends/cuda/convolution.h"

/* Unique ids of the graph's tensors in a variant pack. */
enum { CONVOLUTION_X = 1, CONVOLUTION_W, CONVOLUTION_Y };

/* convolution_graph.c: a finalized graph of the bare convolution that adds beta times the written
 * tensor, whose elements are `out`. The descriptors are the caller's, even after a failure. */
struct convolution_graph {
    cudnnBackendDescriptor_t x, w, y, window, operation, graph;
};
enum rh_status convolution_graph_make(struct session *session,
                                      const struct convolution_request *request, enum dtype out,
                                      float beta, const char *name,
                                      struct convolution_graph *graph);
void convolution_graph_drop(struct convolution_graph *graph);

/* What an engine writes, and where. */
struct convolution_form {
    enum dtype writes;
    bool adds;  /* to the written tensor, by beta = 1 */
    bool aside; /* at the workspace's end, from where a kernel of ours widens or adds it */
};

struct convolution_way {
    struct convolution_form form;
    char engine[48];
    /* of cuDNN: NULL for a product */
    cudnnBackendDescriptor_t config, plan;
    /* of cuBLASLt: b times a, both column-major */
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t b, a, out;
    cublasLtMatmulAlgo_t algorithm;
    size_t engine_bytes, aside_bytes; /* of workspace, in whole lines */
    float seconds;                    /* 0: not timed */
};

/* Of the request's workspace, what a result aside leaves to the engine; false: not even that fits. */
bool convolution_room(const struct convolution_request *request,
                      const struct convolution_form *form, size_t *engine_bytes);

/* Adds finalized ways to ways[0 .. *count), up to `most` of them; none is no failure. */
void convolution_engines(struct session *session, const struct convolution_request *request,
                         const struct convolution_graph *graph, const struct convolution_form *form,
                         struct convolution_way *ways, int *count, int most);
void convolution_products(struct session *session, const struct convolution_request *request,
                          const struct convolution_form *form, struct convolution_way *ways,
                          int *count, int most);

/* convolution_run.c: launches the way, without bias and relu. */
enum rh_status convolution_way_run(struct session *session,
                                   const struct convolution_request *request,
                                   const struct convolution_way *way, cudaStream_t stream,
                                   const void *a, const void *b, void *out, void *workspace);
void convolution_bias_relu(const struct convolution_request *request, cudaStream_t stream,
                           const void *bias, void *y);
void convolution_way_drop(struct convolution_way *way);

int64_t convolution_elements(const struct convolution_request *request, int tensor); /* by id */
int convolution_written(const struct convolution_request *request);                  /* its id */
size_t convolution_aside(const struct convolution_request *request,
                         const struct convolution_form *form); /* bytes; 0 if not aside */
size_t convolution_lines(size_t bytes); /* rounded up to whole lines of 256 bytes */

#endif
