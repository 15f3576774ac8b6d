/* What the calls of torch.cuda.comm on public tensors share (torch-semantics.md sections 2 and 3):
 * what aliases, what is a view and what is refused is decided in api/; what moves is a plan of
 * comm/run.c. */
#ifndef REHEARSE_API_COMM_H
#define REHEARSE_API_COMM_H

#include "api/tensor.h"

/* Begins a call: nothing has moved, and no time has passed. */
struct comm_run comm_begin(struct rh_cluster *cluster, double *seconds);
/* A dense copy of the values, converted to `dtype`; `data` is freed by the caller. */
enum rh_status comm_dense(const struct rh_tensor *tensor, enum dtype dtype,
                          struct comm_tensor *dense);
/* The memory of a dense tensor. */
struct comm_tensor comm_whole(const struct rh_tensor *tensor);
struct rh_tensor *comm_alias(const struct rh_tensor *tensor);
void comm_free_all(struct rh_tensor **tensors, int count);

/* Values of from[i] into to[i], of the same shape, converted; zero-size ones need no plan. */
enum rh_status comm_copy_values(const struct comm_run *run, struct rh_tensor *const *from,
                                struct rh_tensor *const *to, int count, double *seconds);
/* The same into new tensors on devices[i]; all or none. */
enum rh_status comm_copy_new(const struct comm_run *run, struct rh_tensor *const *from,
                             const int *devices, int count, struct rh_tensor **out,
                             double *seconds);

enum rh_status comm_wrap_dim(const char *call, int dim, int rank, int *wrapped);
/* Fails for a tensor on the host: "scatter: output 1 is on the host". */
enum rh_status comm_on_gpu(const char *call, const char *what, int index,
                           const struct rh_tensor *tensor);

#endif
