/* Our own CUDA kernels, as C calls that launch on a stream: dense, row-major. What cuBLASLt and cuDNN
 * do better is not here. `type` is the element type of the void pointers, computed in fp32; parameters,
 * their gradients and statistics are fp32. Errors show as cudaGetLastError of the caller. */
#ifndef REHEARSE_KERNELS_CUDA_KERNELS_H
#define REHEARSE_KERNELS_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kernel_type { KERNEL_F32, KERNEL_BF16, KERNEL_F16 };

/* elementwise.cu */
void kernel_relu(cudaStream_t s, enum kernel_type type, const void *x, void *y, int64_t n);
void kernel_relu_grad(cudaStream_t s, enum kernel_type type, const void *gy, const void *y, void *gx,
                      int64_t n);
void kernel_add(cudaStream_t s, enum kernel_type type, const void *a, const void *b, void *y,
                int64_t n);
void kernel_scale_add(cudaStream_t s, enum kernel_type type, const void *x, void *y, float alpha,
                      float beta, int64_t n);
void kernel_cast(cudaStream_t s, enum kernel_type from, const void *x, enum kernel_type to, void *y,
                 int64_t n);
/* The same for several tensors in one launch: rows in device memory, of at most KERNEL_ROW_ELEMENTS
 * elements each. */
struct cast_table {
    const void *x;
    void *y;
    int64_t n;
};
void kernel_cast_all(cudaStream_t s, enum kernel_type from, enum kernel_type to,
                     const struct cast_table *device_table, int rows);
/* y = x, or y += x, in fp32. */
void kernel_widen(cudaStream_t s, enum kernel_type type, const void *x, float *y, int64_t n,
                  int accumulate);
/* sum[c] over rows and `area` of x[rows, channels, area]; added to `sum` if accumulate. */
void kernel_channel_sums(cudaStream_t s, enum kernel_type type, const void *x, float *sum,
                         int64_t rows, int64_t channels, int64_t area, int accumulate);
/* Strided views of rank 5 at most to each other, element by element (2, 4 or 8 bytes each). */
struct strided {
    int rank;
    int64_t dim[5], from[5], to[5];
};
void kernel_strided_copy(cudaStream_t s, const void *from, void *to, struct strided shape,
                         int element_bytes);

/* bias.cu: y[rows, channels, area], or [rows, area, channels], += bias[channels] (NULL: none), then
 * relu if asked. */
void kernel_bias_relu(cudaStream_t s, enum kernel_type type, void *y, const void *bias,
                      int64_t rows, int64_t channels, int64_t area, int channels_last, int relu);

/* pool.cu, norm.cu: a tensor of pictures. channels_last: (n, h, w, c) in memory, else (n, c, h, w). */
struct picture {
    int n, c, h, w;
    int channels_last;
};

/* pool.cu: windows as in op.h; `x` is the larger side, oh and ow the size of the smaller, in the same
 * layout */
struct window {
    int kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
};
void kernel_max_pool(cudaStream_t s, enum kernel_type type, const void *x, void *y,
                     struct picture picture, int oh, int ow, struct window window);
/* To the first maximum of each window; a NaN is a maximum. */
void kernel_max_pool_grad(cudaStream_t s, enum kernel_type type, const void *gy, const void *x,
                          const void *y, void *gx, struct picture picture, int oh, int ow,
                          struct window window);
/* adaptive: windows from floor and ceil of the output's cells */
void kernel_avg_pool(cudaStream_t s, enum kernel_type type, const void *x, void *y,
                     struct picture picture, int oh, int ow, struct window window, int adaptive);
void kernel_avg_pool_grad(cudaStream_t s, enum kernel_type type, const void *gy, void *gx,
                          struct picture picture, int oh, int ow, struct window window,
                          int adaptive);

/* norm.cu, norm_grad.cu: batch normalisation, the same bits every time */
struct norm_options {
    float epsilon, momentum;
    int training, relu;
};
/* Device memory that one call of either direction works in, not for two at a time: `sums` of
 * norm_cut_bytes (op/norm_cut.h), whatever is in it; `counters`, one a channel, zeroed once when made
 * and left zero by every call. */
struct norm_memory {
    void *sums;
    unsigned *counters;
};
/* y = (x - mean) invstd gamma + beta, plus `residual` if not NULL, then its positive part if relu.
 * Training takes the batch's statistics, saves them and moves the running ones; evaluation takes the
 * running ones and no save_mean, save_invstd, count. */
void kernel_batch_norm(cudaStream_t s, enum kernel_type type, const void *x, const float *gamma,
                       const float *beta, float *mean, float *var, int64_t *count,
                       const void *residual, void *y, float *save_mean, float *save_invstd,
                       struct picture picture, struct norm_options options,
                       struct norm_memory memory);
