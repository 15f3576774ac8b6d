/* One device collective or move at once: a small plan is built, checked, loaded on an open session,
 * run, and its results read back. */
#ifndef REHEARSE_COMM_RUN_H
#define REHEARSE_COMM_RUN_H

#include "base/status.h"
#include "op/type.h"

/* A dense tensor of the caller on a local device (gpus: the host). `data` is host memory that
 * mirrors it: read before the run for inputs, written after it for outputs. */
struct comm_tensor {
    int device;
    struct tensor_type type;
    void *data;
};

struct backend;
struct session;

/* An open session of a backend, with `gpus` local devices. `traffic` takes what a call moved. */
struct comm_run {
    const struct backend *backend;
    struct session *session;
    int gpus;
    struct rh_traffic *traffic;
};

/* All inputs and outputs of a call are on `gpus` local devices of one worker. */
enum rh_status comm_run_copy(const struct comm_run *run, const struct comm_tensor *from,
                             const struct comm_tensor *to, int count, double *seconds);
/* from to each of to[]; NCCL's broadcast if all are GPUs and no two are the same, else copies. */
enum rh_status comm_run_broadcast(const struct comm_run *run, const struct comm_tensor *from,
                                  const struct comm_tensor *to, int count, double *seconds);
/* Sum into `out` (new memory on the root's device): inputs[0] is the root, the others are added in
 * order; by a reduce if all are GPUs and no two are the same, else by copies and adds. */
enum rh_status comm_run_reduce_add(const struct comm_run *run, const struct comm_tensor *inputs,
                                   int count, const struct comm_tensor *out, double *seconds);
/* Sum over distinct GPUs, in place. */
enum rh_status comm_run_all_reduce(const struct comm_run *run, const struct comm_tensor *tensors,
                                   int count, double *seconds);

/* Tensors that travel together as one flat tensor; zero-size ones are left out by the caller. */
struct comm_parcel {
    const struct comm_tensor *tensors; /* broadcast: `count`; reduce: devices times `count` */
    int count;
    struct comm_tensor *flats; /* broadcast: one a target; reduce: one, the sum */
};
/* Each parcel of `source` to a flat tensor on every target: NCCL's broadcast if all are different
 * GPUs, else copies. A parcel of one tensor is sent as it lies. */
enum rh_status comm_run_broadcast_parcels(const struct comm_run *run, int source,
                                          const struct comm_parcel *parcels, int count, int targets,
                                          double *seconds);
/* Flattens on each of the devices (devices[root] holds the flat sum) and adds as reduce_add does.
 */
enum rh_status comm_run_reduce_parcels(const struct comm_run *run, const int *devices,
                                       int device_count, int root,
                                       const struct comm_parcel *parcels, int count,
                                       double *seconds);

#endif
