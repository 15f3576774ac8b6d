#include "experiment/values.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rank.h"
#include "op/convert.h"
#include "op/layout.h"

enum rh_status values_open(struct values *v, const struct experiment *e,
                           const struct strategy_plan *plan, const struct checkpoint *checkpoint)
{
    const struct model *m = e->model;
    struct dataset_column columns[DATASET_COLUMNS];
    struct tensor_type target;
    *v = (struct values){.experiment = e, .plan = plan, .checkpoint = checkpoint, .begun = -1};
    v->first_step = checkpoint ? checkpoint->step : 0;
    stored_list_make(&v->stored, m, plan);
    RETURN_IF_FAILED(graph_target_type(m, e->training.loss, 1, &target));
    struct tensor_type output = model_output_type(m, m->layer_count - 1);
    columns[DATASET_INPUT] = (struct dataset_column){m->input.shape, m->input.dtype, 0};
    if (m->input.dtype == DTYPE_I64) /* indices of the first embedding's table */
        columns[DATASET_INPUT].limit = m->parameters[0].shape.dim[0];
    struct shape sample = target.shape;
    sample.rank--;
    memmove(&sample.dim[0], &sample.dim[1], (size_t)sample.rank * sizeof sample.dim[0]);
    columns[DATASET_TARGET] = (struct dataset_column){sample, target.dtype, output.shape.dim[1]};
    RETURN_IF_FAILED(
        dataset_open(&e->source, e->seed, columns, e->batch * e->training.accumulate, &v->dataset));
    return e->init_path ? safetensors_read(e->init_path, &v->init) : RH_OK;
}

void values_close(struct values *v)
{
    if (v->dataset)
        dataset_free(v->dataset);
    safetensors_free(&v->init);
    stored_list_free(&v->stored);
}

/* From a file, NULL: by the init rule. */
static enum rh_status initial_value(const struct values *v, const struct stored *stored,
                                    const void **from)
{
    const struct experiment *e = v->experiment;
    *from = NULL;
    if (v->checkpoint && v->checkpoint->file.memory)
        return stored_find(stored, &v->checkpoint->file, e->resume_path, from);
    if (e->init_path && stored->kind != STORED_OPTIMIZER)
        return stored_find(stored, &v->init, e->init_path, from);
    return RH_OK;
}

/* The persistent buffers of a role while they are filled, one block each. */
struct images {
    const struct role *role;
    char **blocks; /* per buffer; NULL: nothing to write */
};

static char *image_of(struct images *images, int buffer)
{
    if (!images->blocks[buffer])
        images->blocks[buffer] = memory_new(images->role->buffers[buffer].bytes);
    return images->blocks[buffer];
}

/* A tensor's type as it lies at its home: in another memory format where the buffer has one. */
static const struct tensor_type *home_type(const struct role *role, const struct stored *stored)
{
    const struct buffer *buffer = &role->buffers[stored->home.buffer];
    bool whole = shape_equal(&buffer->type.shape, &stored->type.shape);
    return whole ? &buffer->type : &stored->type;
}

static void init_parameter(const struct tensor_type *type, const struct parameter *p, uint64_t seed,
                           char *to)
{
    float *rows = memory_new(type_bytes(type));
    parameter_init(p, seed, rows);
    layout_from_rows(type, rows, to);
    free(rows);
}

/* As training begins; a checkpoint's values go over it. */
static void init_scalers(const struct values *v, struct images *images)
{
    const struct gradient_scaling *scaling = &v->experiment->training.scaling;
    for (int b = 0; b < images->role->buffer_count; b++) {
        if (images->role->buffers[b].use != USE_SCALER)
            continue;
        float *scaler = (float *)(void *)image_of(images, b);
        scaler[SCALER_SCALE] = scaling->loss_scale > 0 ? (float)scaling->loss_scale : 1;
        scaler[SCALER_MULTIPLIER] = 1;
    }
}

static enum rh_status fill_images(const struct values *v, int role, struct images *images)
{
    const struct model *m = v->experiment->model;
    const void *from = NULL;
    init_scalers(v, images);
    for (int i = 0; i < v->stored.count; i++) {
        const struct stored *stored = &v->stored.items[i];
        if (stored->home.role != role)
            continue;
        RETURN_IF_FAILED(initial_value(v, stored, &from));
        char *to = image_of(images, stored->home.buffer) + stored->home.offset;
        if (from)
            layout_from_rows(home_type(images->role, stored), from, to);
        else if (stored->kind == STORED_PARAMETER)
            init_parameter(home_type(images->role, stored), &m->parameters[stored->index],
                           v->experiment->seed, to);
        else if (stored->kind == STORED_STATE)
            state_init(&m->states[stored->index], to);
    }
    return RH_OK;
}

