#include "strategy/scaler.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

void scaler_add(struct stage *stage)
{
    const struct gradient_scaling *scaling = &stage->request->training->scaling;
    int64_t elements = SCALER_ELEMENTS;
    if (scaling->loss_scale == 0 && scaling->clip_norm == 0)
        return;
    bool changes = scaling->loss_scale > 0 && (scaling->growth != 1 || scaling->backoff != 1);
    stage->scaler_device = stage->target_device != NOT_HERE ? stage->target_device : 0;
    stage_compute(stage, stage->scaler_device);
    stage->scaler = role_add_buffer(stage->plan, stage->role,
                                    (struct buffer){.name = "scaler",
                                                    .device = stage->scaler_device,
                                                    .type = {DTYPE_F32, shape_of(1, &elements)},
                                                    .purpose = PURPOSE_OPTIMIZER,
                                                    .lifetime = LIFETIME_PERSISTENT,
                                                    .list = -1,
                                                    .use = USE_SCALER,
                                                    .index = changes});
}

static struct role *role_of(const struct stage *stage)
{
    return &stage->plan->roles[stage->role];
}

static bool updates(const struct stage *stage, int device)
{
    return stage->count[device] != NOT_HERE;
}

/* One device's gradients; zeros where it has none. */
static void write_norm(struct stage *stage, struct writer *writer, int device, struct view norm)
{
    const struct model *model = stage->graph->model;
    struct op op = {.kind = OP_grad_norm, .compute = DTYPE_F32};
    struct view *reads = memory_new_array((size_t)model->parameter_count + 1, sizeof *reads);
    int count = 0;
    for (int i = 0; i < model->parameter_count; i++)
        if (stage->device_of_layer[model->parameters[i].layer] == device)
            reads[count++] = stage->gradient[i];
    if (count == 0)
        op.kind = OP_zero;
    write_compute(writer, stage_compute(stage, device), "gradient norm", &op, reads, count, &norm,
                  1);
    free(reads);
}

/* A row for each device that has gradients, all on the scaler's. */
static struct view gather_norms(struct stage *stage, struct writer *writer)
{
    int home = stage->scaler_device;
    int rows = 0;
    for (int device = 0; device <= stage->gpus; device++)
        rows += updates(stage, device);
    int64_t all[2] = {rows ? rows : 1, NORM_ELEMENTS};
    int64_t one[2] = {1, NORM_ELEMENTS};
    struct tensor_type type = {DTYPE_F32, shape_of(2, all)};
    struct tensor_type row_type = {DTYPE_F32, shape_of(2, one)};
    struct view norms = stage_transient(writer, "gradient norms", home, &type, PURPOSE_OPTIMIZER);
    if (rows == 0)
        write_norm(stage, writer, home, norms);
    for (int device = 0, row = 0; device <= stage->gpus; device++) {
        if (!updates(stage, device))
            continue;
        struct view place = view_narrow(norms, 0, row++, 1);
        struct view norm = place;
        if (device != home)
            norm = stage_transient(writer, "gradient norm", device, &row_type, PURPOSE_OPTIMIZER);
        write_norm(stage, writer, device, norm);
        if (device != home)
            stage_copy(stage, writer, "gradient norm", norm, device, place, home);
    }
    return norms;
}

/* Of the workers with different parts of a model; NOT_HERE: each has it all. */
static int model_group(const struct plan *plan)
{
    int axis = plan->role_axis;
    if (axis < 0 || plan->mesh.size[axis] == 1)
        return NOT_HERE;
    for (int i = 0; i < plan->group_count; i++)
        if (plan->groups[i].axes == 1u << axis && plan->groups[i].coordinate_count == 0)
            return i;
    assert(!"a group of the stages");
    return NOT_HERE;
}

/* Workers with different parts of a model sum what they found, so that all decide the same. */
static void share_norms(struct stage *stage, struct writer *writer, int group, struct view norms)
{
    int compute = stage_compute(stage, stage->scaler_device);
    int stream = stage_communication(stage, stage->scaler_device);
    struct collect_part part = {stream, &norms, &norms};
    enum work work = writer->work;
    write_join(writer, compute, stream, "gradient norm");
    writer->work = WORK_COMMUNICATION;
    write_collect(writer, "gradient norm", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, group, 0, 0, &part,
                  1);
    writer->work = work;
    write_join(writer, stream, compute, "gradient norm");
}

void scaler_decide(struct stage *stage, struct writer *writer, struct view *at)
{
    const struct gradient_scaling *scaling = &stage->request->training->scaling;
    int home = stage->scaler_device;
    struct view norms = gather_norms(stage, writer);
    struct view reads[2] = {norms, view_of(role_of(stage), stage->scaler)};
    struct op op = {.kind = OP_grad_scaler, .compute = DTYPE_F32};
    op.scaler.max_norm = scaling->clip_norm;
    op.scaler.skip = scaling->loss_scale > 0;
    op.scaler.growth = scaling->growth;
    op.scaler.backoff = scaling->backoff;
    op.scaler.interval = scaling->interval;
    int group = model_group(stage->plan);
    if (group != NOT_HERE)
        share_norms(stage, writer, group, norms);
    write_compute(writer, stage_compute(stage, home), "gradient scale", &op, reads, 2, &reads[1],
                  1);
    for (int device = 0; device <= stage->gpus; device++) {
        at[device] = reads[1];
        if (!updates(stage, device) || device == home)
            continue;
        at[device] = stage_transient(writer, "scaler", device, &reads[1].type, PURPOSE_OPTIMIZER);
        stage_copy(stage, writer, "scaler", reads[1], home, at[device], device);
    }
}
