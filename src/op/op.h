/* Ops: what a compute instruction does, and what it costs in FLOPs and bytes. One line of op_list.h
 * each; shapes in shape.c, costs in count.c. Numbers are kernels/cpu and kernels/cuda. */
#ifndef REHEARSE_OP_OP_H
#define REHEARSE_OP_OP_H

#include "base/status.h"
#include "op/type.h"

enum op_kind {
#define OP(name, class) OP_##name,
#include "op/op_list.h"
#undef OP
    OP_COUNT
};

enum op_class {
    OP_CLASS_MATMUL,
    OP_CLASS_CONVOLUTION,
    OP_CLASS_NORMALIZATION,
    OP_CLASS_POOLING,
    OP_CLASS_ELEMENTWISE,
    OP_CLASS_EMBEDDING,
    OP_CLASS_LOSS,
    OP_CLASS_OPTIMIZER,
    OP_CLASS_MEMORY,
    OP_CLASS_VIEW, /* never an instruction */
    OP_CLASS_COUNT
};

/* Elements of a `control` operand (fp32[CONTROL_ELEMENTS]). */
enum { CONTROL_LEARNING_RATE, CONTROL_LOSS_SLOT, CONTROL_ELEMENTS = 4 };

/* Elements of a `scaler` operand (fp32[SCALER_ELEMENTS]): what torch's GradScaler and clip_grad_norm_
 * decide, as values on the device, so that no step waits for the host. */
enum {
    SCALER_SCALE,      /* of the loss's gradient */
    SCALER_TRACKER,    /* steps without inf or NaN since the scale changed */
    SCALER_MULTIPLIER, /* of this step's gradients: 1 / scale, times the clip factor */
    SCALER_SKIP,       /* 1: a gradient of this step is inf or NaN, the optimizer does nothing */
    SCALER_SKIPPED,    /* steps so far in which it did nothing */
    SCALER_NORM,       /* of this step's gradients before clipping, without the scale */
    SCALER_ELEMENTS = 8
};

/* Elements of a `norm` operand (fp32[NORM_ELEMENTS]). */
enum { NORM_SQUARES, NORM_BAD, NORM_ELEMENTS };

/* An op with its attributes; only the member of its kind is meaningful. Gradient ops carry the
 * attributes of their forward op. */
struct op {
    enum op_kind kind;
    enum dtype compute; /* rate of its arithmetic: F32, TF32, BF16 or F16 */
    bool accumulate;    /* add to what the write holds: losses, gradients of weights and biases,
                           conv2d_input_grad; see op_adds_to */
    bool scaled;            /* optimizers: `scaler` is read */
    union {
        struct {
            int kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w;
            int dilation; /* 1; reserved for convolutions and max pooling */
            int groups;   /* convolutions; 1 elsewhere */
            int output_h, output_w; /* avg_pool2d: adaptive output when > 0 */
            bool ceil_mode;         /* pooling: output sizes round up */
        } window; /* conv2d, max_pool2d, avg_pool2d and their gradients */
        struct {
            double epsilon, momentum;
            bool training;
            bool relu; /* of the result; the gradient is masked by it */
        } norm;
        struct {
            double weight; /* multiplies loss and gradient: 1 / (microbatches * accumulation) */
            bool sum;      /* reduction "sum" instead of "mean" */
        } loss;
        struct {
            double momentum, dampening, weight_decay;
            bool nesterov;
        } sgd;
        struct {
            double beta1, beta2, epsilon, weight_decay;
        } adam;
        struct {
            double max_norm; /* gradients are clipped to it; 0: not */
            bool skip;       /* a step with inf or NaN is left out */
            double growth, backoff; /* of the scale: after `interval` good steps, after a bad one */
            int interval;
        } scaler; /* grad_scaler */
        struct {
            double alpha, beta;
        } scale_add;
    };
};

const char *op_name(enum op_kind kind);       /* "linear" */
enum op_class op_class(enum op_kind kind);
const char *op_class_name(enum op_class c);   /* "matmul", "convolution", … as in device files */
bool op_parse(const char *name, enum op_kind *kind);

/* Whether the op adds to write `index` instead of overwriting it. */
bool op_adds_to(const struct op *op, int index);

enum { OP_MAX_WRITES = 6 }; /* of forward ops; optimizers take any number */

/* Forward ops: the types of the writes from the types of the reads (dtype of the first floating
 * read). Fails with the op, the operand and both numbers. Weight operands must be present. */
enum rh_status op_infer(const struct op *op, const struct tensor_type *reads, int read_count,
                        struct tensor_type writes[OP_MAX_WRITES], int *write_count);

/* Checks the operands of any op, forward, gradient or optimizer, against each other. */
enum rh_status op_check(const struct op *op, const struct tensor_type *reads, int read_count,
                        const struct tensor_type *writes, int write_count);

/* Floating-point operations; a multiply-add is two. Convolutions count direct convolution. */
double op_flops(const struct op *op, const struct tensor_type *reads, int read_count,
                const struct tensor_type *writes, int write_count);

/* Bytes that the op has to read and write once each in device memory. */
double op_bytes(const struct op *op, const struct tensor_type *reads, int read_count,
                const struct tensor_type *writes, int write_count);

/* The most that a library may take for one op: from the device's file. */
struct workspace_limits {
    double convolution_bytes, matmul_bytes;
};

/* Memory that the op works in besides its operands, on a device that is no host: whole lines of 256
 * bytes; 0 for most ops. Batch normalisation's partial sums are a fixed need, what products and
 * convolutions get is a limit. Nothing in it outlives the op. */
size_t op_workspace_bytes(const struct op *op, const struct tensor_type *reads, int read_count,
                          const struct tensor_type *writes, int write_count,
                          const struct workspace_limits *limits);

#endif
