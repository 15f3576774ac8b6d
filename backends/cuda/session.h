/* The inside of the CUDA backend: one process that issues for all workers, in an order that the
 * untimed engine gives. Devices of the plan are logical: in this version they all share the first
 * GPU, and a kernel of ours does their collectives. */
#ifndef REHEARSE_BACKENDS_CUDA_SESSION_H
#define REHEARSE_BACKENDS_CUDA_SESSION_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "backends/backend.h"

/* What an instruction needs beside its operands, made at load: descriptors, chosen algorithms,
 * tables of pointers. Freed by ready_free. */
struct ready;
struct convolution;

struct cuda_worker {
    int role;
    char **persistent, **arena; /* per local device; the host's is pinned memory */
    cudaStream_t *streams;      /* per stream of the role */
    unsigned *counters;         /* of batch norm, zero between its launches; per stream */
    cudaEvent_t *events;        /* per event of the role */
    struct ready ***ready;      /* per list and instruction; NULL: nothing needed */
};

/* Bytes of the GPU's memory that are taken, by cudaMemGetInfo: whoever took them, since that is all
 * that it tells. */
struct footprint {
    double capacity_bytes, now_bytes; /* now: at the last look */
    double runtime_bytes;             /* beside the plan's areas: context, libraries, engines, and
                                         communicators, which NCCL fills at their first use */
    double coming_bytes;              /* of that, what is not there yet */
    double planned_bytes;             /* the areas of this process's workers */
    double peak_bytes;                /* largest look since the areas were made */
};

struct ranks;    /* ranks.h; NULL: one process issues for all workers */
struct timeline; /* timeline.h; NULL: nobody looks */

struct session {
    struct backend_options options;
    const struct plan *plan; /* NULL: nothing loaded */
    int worker_count;
    struct ranks *ranks;
    struct timeline *timeline;
    struct cuda_worker *workers;
    cudaStream_t origin; /* forks to all streams and joins them */
    cudaEvent_t fork, join;
    cublasLtHandle_t lt;
    cudnnHandle_t dnn;
    struct convolution *convolutions; /* convolution.h: found so far, kept over loads */
    double search_seconds;            /* spent on finding them */
    int counters_per_stream;
    struct footprint footprint;
    cudaGraphExec_t *graphs; /* per list, with launch graph; NULL until captured */
    void *staging;           /* pinned: fed buffers on their way to a device */
    size_t staging_bytes;
};

/* "what: the library's words"; RH_FAILED, or RH_OUT_OF_MEMORY where that is the reason. */
enum rh_status cuda_failed(const char *what, cudaError_t error);
#define CUDA_DO(call)                                                                              \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        if (error_ != cudaSuccess)                                                                 \
            return cuda_failed(#call, error_);                                                     \
    } while (0)
#define DNN_DO(call)                                                                               \
    do {                                                                                           \
        cudnnStatus_t error_ = (call);                                                             \
        if (error_ != CUDNN_STATUS_SUCCESS)                                                        \
            return fail(RH_FAILED, "%s: %s", #call, cudnnGetErrorString(error_));                  \
    } while (0)
#define LT_DO(call)                                                                                \
    do {                                                                                           \
        cublasStatus_t error_ = (call);                                                            \
        if (error_ != CUBLAS_STATUS_SUCCESS)                                                       \
            return fail(RH_FAILED, "%s: %s", #call, cublasLtGetStatusString(error_));              \
    } while (0)

/* memory.c: memory_check fails with RH_OUT_OF_MEMORY where the plan does not fit beside what is there;
 * options.unchecked_memory leaves that to cudaMalloc. areas_make checks too. */
enum rh_status memory_look(struct session *session);
enum rh_status memory_check(struct session *session);
void memory_tell(const struct session *session, struct result *result);
/* Communicators take what the device's file says, less what they took in `joined_bytes`. */
void memory_expect_communicators(struct session *session, double joined_bytes);
enum rh_status areas_make(struct session *session);
void areas_drop(struct session *session);
void *view_pointer(const struct session *session, int worker, const struct view *view);
/* Views of one shape and element size, whatever their strides. */
void view_copy_strided(cudaStream_t stream, const struct view *from, const void *source,
                       const struct view *to, void *target);
void *buffer_pointer(const struct session *session, int worker, int buffer);

/* ready.c: ready_search finds all convolutions, before the areas are there, since it wants memory of
 * its own. */
enum rh_status ready_search(struct session *session);
enum rh_status ready_make(struct session *session);
void ready_drop(struct session *session);

/* compute.c: launches one compute instruction on its stream. */
enum rh_status compute_launch(struct session *session, int worker, int list,
                              const struct instruction *instruction);

/* issue.c: makes the list's graph, with launch graph and once; runs a list, in the order of the
 * session's origin. */
enum rh_status issue_capture(struct session *session, int list);
enum rh_status issue_list(struct session *session, int list);

/* steps.c: runs the order's lists. */
enum rh_status steps_run(struct session *session, const struct run_order *order,
                         const struct backend_feed *feed, struct result *result);

#endif
