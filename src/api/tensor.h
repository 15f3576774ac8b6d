/* Tensors of the public API: strided windows into shared, reference-counted memory on one device.
 */
#ifndef REHEARSE_API_TENSOR_H
#define REHEARSE_API_TENSOR_H

#include "comm/run.h"

struct rh_cluster {
    struct platform *platform;
    struct cluster *cluster;
    int *devices;
    int device_count;
    const struct backend *backend;
    struct session *session;
    struct rh_traffic traffic; /* of the last call */
};

struct storage {
    int references;
    int device; /* local; device_count of the cluster: the host */
    int64_t elements;
    void *data; /* values mirrored in host memory */
};

struct rh_tensor {
    struct rh_cluster *cluster;
    struct storage *storage;
    int64_t offset; /* elements */
    struct tensor_type type;
    int64_t stride[MAX_RANK];
};

/* Zero-filled dense memory on a local device. RH_OUT_OF_MEMORY where the host has too little. */
enum rh_status tensor_new(struct rh_cluster *cluster, int device, const struct tensor_type *type,
                          struct rh_tensor **out);
/* As `tensor_new`, with the strides of `like` if its elements fill their memory without gaps. */
enum rh_status tensor_new_like(const struct rh_tensor *like, int device, enum dtype dtype,
                               struct rh_tensor **out);
/* The same memory under another window. */
struct rh_tensor *tensor_view(const struct rh_tensor *tensor, int64_t offset,
                              const struct shape *shape);
/* The same, row-major without gaps. */
struct rh_tensor *tensor_dense_view(const struct rh_tensor *tensor, int64_t offset,
                                    const struct shape *shape);
/* Dense copy in and out of a window. */
void tensor_gather_values(const struct rh_tensor *tensor, void *dense);
void tensor_scatter_values(struct rh_tensor *tensor, const void *dense);
bool tensor_is_dense(const struct rh_tensor *tensor);
/* Local number of a public device number (RH_HOST: device_count), or an error that names both. */
enum rh_status tensor_device(const struct rh_cluster *cluster, const char *call, int device,
                             bool host_allowed, int *local);

#endif
