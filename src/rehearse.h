/* Rehearse: one experiment, simulated on SimGrid and run on real GPUs. The public C API of
 * librehearse.
 *
 * Every call that can fail returns a status; rh_error() then tells what went wrong. Handles are
 * freed by their own _free or _close; NULL is allowed there. Sizes are bytes, times are seconds. A
 * process may use several clusters, from one thread at a time. */
#ifndef REHEARSE_H
#define REHEARSE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value is also the exit code of the command `rehearse`. */
enum rh_status {
    RH_OK = 0,
    RH_FAILED = 1,        /* the run failed, or the hardware is not there */
    RH_INVALID = 2,       /* bad input or usage */
    RH_OUT_OF_MEMORY = 3, /* it does not fit in a device's or the host's memory */
};

/* What went wrong in this thread's last failed call; "" if nothing did. */
const char *rh_error(void);
const char *rh_version(void);

/* ---- clusters ------------------------------------------------------------------------------- */

/* Devices opened on a backend. */
struct rh_cluster;

/* `cluster` is a name ("dgx-1v-32gb"), a path, or a JSON object as in an experiment; `devices` how
 * many of its GPUs are used, all of one node; `backend` "simgrid" (NULL), "reference" or "cuda". */
enum rh_status rh_cluster_open(const char *cluster, int devices, const char *backend,
                               struct rh_cluster **out);
void rh_cluster_close(struct rh_cluster *cluster); /* after its tensors */
int rh_cluster_devices(const struct rh_cluster *cluster);

/* ---- tensors -------------------------------------------------------------------------------- */

enum rh_dtype { RH_FLOAT32, RH_INT64 };
enum { RH_HOST = -1, RH_MAX_DIMS = 5 };

/* A strided window into memory on one device (0 … devices-1, or RH_HOST). Several tensors may share
 * memory: what the calls below call an alias or a view. */
struct rh_tensor;

/* Zero-filled, dense. rank 0 is a scalar. */
enum rh_status rh_tensor_new(struct rh_cluster *cluster, int device, enum rh_dtype dtype, int rank,
                             const int64_t *dims, struct rh_tensor **out);
void rh_tensor_free(struct rh_tensor *tensor);
/* Dense row-major values in and out; `bytes` must be the tensor's size. */
enum rh_status rh_tensor_write(struct rh_tensor *tensor, const void *values, size_t bytes);
enum rh_status rh_tensor_read(const struct rh_tensor *tensor, void *values, size_t bytes);
int rh_tensor_device(const struct rh_tensor *tensor);
enum rh_dtype rh_tensor_dtype(const struct rh_tensor *tensor);
int rh_tensor_rank(const struct rh_tensor *tensor);
int64_t rh_tensor_dim(const struct rh_tensor *tensor, int dim);
size_t rh_tensor_bytes(const struct rh_tensor *tensor);
/* Elements from one index of `dim` to the next. */
int64_t rh_tensor_stride(const struct rh_tensor *tensor, int dim);
/* Another window into the same memory, as torch's as_strided: strides in elements, none negative;
 * `offset` counts from this one's first element. It must lie in the memory. */
enum rh_status rh_tensor_view(const struct rh_tensor *tensor, int rank, const int64_t *dims,
                              const int64_t *strides, int64_t offset, struct rh_tensor **out);
/* 1 if both lie in the same memory at the same place. */
int rh_tensor_same(const struct rh_tensor *a, const struct rh_tensor *b);

/* ---- moving and device collectives: torch.cuda.comm -------------------------------------------
 */

/* Each is a small plan, checked and run at once; results are the caller's. `seconds` (may be NULL)
 * takes what it cost: simulated, or measured. Every call names its devices: there is no current
 * device. Calls end when what they move is there. */

/* What the last call of a cluster moved: copies from one device to another (or the host), and
 * collectives, each with the bytes of the tensor that all parts have. */
struct rh_traffic {
    int copies, collectives;
    double copy_bytes, collective_bytes;
};
void rh_cluster_traffic(const struct rh_cluster *cluster, struct rh_traffic *traffic);

/* The tensor itself (an alias) if it is there already, else a copy on `device`. Strides are kept if
 * the elements fill their memory without gaps; else the copy is dense. */
enum rh_status rh_to(struct rh_tensor *tensor, int device, struct rh_tensor **out, double *seconds);
/* New memory always, converted (towards zero, from float to int64). */
enum rh_status rh_copy(struct rh_tensor *tensor, int device, enum rh_dtype dtype,
                       struct rh_tensor **out, double *seconds);
/* out[i] on devices[i]; an alias where the source lies there. */
enum rh_status rh_broadcast(struct rh_tensor *tensor, const int *devices, int count,
                            struct rh_tensor **out, double *seconds);
/* Into tensors on GPUs, of the source's shape and type. */
enum rh_status rh_broadcast_into(struct rh_tensor *tensor, struct rh_tensor *const *outs, int count,
                                 double *seconds);
/* Sum of the inputs on `destination`, which must hold one of them (the last such is the root: the
 * others are added to it in order). One input: the very same. */
enum rh_status rh_reduce_add(struct rh_tensor *const *inputs, int count, int destination,
                             struct rh_tensor **out, double *seconds);
/* Pieces along `dim` (negative: from the end) on devices[i], a view where the source lies there.
 * `sizes` NULL: ceil(size / count) each, so that *pieces may be less than count. */
enum rh_status rh_scatter(struct rh_tensor *tensor, const int *devices, int count,
                          const int64_t *sizes, int dim, struct rh_tensor **out, int *pieces,
                          double *seconds);
