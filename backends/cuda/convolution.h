/* Convolutions by cuDNN's engines and, 1x1 ones of channels-last tensors, by cuBLASLt: the fastest
 * way is searched once for each request of a session. */
#ifndef REHEARSE_BACKENDS_CUDA_CONVOLUTION_H
#define REHEARSE_BACKENDS_CUDA_CONVOLUTION_H

#include "backends/cuda/session.h"

struct convolution_request {
    struct op op;    /* kind, compute, accumulate and window */
    enum dtype type; /* elements of what is read */
    enum dtype out;  /* of the written tensor: `type`, or fp32 for a weight gradient */
    int64_t n, c, h, w, k, p, q;
    bool channels_last;  /* x, w and y; else NCHW and KCRS */
    bool bias, relu;     /* forward only */
    int alignment_bytes; /* of all tensors' first elements; 0: 16 */
    size_t workspace_bytes; /* what convolution_run gets; no way that wants more is taken */
};

struct convolution;

/* The request's fastest way by a timed search, kept by the session until convolutions_drop. `name`
 * is the instruction's, for errors. */
enum rh_status convolution_find(struct session *session, const struct convolution_request *request,
                                const char *name, const struct convolution **convolution);
/* Device memory that convolution_run wants, aligned to 256 bytes: at most the request's. */
size_t convolution_workspace(const struct convolution *convolution);
/* "cudnn 33", "cublaslt 66", with how the result is added up where it is; valid as long as
 * the convolution. */
const char *convolution_engine(const struct convolution *convolution);
/* Forward: a = x, b = w. Input gradient: a = gy, b = w. Weight gradient: a = gy, b = x. Launches
 * only: fit for capture. `bias` has the elements of `type`, NULL without. */
enum rh_status convolution_run(struct session *session, const struct convolution *convolution,
                               cudaStream_t stream, const void *a, const void *b, const void *bias,
                               void *out, void *workspace);
void convolutions_drop(struct session *session);

#endif
