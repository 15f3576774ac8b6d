/* The end of a step: one optimizer instruction a device, over all its parameters. */
#include <stdlib.h>

#include "base/memory.h"
#include "strategy/scaler.h"

static struct op optimizer_op(const struct training *t)
{
    struct op op = {.compute = DTYPE_F32};
    if (t->optimizer == OPTIMIZER_SGD) {
        op.kind = OP_sgd;
        op.sgd.momentum = t->momentum;
        op.sgd.dampening = t->dampening;
        op.sgd.weight_decay = t->weight_decay;
        op.sgd.nesterov = t->nesterov;
    } else {
        op.kind = t->optimizer == OPTIMIZER_ADAM ? OP_adam : OP_adamw;
        op.adam.beta1 = t->beta1;
        op.adam.beta2 = t->beta2;
        op.adam.epsilon = t->epsilon;
        op.adam.weight_decay = t->weight_decay;
    }
    return op;
}

static struct role *role_of(const struct stage *stage)
{
    return &stage->plan->roles[stage->role];
}

/* The optimizer of one device's parameters; scaler NULL: gradients are as they should be. */
static void write_update(struct stage *stage, struct writer *writer, int device,
                         const struct view *scaler)
{
    const struct model *model = stage->graph->model;
    const struct role *role = role_of(stage);
    struct op op = optimizer_op(stage->request->training);
    size_t most = 3 + 4 * (size_t)model->parameter_count;
    struct view *reads = memory_new_array(most, sizeof *reads);
    struct view *writes = memory_new_array(most, sizeof *writes);
    int read_count = 0;
    int write_count = 0;
    reads[read_count++] = stage->control_now[device];
    reads[read_count++] = writes[write_count++] = view_of(role, stage->count[device]);
    op.scaled = scaler != NULL;
    if (scaler)
        reads[read_count++] = *scaler;
    for (int i = 0; i < model->parameter_count; i++) {
        if (stage->device_of_layer[model->parameters[i].layer] != device)
            continue;
        reads[read_count++] = writes[write_count++] = stage->parameter[i];
        reads[read_count++] = stage->gradient[i];
        if (stage->momentum[i] >= 0)
            reads[read_count++] = writes[write_count++] = view_of(role, stage->momentum[i]);
        if (stage->variance[i] >= 0)
            reads[read_count++] = writes[write_count++] = view_of(role, stage->variance[i]);
    }
    write_compute(writer, stage_compute(stage, device), "optimizer", &op, reads, read_count, writes,
                  write_count);
    free(reads);
    free(writes);
}

void stage_optimizer(struct stage *stage, struct writer *writer)
{
    bool scaled = stage->scaler != NOT_HERE;
    struct view *scaler = memory_new_array((size_t)stage->gpus + 1, sizeof *scaler);
    writer->work = WORK_OPTIMIZER;
    writer->microbatch = -1;
    if (scaled)
        scaler_decide(stage, writer, scaler);
    for (int device = 0; device <= stage->gpus; device++) {
        if (stage->count[device] == NOT_HERE)
            continue;
        stage_span(stage, writer, device, "optimizer", true);
        write_update(stage, writer, device, scaled ? &scaler[device] : NULL);
        stage_span(stage, writer, device, "optimizer", false);
    }
    free(scaler);
}