/* Into tensors on GPUs, whose sizes along `dim` add up to the source's. Always copies. */
enum rh_status rh_scatter_into(struct rh_tensor *tensor, struct rh_tensor *const *outs, int count,
                               int dim, double *seconds);
/* Concatenation along `dim` on `destination` (a device or RH_HOST), of the first input's type.
 * Always a copy. */
enum rh_status rh_gather(struct rh_tensor *const *inputs, int count, int dim, int destination,
                         struct rh_tensor **out, double *seconds);
/* Into a tensor of exactly that shape. */
enum rh_status rh_gather_into(struct rh_tensor *const *inputs, int count, int dim,
                              struct rh_tensor *out, double *seconds);

/* Many tensors in few messages: those of one type are put one after the other into flat pieces of
 * about `buffer_bytes` (0: 10 MiB). */
/* All tensors lie on devices[0]. out[d * count + i] is tensor i on devices[d], cut from a flat
 * piece; for d = 0 an alias of the tensor itself. A piece is closed after the tensor that fills
 * it. */
enum rh_status rh_broadcast_coalesced(struct rh_tensor *const *tensors, int count,
                                      const int *devices, int device_count, size_t buffer_bytes,
                                      struct rh_tensor **out, double *seconds);
/* lists[d] holds counts[d] tensors of one device, the same number everywhere. out[i] is the sum of
 * the i-th ones on `destination`. A piece is closed before a tensor that would overfill it. */
enum rh_status rh_reduce_add_coalesced(struct rh_tensor *const *const *lists, const int *counts,
                                       int list_count, int destination, size_t buffer_bytes,
                                       struct rh_tensor **out, double *seconds);
/* Sum over distinct devices, in place. */
enum rh_status rh_all_reduce(struct rh_tensor *const *tensors, int count, double *seconds);

/* ---- models --------------------------------------------------------------------------------- */

struct rh_model;
enum {
    RH_INPUT = -1,
    RH_PREVIOUS = -2
}; /* what a layer reads: the model's input, the layer before */

/* By builder ("resnet50") or as JSON text (an object as in an experiment's `model`). */
enum rh_status rh_model_new(const char *name_or_json, struct rh_model **out);
/* Layer by layer: `dims` is one sample's shape. Each call names a layer and gives its number, to be
 * read by later ones. */
enum rh_status rh_model_begin(const char *name, int rank, const int64_t *dims,
                              struct rh_model **out);
enum rh_status rh_model_linear(struct rh_model *model, const char *name, int input, int64_t out,
                               int bias, int *layer);
enum rh_status rh_model_conv2d(struct rh_model *model, const char *name, int input, int64_t out,
                               int kernel, int stride, int padding, int groups, int bias,
                               int *layer);
enum rh_status rh_model_batch_norm2d(struct rh_model *model, const char *name, int input,
                                     int *layer);
enum rh_status rh_model_relu(struct rh_model *model, const char *name, int input, int *layer);
enum rh_status rh_model_add(struct rh_model *model, const char *name, int a, int b, int *layer);
enum rh_status rh_model_max_pool2d(struct rh_model *model, const char *name, int input, int kernel,
                                   int stride, int padding, int *layer);
enum rh_status rh_model_global_average(struct rh_model *model, const char *name, int input,
                                       int *layer);
enum rh_status rh_model_flatten(struct rh_model *model, const char *name, int input, int *layer);
/* Elements of all parameters; 0 for a model that does not build (rh_error tells why). */
int64_t rh_model_parameters(const struct rh_model *model);
void rh_model_free(struct rh_model *model);

/* ---- experiments ---------------------------------------------------------------------------- */

/* Model, data, training, cluster and strategy together: what a JSON file of experiments/ says. */
struct rh_experiment;

/* `path_or_json`: a file, or JSON text that starts with '{'. */
enum rh_status rh_experiment_open(const char *path_or_json, struct rh_experiment **out);
/* One key, as the command's --set: "data.batch=64", "strategy.type=ddp". */
enum rh_status rh_experiment_set(struct rh_experiment *experiment, const char *setting);
enum rh_status rh_experiment_set_model(struct rh_experiment *experiment,
                                       const struct rh_model *model);
void rh_experiment_close(struct rh_experiment *experiment);

/* What one run gave. */
struct rh_result;
enum { RH_NUMBERS = 1, RH_TRACE = 2, RH_NO_FOLD = 4 };

/* Plan, checks, run. `flags`: RH_NUMBERS computes the values too, RH_TRACE keeps the timeline,
 * RH_NO_FOLD simulates equal nodes one by one. */
enum rh_status rh_experiment_run(struct rh_experiment *experiment, int flags,
                                 struct rh_result **out);
int rh_result_steps(const struct rh_result *result);
double rh_result_step_seconds(const struct rh_result *result, int step); /* step -1: the median */
double rh_result_samples_per_second(const struct rh_result *result);
double rh_result_loss(const struct rh_result *result, int step); /* NaN without RH_NUMBERS */
int rh_result_devices(const struct rh_result *result);
double rh_result_peak_bytes(const struct rh_result *result, int device);
void rh_result_print(const struct rh_result *result, FILE *out);
/* The report as JSON text; the caller frees it with free(). */
char *rh_result_json(const struct rh_result *result);
enum rh_status rh_result_trace(const struct rh_result *result, const char *path);
void rh_result_free(struct rh_result *result);

#ifdef __cplusplus
}
#endif

#endif