static enum rh_status write_images(const struct values *v, struct session *session, int role,
                                   const struct images *images)
{
    const struct plan *plan = v->plan->plan;
    for (int worker = 0; worker < mesh_workers(&plan->mesh); worker++) {
        if (plan_role_of(plan, worker) != role)
            continue;
        for (int b = 0; b < images->role->buffer_count; b++)
            if (images->blocks[b])
                RETURN_IF_FAILED(v->experiment->backend->write(
                    session, worker, b, images->blocks[b], images->role->buffers[b].bytes));
    }
    return RH_OK;
}

enum rh_status values_write(struct values *v, struct session *session)
{
    const struct plan *plan = v->plan->plan;
    enum rh_status status = RH_OK;
    for (int role = 0; role < plan->role_count && status == RH_OK; role++) {
        struct images images = {&plan->roles[role], NULL};
        images.blocks =
            memory_new_array((size_t)images.role->buffer_count + 1, sizeof *images.blocks);
        status = fill_images(v, role, &images);
        if (status == RH_OK)
            status = write_images(v, session, role, &images);
        for (int b = 0; b < images.role->buffer_count; b++)
            free(images.blocks[b]);
        free(images.blocks);
    }
    return status;
}

static int first_worker(const struct plan *plan, int role)
{
    int worker = 0;
    while (plan_role_of(plan, worker) != role)
        worker++;
    return worker;
}

static enum rh_status read_tensor(const struct values *v, struct session *session,
                                  const struct stored *stored, struct named_tensor *out)
{
    const struct plan *plan = v->plan->plan;
    const struct tensor_home *home = &stored->home;
    size_t bytes = plan->roles[home->role].buffers[home->buffer].bytes;
    char *block = memory_new(bytes);
    enum rh_status status = v->experiment->backend->read(session, first_worker(plan, home->role),
                                                         home->buffer, block, bytes);
    out->name = stored->name;
    out->type = stored->type;
    out->data = memory_new(type_bytes(&stored->type));
    if (status == RH_OK)
        layout_to_rows(home_type(&plan->roles[home->role], stored), block + home->offset,
                       out->data);
    free(block);
    return status;
}

/* The optimizer's count and the scaler stand there several times, always the same. */
static bool is_repeated(const struct stored_list *list, int index)
{
    for (int i = 0; i < index && list->items[index].kind == STORED_OPTIMIZER; i++)
        if (strcmp(list->items[i].name, list->items[index].name) == 0)
            return true;
    return false;
}

enum rh_status values_save(struct values *v, struct session *session, int step)
{
    int count = 0;
    enum rh_status status = RH_OK;
    struct named_tensor *tensors = memory_new_array((size_t)v->stored.count + 1, sizeof *tensors);
    for (int i = 0; i < v->stored.count && status == RH_OK; i++)
        if (!is_repeated(&v->stored, i))
            status = read_tensor(v, session, &v->stored.items[i], &tensors[count++]);
    if (status == RH_OK && rank_is_first())
        status = checkpoint_write(v->experiment, step, tensors, count);
    for (int i = 0; i < count; i++)
        free(tensors[i].data);
    free(tensors);
    return status;
}

/* What became of the loss's scale: any worker knows it. */
static enum rh_status read_scaler(struct values *v, struct result *result)
{
    const struct role *role = &v->plan->plan->roles[0];
    float scaler[SCALER_ELEMENTS];
    for (int b = 0; b < role->buffer_count; b++) {
        if (role->buffers[b].use != USE_SCALER)
            continue;
        RETURN_IF_FAILED(v->experiment->backend->read(v->session, 0, b, scaler, sizeof scaler));
        result->loss_scale =
            v->experiment->training.scaling.loss_scale > 0 ? scaler[SCALER_SCALE] : 0;
        result->skipped_steps = (int)scaler[SCALER_SKIPPED];
        result->gradient_norm = scaler[SCALER_NORM];
        result->scaled = true;
    }
    return RH_OK;
}

/* Ends the run if a signal came: `done` steps are done, and saved if `saved`. */
static enum rh_status check_stop(struct values *v, int done, bool saved)
{
    const struct experiment *e = v->experiment;
    int signal = v->stop ? stop_asked(v->stop) : 0;
    if (!signal)
        return RH_OK;
    if (e->save_path && !saved)
        RETURN_IF_FAILED(values_save(v, v->session, done));
    const char *name = signal == SIGINT ? "SIGINT" : "SIGTERM";
    if (!e->save_path)
        return fail(RH_FAILED, "experiment '%s': ended by %s after step %d of %d; nothing is saved",
                    e->name, name, done, e->training.steps);
    return fail(RH_FAILED, "experiment '%s': ended by %s after step %d of %d, saved in '%s'",
                e->name, name, done, e->training.steps, e->save_path);
}