/* Gradients of the training forward. relu: gy counts where y > 0; y may be NULL if nothing was added
 * (it is computed again from x). residual_gradient, or NULL, is the gy that counts. gx, or ggamma and
 * gbeta, may be NULL; accumulate adds to the latter. beta is read only if relu and no y. */
void kernel_batch_norm_grad(cudaStream_t s, enum kernel_type type, const void *gy, const void *x,
                            const float *gamma, const float *beta, const float *save_mean,
                            const float *save_invstd, const void *y, void *gx, float *ggamma,
                            float *gbeta, void *residual_gradient, struct picture picture,
                            struct norm_options options, int accumulate,
                            struct norm_memory memory);

/* loss.cu: `losses` is indexed by the slot in control; gradients are times the scaler's scale (NULL: 1) */
void kernel_mse(cudaStream_t s, enum kernel_type type, const void *x, const void *t,
                const float *control, float *losses, int64_t n, float scale, int accumulate);
void kernel_mse_grad(cudaStream_t s, enum kernel_type type, const void *x, const void *t,
                     const float *scaler, void *gx, int64_t n, float scale);
void kernel_cross_entropy(cudaStream_t s, enum kernel_type type, const void *x, const int64_t *t,
                          const float *control, float *losses, int rows, int classes, float weight,
                          int sum, int accumulate);
void kernel_cross_entropy_grad(cudaStream_t s, enum kernel_type type, const void *x,
                               const int64_t *t, const float *scaler, void *gx, int rows,
                               int classes, float weight, int sum);

/* embedding.cu */
void kernel_embedding(cudaStream_t s, enum kernel_type type, const int64_t *index, const void *w,
                      void *y, int64_t rows, int64_t width);
void kernel_embedding_grad(cudaStream_t s, enum kernel_type type, const void *gy,
                           const int64_t *index, float *gw, int64_t rows, int64_t width,
                           int64_t vocabulary, int accumulate);

/* optimizer.cu: tables of device pointers, one launch for all parameters; a row has at most
 * KERNEL_ROW_ELEMENTS elements, larger tensors have several. Behind the rows lie an empty one and as many
 * bytes again, all zero, which the kernel leaves as they were. */
enum { KERNEL_ROW_ELEMENTS = 16384 };
struct optimizer_table {
    float *p;
    const float *g;
    float *m, *v;
    int64_t n;
};
struct optimizer_options {
    int kind; /* 0 sgd, 1 adam, 2 adamw */
    int nesterov;
    float momentum, dampening, weight_decay, epsilon;
    double beta1, beta2; /* 1 - beta^step in fp32 would be off by 1e-4 at the first step */
};
/* scaler, op.h's SCALER_*: may be NULL. */
void kernel_optimizer(cudaStream_t s, const struct optimizer_table *device_table, int rows,
                      const float *control, int64_t *count, const float *scaler,
                      struct optimizer_options options);

/* scaler.cu: kernels/cpu/grad_scaler.c in fp32, the same bits every time. A row has at most
 * KERNEL_ROW_ELEMENTS elements; behind the rows lie two floats a row and one unsigned, zero. */
struct norm_table {
    const float *g;
    int64_t n;
};
void kernel_grad_norm(cudaStream_t s, const struct norm_table *device_table, int rows, float *norm);
struct scaler_options {
    float max_norm, growth, backoff;
    int interval, skip;
};
void kernel_grad_scaler(cudaStream_t s, const float *norms, int rows, const float *before,
                        float *after, struct scaler_options options);

/* copies.cu: pieces of one flat tensor, tables in device memory; collectives of devices that share
 * a GPU */
struct piece_table {
    float *flat;
    float *tensor;
    int64_t n;
};
void kernel_pack(cudaStream_t s, const struct piece_table *device_table, int pieces,
                 int64_t longest);
void kernel_unpack(cudaStream_t s, const struct piece_table *device_table, int pieces,
                   int64_t longest, int accumulate);
enum { KERNEL_MOST_MEMBERS = 64 };
struct member_table {
    const float *send[KERNEL_MOST_MEMBERS];
    float *receive[KERNEL_MOST_MEMBERS]; /* NULL: nothing */
    int count;
};
enum kernel_reduction { KERNEL_SUM, KERNEL_MAX, KERNEL_MIN };
/* Reduces element i of all sends, in order, into element i of all receives. */
void kernel_reduce(cudaStream_t s, struct member_table members, int64_t n,
                   enum kernel_reduction reduction);

#ifdef __cplusplus
}
#endif

#endif
