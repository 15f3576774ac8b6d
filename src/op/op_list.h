/* Every op of the project, one line each: OP(name, class).
 * `name` gives OP_NAME and "name"; `class` is the op kind by which device files state efficiencies;
 * the comment behind each line gives the operands in order, reads -> writes.
 *
 * Shapes: x activations [n, …] with the batch first; gX the loss's gradient for X; w, b weight and
 * bias; [] an operand that may be left out (by the operand count).
 * `control` is fp32[4]: learning rate, loss slot, reserved, reserved (op.h: CONTROL_*);
 * `scaler` is fp32[8] (op.h: SCALER_*). */

/* forward */
OP(linear, MATMUL)                     /* x[n,i] w[o,i] [b[o]]           -> y[n,o] */
OP(conv2d, CONVOLUTION)                /* x[n,c,h,w] w[o,c/g,kh,kw] [b[o]] -> y[n,o,p,q] */
OP(batch_norm2d, NORMALIZATION)        /* x gamma[c] beta[c] mean[c] var[c] count(i64)
                                          [residual: added before relu]
                                          -> y save_mean[c] save_invstd[c] mean var count (training)
                                          -> y                            (evaluation) */
OP(relu, ELEMENTWISE)                  /* x -> y */
OP(add, ELEMENTWISE)                   /* a b -> y */
OP(max_pool2d, POOLING)                /* x[n,c,h,w] -> y[n,c,p,q] */
OP(avg_pool2d, POOLING)                /* x -> y; output_h, output_w > 0: adaptive (1,1 is global) */
OP(flatten, VIEW)                      /* x[n,…] -> y[n,m]: the same bytes, no instruction */
OP(embedding, EMBEDDING)               /* index[n](i64) w[v,d] -> y[n,d] */
OP(mse_loss, LOSS)                     /* x target control -> losses[slots] */
OP(cross_entropy, LOSS)                /* x[n,c] target[n](i64) control -> losses[slots] */

/* gradients: the input's and the weights' apart */
OP(linear_input_grad, MATMUL)          /* gy w -> gx */
OP(linear_weight_grad, MATMUL)         /* gy x -> gw [gb] */
OP(conv2d_input_grad, CONVOLUTION)     /* gy w -> gx */
OP(conv2d_weight_grad, CONVOLUTION)    /* gy x -> gw [gb] */
OP(batch_norm2d_input_grad, NORMALIZATION)  /* gy x gamma save_mean save_invstd -> gx */
OP(batch_norm2d_weight_grad, NORMALIZATION) /* gy x save_mean save_invstd -> ggamma gbeta */
OP(batch_norm2d_grad, NORMALIZATION)   /* gy x gamma beta save_mean save_invstd [y]
                                          -> gx ggamma gbeta [gresidual: gy masked by relu];
                                          both of the above in one; y where there was a residual */
OP(relu_grad, ELEMENTWISE)             /* gy y -> gx */
OP(max_pool2d_grad, POOLING)           /* gy x y -> gx: to the first maximum of each window */
OP(avg_pool2d_grad, POOLING)           /* gy -> gx (shape from the write) */
OP(embedding_weight_grad, EMBEDDING)   /* gy index -> gw */
OP(mse_loss_grad, LOSS)                /* x target [scaler: gx is times its scale] -> gx */
OP(cross_entropy_grad, LOSS)           /* x target [scaler] -> gx */

/* optimizers: all parameters of a device in one op; `count` (i64 scalar) goes up by one each time.
 * A scaled one reads `scaler` behind count: gradients are times its multiplier, and where it says skip
 * nothing changes, nor does the count */
OP(sgd, OPTIMIZER)                     /* control count {p g [m]}… -> count {p [m]}… */
OP(adam, OPTIMIZER)                    /* control count {p g m v}… -> count {p m v}… */
OP(adamw, OPTIMIZER)                   /* as adam */
OP(grad_norm, MEMORY)                  /* g… -> norm[2]: sum of squares, number of inf and NaN */
OP(grad_scaler, MEMORY)                /* norms[k,2] scaler -> scaler: multiplier and skip of this step,
                                          scale of the next (torch's GradScaler, clip_grad_norm_) */

/* memory */
OP(zero, MEMORY)                       /* -> y */
OP(scale_add, MEMORY)                  /* x [y] -> y: y = alpha x + beta y; y is read if beta != 0 */
OP(bucket_copy, MEMORY)                /* x -> y: y = alpha x (scale_add's attribute): DDP's copy of a gradient
                                          into its bucket, priced with the device's bucket_tensor_seconds */
OP(pack, MEMORY)                       /* x… -> y: back to back into one flat tensor, in memory order */
OP(unpack, MEMORY)                     /* x -> y…: the reverse; accumulate adds */
OP(cast, MEMORY)                       /* x… -> y…: other element types or memory formats, same shapes */