static enum rh_status begin_step(struct values *v, int step)
{
    int every = v->experiment->save_every;
    int done = v->first_step + step;
    if (step == v->begun)
        return RH_OK;
    v->begun = step;
    if (v->stop)
        stop_arm(v->stop);
    bool due = step > 0 && every > 0 && done % every == 0;
    if (due)
        RETURN_IF_FAILED(values_save(v, v->session, done));
    return check_stop(v, done, due);
}

enum rh_status values_finish(struct values *v, struct result *result)
{
    int done = v->experiment->training.steps;
    RETURN_IF_FAILED(read_scaler(v, result));
    if (v->experiment->save_path)
        RETURN_IF_FAILED(values_save(v, v->session, done));
    return check_stop(v, done, true);
}

/* Rows of a buffer in the global batch of a step: first, first + stride, … */
struct rows {
    int64_t first, stride;
};

/* In blocks as plan.h says (struct samples); where a dataset is dealt, ranks take turns in a pass.
 */
static struct rows rows_of(const struct values *v, const struct samples *s, int pass,
                           const int coordinate[MESH_MAX_AXES])
{
    int64_t before = pass * s->samples_per_pass;
    if (s->axis < 0)
        return (struct rows){before + s->first, 1};
    int64_t ranks = v->plan->plan->mesh.size[s->axis];
    if (dataset_is_dealt(v->dataset) && ranks * s->samples_per_coordinate == s->samples_per_pass)
        return (struct rows){before + s->first * ranks + coordinate[s->axis], ranks};
    return (struct rows){before + coordinate[s->axis] * s->samples_per_coordinate + s->first, 1};
}

/* Rows one by one, or all at once where they follow one another. */
static enum rh_status copy_rows(const struct values *v, const struct buffer *buffer, int column,
                                int step, struct rows rows, char *data, size_t row_bytes)
{
    int64_t batch = v->experiment->batch * v->experiment->training.accumulate;
    int64_t count = buffer->samples.count;
    if (rows.stride == 1)
        return dataset_rows(v->dataset, column, step, batch, rows.first, count, data);
    for (int64_t i = 0; i < count; i++)
        RETURN_IF_FAILED(dataset_rows(v->dataset, column, step, batch, rows.first + i * rows.stride,
                                      1, data + (size_t)i * row_bytes));
    return RH_OK;
}

/* Datasets hold fp32, row-major: what is stored in less is rounded here, or reordered. */
static enum rh_status fill_rows(const struct values *v, const struct buffer *buffer, int step,
                                struct rows rows, void *data)
{
    int column = buffer->use == USE_INPUT ? DATASET_INPUT : DATASET_TARGET;
    int64_t elements = shape_elements(&buffer->type.shape);
    bool low = dtype_is_low(buffer->type.dtype);
    struct tensor_type wide = buffer->type;
    wide.dtype = low ? DTYPE_F32 : wide.dtype;
    bool reorders = layout_reorders(&wide);
    size_t bytes = type_bytes(&wide);
    void *values = low || reorders ? memory_new(bytes) : data;
    void *ordered = low && reorders ? memory_new(bytes) : reorders ? data : values;
    size_t row_bytes = bytes / (size_t)buffer->samples.count;
    enum rh_status status = copy_rows(v, buffer, column, step, rows, values, row_bytes);
    if (status == RH_OK && reorders)
        layout_from_rows(&wide, values, ordered);
    if (status == RH_OK && low)
        convert_from_f32(buffer->type.dtype, ordered, data, elements);
    if (ordered != values && ordered != data)
        free(ordered);
    if (values != data)
        free(values);
    return status;
}

enum rh_status values_fill(void *context, int worker, int step, int pass,
                           const struct buffer *buffer, const int coordinate[MESH_MAX_AXES],
                           void *data)
{
    struct values *v = context;
    const struct training *t = &v->experiment->training;
    (void)worker;
    RETURN_IF_FAILED(begin_step(v, step));
    if (buffer->use == USE_CONTROL) {
        float *control = data;
        memset(control, 0, CONTROL_ELEMENTS * sizeof *control);
        control[CONTROL_LEARNING_RATE] = (float)rate_schedule_at(
            &v->experiment->schedule, t->learning_rate, v->first_step + step);
        control[CONTROL_LOSS_SLOT] = (float)step;
        return RH_OK;
    }
    return fill_rows(v, buffer, v->first_step + step,
                     rows_of(v, &buffer->samples, pass, coordinate), data);
}
