/* What strategies write into a list: copies, its beginning, inputs, spans. */
#include "base/memory.h"
#include "strategy/stage.h"

static struct role *role_of(const struct stage *stage)
{
    return &stage->plan->roles[stage->role];
}

struct view stage_transient(struct writer *writer, const char *name, int device,
                            const struct tensor_type *type, enum purpose purpose)
{
    int buffer = role_add_buffer(writer->plan, writer->role,
                                 (struct buffer){.name = name,
                                                 .device = device,
                                                 .type = *type,
                                                 .purpose = purpose,
                                                 .lifetime = LIFETIME_TRANSIENT,
                                                 .list = writer->list,
                                                 .use = USE_NONE,
                                                 .index = -1});
    return view_of(&writer->plan->roles[writer->role], buffer);
}

/* torch-semantics.md 2.2: between GPUs the copy runs on the source's stream and both wait for each
 * other; from the host it runs on the destination's stream, to the host on the source's. */
void stage_copy(struct stage *stage, struct writer *writer, const char *name, struct view from,
                int source, struct view to, int target)
{
    if (source == target) {
        write_copy(writer, stage_compute(stage, source), name, from, to);
        return;
    }
    bool from_host = source == stage->gpus;
    bool to_host = target == stage->gpus;
    int stream = stage_compute(stage, from_host ? target : source);
    if (from_host && stage->compute_stream[source] >= 0)
        write_join(writer, stage->compute_stream[source], stream, name);
    else if (!from_host && !to_host)
        write_join(writer, stage_compute(stage, target), stream, name);
    write_copy(writer, stream, name, from, to);
    if (!from_host)
        write_join(writer, stream, stage_compute(stage, target), name);
}

static void refresh_low_copies(struct stage *stage, struct writer *writer)
{
    const struct model *model = stage->graph->model;
    for (int i = 0; i < model->parameter_count; i++) {
        if (stage->low[i].buffer < 0)
            continue;
        struct op op = {.kind = OP_cast, .compute = DTYPE_F32};
        int device = stage->device_of_layer[model->parameters[i].layer];
        write_compute(writer, stage_compute(stage, device), model->parameters[i].name, &op,
                      &stage->parameter[i], 1, &stage->low[i], 1);
    }
}

void stage_begin(struct stage *stage, struct writer *writer)
{
    writer->work = WORK_INPUT;
    writer->microbatch = -1;
    for (int device = 0; device <= stage->gpus; device++) {
        if (stage->control[device] == NOT_HERE)
            continue;
        struct view control = view_of(role_of(stage), stage->control[device]);
        stage->control_now[device] = control;
        if (device == stage->gpus || stage->control[device] != stage->control_host)
            continue;
        stage->control_now[device] =
            stage_transient(writer, "control", device, &control.type, PURPOSE_INPUTS);
        write_copy(writer, stage_compute(stage, device), "control", control,
                   stage->control_now[device]);
    }
    writer->work = WORK_FORWARD;
    refresh_low_copies(stage, writer);
}

static struct view bring(struct stage *stage, struct writer *writer, const char *name, int buffer,
                         int device)
{
    if (buffer < 0)
        return (struct view){.buffer = NOT_HERE};
    struct view home = view_of(role_of(stage), buffer);
    if (role_of(stage)->buffers[buffer].device == device)
        return home;
    struct view there = stage_transient(writer, name, device, &home.type, PURPOSE_INPUTS);
    write_copy(writer, stage_compute(stage, device), name, home, there);
    return there;
}

void stage_inputs(struct stage *stage, struct writer *writer, struct staged_inputs *inputs)
{
    writer->work = WORK_INPUT;
    writer->microbatch = -1;
    inputs->input = bring(stage, writer, "input", stage->input, stage->input_device);
    inputs->target = bring(stage, writer, "target", stage->target, stage->target_device);
}

void stage_span(struct stage *stage, struct writer *writer, int device, const char *name,
                bool begin)
{
    (begin ? write_begin : write_end)(writer, stage_compute(stage, device), name);
}

struct graph_options stage_graph_options(const struct strategy_request *request, int64_t batch,
                                         double loss_weight)
{
    const struct training *training = request->training;
    double passes = training->loss_sum ? 1 : training->accumulate;
    return (struct graph_options){.batch = batch,
                                  .loss = training->loss,
                                  .loss_weight = loss_weight / passes,
                                  .loss_sum = training->loss_sum,
                                  .precision = training->precision,
                                  .training = true,
                                  .scaled = training->scaling.loss_scale > 0,
                                  .channels_last = training->channels_last,
                                  .loss_slots = training->steps};
}
