#include "experiment/values.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rank.h"
#include "op/convert.h"
#include "op/layout.h"

enum rh_status values_open(struct values *v, const struct experiment *e,
                           const struct strategy_plan *plan)
{
    const struct model *m = e->model;
    struct dataset_column columns[DATASET_COLUMNS];
    struct tensor_type target;
    *v = (struct values){.experiment = e, .plan = plan};
    RETURN_IF_FAILED(graph_target_type(m, e->training.loss, 1, &target));
    struct tensor_type output = model_output_type(m, m->layer_count - 1);
    columns[DATASET_INPUT] = (struct dataset_column){m->input.shape, m->input.dtype, 0};
    if (m->input.dtype == DTYPE_I64) /* indices of the first embedding's table */
        columns[DATASET_INPUT].limit = m->parameters[0].shape.dim[0];
    struct shape sample = target.shape;
    sample.rank--;
    memmove(&sample.dim[0], &sample.dim[1], (size_t)sample.rank * sizeof sample.dim[0]);
    columns[DATASET_TARGET] = (struct dataset_column){sample, target.dtype, output.shape.dim[1]};
    RETURN_IF_FAILED(e->data_path ? dataset_from_file(e->data_path, columns, &v->dataset)
                                  : dataset_synthetic(e->seed, columns, &v->dataset));
    return e->init_path ? safetensors_read(e->init_path, &v->init) : RH_OK;
}

void values_close(struct values *v)
{
    if (v->dataset)
        dataset_free(v->dataset);
    safetensors_free(&v->init);
}

