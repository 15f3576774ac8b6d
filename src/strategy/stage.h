/* What all strategies share: a stage is the part of a model that one role trains. It owns the
 * role's persistent buffers and turns the nodes of a training graph into instructions on the
 * devices of their layers, moving values between local devices as they are needed. */
#ifndef REHEARSE_STRATEGY_STAGE_H
#define REHEARSE_STRATEGY_STAGE_H

#include "strategy/strategy.h"

enum { NOT_HERE = -1 };

/* Buckets of a DDP role (buckets.c). */
struct buckets;

/* What travels: the gradients, or their halves, divided by the ranks when they are halves already
 * (torch's fp16_compress_hook and bf16_compress_hook: torch-semantics.md 5.10). */
enum comm_hook { HOOK_ALL_REDUCE, HOOK_FP16, HOOK_BF16 };

struct ddp_options {
    double cap_bytes, first_cap_bytes;
    bool broadcast_buffers;
    bool bucket_views; /* gradients lie in the buckets: no copies, no second memory */
    enum comm_hook hook;
};

struct stage {
    struct plan *plan;
    int role;
    int gpus;
    const struct strategy_request *request;
    const struct graph *graph;  /* of one microbatch; types and names */
    const int *device_of_layer; /* layer_count + 1 (the loss); NOT_HERE: in another role */
    int64_t rows;               /* samples of this role's inputs in one pass */
    int *compute_stream;        /* per local device; -1 while unused */
    int *communication_stream;  /* per local device; -1 while unused */
    struct view *parameter, *gradient, *low; /* per parameter; buffer -1 where not here */
    struct view *state;                      /* per state */
    int *momentum, *variance;                /* per parameter: buffers, -1 */
    int *count, *control;                    /* per local device: buffers, -1 */
    int scaler, scaler_device;               /* buffer, -1: gradients are neither scaled nor clipped */
    int control_host;                        /* buffer, -1 when fed on the devices */
    struct view *control_now;         /* per local device: this list's control, stage_begin */
    int *state_values, *state_counts; /* per local device: flat buffers, -1 */
    int input, target, losses;        /* buffers, -1 */
    int input_device, target_device;  /* where they are needed */
};

/* Makes the role's streams and persistent buffers; `ddp` NULL: not data parallel. `rows` and `axis` (dp axis of the mesh, -1) say
 * which samples its inputs hold. */
void stage_init(struct stage *stage, struct plan *plan, int role,
                const struct strategy_request *request, const struct graph *graph,
                const int *device_of_layer, const struct ddp_options *ddp, int64_t rows, int axis);
void stage_free(struct stage *stage);
/* The device's compute stream, its communication stream: made at the first call. */
int stage_compute(struct stage *stage, int device);
int stage_communication(struct stage *stage, int device);
/* Fills `homes` of the parameters and states that live here. */
void stage_homes(const struct stage *stage, struct strategy_plan *plan);

/* One microbatch on its way through a stage in one list: where each value lies on each device. */
struct pass {
    struct stage *stage;
    struct writer *writer;
    const struct graph *graph;
    const int *device_of_layer;
    struct view *at; /* value x (gpus + 1); buffer -1: not there */
    bool accumulate; /* add to gradients and losses */
    /* Told after each parameter gradient is complete on its device; NULL: nobody wants to know. */
    void (*gradient_ready)(void *context, int parameter);
    void *context;
};

void pass_init(struct pass *pass, struct stage *stage, struct writer *writer,
               const struct graph *graph, int microbatch);
void pass_free(struct pass *pass);

/* A list's beginning: control brought to the devices, low-precision copies of the parameters
 * refreshed; then inputs and targets brought to theirs, once for all microbatches. */
struct staged_inputs {
    struct view input, target; /* all rows of the pass on their devices; buffer -1: not here */
};
void stage_begin(struct stage *stage, struct writer *writer);
void stage_inputs(struct stage *stage, struct writer *writer, struct staged_inputs *inputs);
/* `from` (on local device `source`) copied into `to` (on `target`), with torch's two-way wait. */
void stage_copy(struct stage *stage, struct writer *writer, const char *name, struct view from,
                int source, struct view to, int target);
/* Gives a pass its rows [first, first + count) of the inputs. */
void pass_inputs(struct pass *pass, const struct staged_inputs *inputs, int64_t first);

/* The view of `value` on local `device`, copied there if it lies elsewhere (both devices' compute
 * streams wait for each other, as torch's Tensor.to: torch-semantics section 2.2). */
struct view pass_value(struct pass *pass, int value, int device);
/* States that a value lies there already (received, gathered, a slice of something larger). */
void pass_place(struct pass *pass, int value, int device, struct view view);
bool pass_has(const struct pass *pass, int value);

/* Emit the nodes of the phases on this stage's layers: [first_layer, last_layer]. */
void pass_forward(struct pass *pass, int first_layer, int last_layer);
void pass_loss(struct pass *pass);
void pass_backward(struct pass *pass, int first_layer, int last_layer);
/* Emits one node if its layer is here. */
void pass_node(struct pass *pass, const struct node *node);

/* Named ranges for the timeline on a device's compute stream. */
void stage_span(struct stage *stage, struct writer *writer, int device, const char *name,
                bool begin);

/* One optimizer instruction for each device with parameters, behind the norm of all gradients where
 * they are scaled or clipped. */
void stage_optimizer(struct stage *stage, struct writer *writer);

/* Makes a transient buffer of the writer's list. */
struct view stage_transient(struct writer *writer, const char *name, int device,
                            const struct tensor_type *type, enum purpose purpose);

struct graph_options stage_graph_options(const struct strategy_request *request, int64_t batch,
                                         double loss_weight);

/* DDP over group `group` of `ranks` (buckets.c). Call buckets_new at a list's beginning, hand
 * bucket_gradient_ready to the passes that synchronise, and buckets_finish before the optimizer. */
enum rh_status ddp_options_read(const cJSON *keys, const char *where, struct ddp_options *options);
/* The parameters that are here in the order in which backward completes their gradients; returns their
 * number. */
int ddp_arrival_order(const struct graph *graph, const int *device_of_layer, int *parameters);
struct buckets *buckets_new(struct stage *stage, struct writer *writer,
                            const struct ddp_options *options, int group, int ranks,
                            bool unlimited);
void bucket_gradient_ready(void *buckets, int parameter);
void buckets_finish(struct buckets *buckets);
int buckets_count(const struct buckets *buckets);
void buckets_free(struct buckets *buckets);
/* Start of training: parameters and states of rank 0 to all; before each forward: states (if asked
 * for). */
void ddp_broadcast_parameters(struct stage *stage, struct writer *writer, int group);
void ddp_broadcast_states(struct stage *stage, struct writer *writer, int group);

/* Cuts the layers into `parts` contiguous stages of nearly equal seconds on the given devices (one
 * a part), at places where one value crosses if there are enough of these (balance.c). */
enum rh_status balance_layers(const struct strategy_request *request, const struct graph *graph,
                              const int *devices, int parts, int *part_of_layer);
/* Reads a placement: {"device": ["layer", …]} by names or prefixes, or the cut points; see
 * balance.c. */
enum rh_status placement_read(const struct strategy_request *request, const cJSON *placement,
                              int parts, bool host_allowed, int *part_of_layer);

/* Runs of lists: a step of `accumulate` passes that ends with `last`. */
void order_add_step(struct strategy_plan *plan, int accumulate_first, int accumulate, int last,
                    int passes);

#endif