/* From the file if it names the tensor (it must then name it rightly), else by the init rule. */
static enum rh_status initial_value(const struct values *v, const char *name,
                                    const struct tensor_type *type, const void **from)
{
    char got[64];
    char expected[64];
    *from = NULL;
    if (!v->experiment->init_path)
        return RH_OK;
    const struct named_tensor *tensor = safetensors_find(&v->init, name);
    if (!tensor)
        return fail(RH_INVALID, "'%s' has no tensor '%s'", v->experiment->init_path, name);
    if (tensor->type.dtype != type->dtype || !shape_equal(&tensor->type.shape, &type->shape))
        return fail(RH_INVALID, "'%s': '%s' is %s %s, the model wants %s %s",
                    v->experiment->init_path, name, dtype_name(tensor->type.dtype),
                    shape_text(got, &tensor->type.shape), dtype_name(type->dtype),
                    shape_text(expected, &type->shape));
    *from = tensor->data;
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

/* A tensor's type as it lies at its home: a parameter has a buffer of its own. */
static const struct tensor_type *home_type(const struct role *role, const struct tensor_home *home,
                                           const struct tensor_type *type)
{
    const struct buffer *buffer = &role->buffers[home->buffer];
    return buffer->use == USE_PARAMETER ? &buffer->type : type;
}

static void init_parameter(const struct tensor_type *type, const struct parameter *p, uint64_t seed,
                           char *to)
{
    float *rows = memory_new(type_bytes(type));
    parameter_init(p, seed, rows);
    layout_from_rows(type, rows, to);
    free(rows);
}

static enum rh_status fill_images(const struct values *v, int role, struct images *images)
{
    const struct model *m = v->experiment->model;
    const void *from = NULL;
    for (int i = 0; i < m->parameter_count; i++) {
        const struct tensor_home *home = &v->plan->parameters[i];
        const struct parameter *p = &m->parameters[i];
        struct tensor_type type = {DTYPE_F32, p->shape};
        if (home->role != role)
            continue;
        RETURN_IF_FAILED(initial_value(v, p->name, &type, &from));
        char *to = image_of(images, home->buffer) + home->offset;
        if (from)
            layout_from_rows(home_type(images->role, home, &type), from, to);
        else
            init_parameter(home_type(images->role, home, &type), p, v->experiment->seed, to);
    }
    for (int i = 0; i < m->state_count; i++) {
        const struct tensor_home *home = &v->plan->states[i];
        const struct state *s = &m->states[i];
        if (home->role != role)
            continue;
        RETURN_IF_FAILED(initial_value(v, s->name, &s->type, &from));
        char *to = image_of(images, home->buffer) + home->offset;
        if (from)
            memcpy(to, from, type_bytes(&s->type));
        else
            state_init(s, to);
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
                                  const struct tensor_home *home, const char *name,
                                  const struct tensor_type *type, struct named_tensor *out)
{
    const struct plan *plan = v->plan->plan;
    size_t bytes = plan->roles[home->role].buffers[home->buffer].bytes;
    char *block = memory_new(bytes);
    enum rh_status status = v->experiment->backend->read(session, first_worker(plan, home->role),
                                                         home->buffer, block, bytes);
    out->name = text_copy(name);
    out->type = *type;
    out->data = memory_new(type_bytes(type));
    if (status == RH_OK)
        layout_to_rows(home_type(&plan->roles[home->role], home, type), block + home->offset,
                       out->data);
    free(block);
    return status;
}

enum rh_status values_save(struct values *v, struct session *session)
{
    const struct model *m = v->experiment->model;
    int count = m->parameter_count + m->state_count;
    struct named_tensor *tensors = memory_new_array((size_t)count, sizeof *tensors);
    enum rh_status status = RH_OK;
    for (int i = 0; i < m->parameter_count && status == RH_OK; i++) {
        struct tensor_type type = {DTYPE_F32, m->parameters[i].shape};
        status = read_tensor(v, session, &v->plan->parameters[i], m->parameters[i].name, &type,
                             &tensors[i]);
    }
    for (int i = 0; i < m->state_count && status == RH_OK; i++)
        status = read_tensor(v, session, &v->plan->states[i], m->states[i].name, &m->states[i].type,
                             &tensors[m->parameter_count + i]);
    if (status == RH_OK && rank_is_first())
        status = safetensors_write(v->experiment->save_path, tensors, count);
    for (int i = 0; i < count; i++) {
        free(tensors[i].name);
        free(tensors[i].data);
    }
    free(tensors);
    return status;
}

/* Row of the buffer's first sample in the global batch of a step (plan.h, struct samples). */
static int64_t first_row(const struct samples *s, int pass, const int coordinate[MESH_MAX_AXES])
{
    int64_t share = s->axis >= 0 ? coordinate[s->axis] * s->samples_per_coordinate : 0;
    return pass * s->samples_per_pass + share + s->first;
}

/* Datasets hold fp32, row-major: what is stored in less is rounded here, or reordered. */
static enum rh_status fill_rows(const struct values *v, const struct buffer *buffer, int step,
                                int64_t first, void *data)
{
    int column = buffer->use == USE_INPUT ? DATASET_INPUT : DATASET_TARGET;
    int64_t batch = v->experiment->batch * v->experiment->training.accumulate;
    int64_t elements = shape_elements(&buffer->type.shape);
    bool low = dtype_is_low(buffer->type.dtype);
    bool reorders = layout_reorders(&buffer->type);
    if (!low && !reorders)
        return dataset_rows(v->dataset, column, step, batch, first, buffer->samples.count, data);
    struct tensor_type wide = buffer->type;
    wide.dtype = low ? DTYPE_F32 : wide.dtype;
    void *rows = memory_new(type_bytes(&wide));
    void *ordered = reorders && low ? memory_new(type_bytes(&wide)) : reorders ? data : rows;
    enum rh_status status =
        dataset_rows(v->dataset, column, step, batch, first, buffer->samples.count, rows);
    if (status == RH_OK && reorders)
        layout_from_rows(&wide, rows, ordered);
    if (status == RH_OK && low)
        convert_from_f32(buffer->type.dtype, ordered, data, elements);
    if (ordered != rows && ordered != data)
        free(ordered);
    free(rows);
    return status;
}

enum rh_status values_fill(void *context, int worker, int step, int pass,
                           const struct buffer *buffer, const int coordinate[MESH_MAX_AXES],
                           void *data)
{
    const struct values *v = context;
    const struct training *t = &v->experiment->training;
    (void)worker;
    if (buffer->use == USE_CONTROL) {
        float *control = data;
        memset(control, 0, CONTROL_ELEMENTS * sizeof *control);
        control[CONTROL_LEARNING_RATE] = (float)t->learning_rate;
        control[CONTROL_LOSS_SLOT] = (float)step;
        return RH_OK;
    }
    return fill_rows(v, buffer, step, first_row(&buffer->samples, pass, coordinate), data);
}
