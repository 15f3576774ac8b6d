#include "parity/parity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "kernels/cpu/cpu.h"
#include "op/convert.h"
#include "op/layout.h"
#include "plan/check.h"
#include "plan/workspace.h"

static void fill(const struct subject *s, int operand, uint64_t seed, void *data);

static double get(enum dtype dtype, const void *data, int64_t i)
{
    float value;
    if (dtype == DTYPE_I64)
        return (double)((const int64_t *)data)[i];
    convert_to_f32(dtype, (const char *)data + i * (int64_t)dtype_bytes(dtype), &value, 1);
    return (double)value;
}

static void put(enum dtype dtype, void *data, int64_t i, double value)
{
    float narrow = (float)value;
    convert_from_f32(dtype, &narrow, (char *)data + i * (int64_t)dtype_bytes(dtype), 1);
}

/* The gradient of a maximum reads the maximum: y of operand 1. */
static void fill_pooled(const struct subject *s, uint64_t seed, void *data)
{
    struct op pool = s->op;
    struct cpu_tensor x = {malloc(type_bytes(&s->types[1]) + 1), s->types[1]};
    struct cpu_tensor y = {data, s->types[2]};
    pool.kind = OP_max_pool2d;
    void *memory = malloc(type_bytes(&s->types[1]) + 1);
    fill(s, 1, seed, memory);
    layout_to_rows(&s->types[1], memory, x.data);
    y.data = malloc(type_bytes(&s->types[2]) + 1);
    if (cpu_run(&pool, &x, 1, &y, 1) != RH_OK)
        abort();
    layout_from_rows(&s->types[2], y.data, data);
    free(memory);
    free(y.data);
    free(x.data);
}

static void fill(const struct subject *s, int operand, uint64_t seed, void *data)
{
    const struct tensor_type *type = &s->types[operand];
    int64_t n = shape_elements(&type->shape);
    uint64_t stream = random_mix(seed, (uint64_t)operand);
    for (int64_t i = 0; i < n; i++) {
        double value = random_normal(stream, (uint64_t)i);
        if (type->dtype == DTYPE_I64)
            ((int64_t *)data)[i] = (int64_t)(random_uniform(stream, (uint64_t)i) *
                                             (double)(s->limit[operand] ? s->limit[operand] : 1));
        else
            put(type->dtype, data, i,
                s->positive[operand]               ? fabs(value) + 0.1
                : s->far_from_zero && operand == 3 ? (value < 0 ? -100 : 100)
                                                   : value);
    }
    if (op_class(s->op.kind) == OP_CLASS_LOSS && operand == 2 && s->reads == 3)
        ((float *)data)[CONTROL_LOSS_SLOT] = (float)(shape_elements(&s->types[s->reads].shape) - 1);
    if (s->op.scaled && operand == 2)
        ((float *)data)[SCALER_SKIP] = s->skip;
    if (s->op.kind == OP_max_pool2d_grad && operand == 2)
        fill_pooled(s, seed, data);
}

static struct plan *make_plan(const struct subject *s, int *buffers)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {1}};
    struct plan *plan = plan_new(s->name, &mesh, -1);
    struct view views[MOST_OPERANDS];
    role_init(plan, 0, "worker", 1);
    int stream = role_add_stream(plan, 0, "compute", 0);
    struct writer w = {plan, 0, role_add_list(plan, 0, "list"), WORK_OTHER, -1};
    for (int i = 0; i < s->reads + s->writes; i++) {
        int same = i >= s->reads ? s->in_place[i - s->reads] - 1 : -1;
        struct buffer buffer = {.name = plan_text(plan, "operand %d", i),
                                .type = s->types[i],
                                .purpose = PURPOSE_ACTIVATIONS,
                                .list = -1,
                                .index = -1};
        buffers[i] = same >= 0 ? buffers[same] : role_add_buffer(plan, 0, buffer);
        views[i] = view_of(&plan->roles[0], buffers[i]);
    }
    write_compute(&w, stream, s->name, &s->op, views, s->reads, views + s->reads, s->writes);
    return plan;
}

static enum rh_status run_on(struct tally *t, int which, const struct subject *s,
                             const struct plan *plan, const int *buffers, void **values)
{
    const struct backend *backend = t->backends[which];
    struct run_entry entry = {0, 1, true};
    struct run_order order = {&entry, 1, 0, 1};
    struct result result = {0};
    RETURN_IF_FAILED(backend->load(t->sessions[which], plan));
    enum rh_status status = RH_OK;
    for (int i = 0; i < s->reads + s->writes && status == RH_OK; i++) {
        size_t bytes = type_bytes(&s->types[i]);
        bool own = i < s->reads || s->in_place[i - s->reads] == 0;
        char *data = malloc(bytes + 1);
        memset(data, 0xff, bytes);
        bool fresh = i >= s->reads && !s->op.accumulate;
        if (!fresh)
            fill(s, i, t->seed, data);
        if (own)
            status = backend->write(t->sessions[which], 0, buffers[i], data, bytes);
        free(data);
    }
    if (status == RH_OK)
        status = backend->run(t->sessions[which], &order, NULL, &result);
    for (int i = 0; i < s->writes && status == RH_OK; i++)
        status = backend->read(t->sessions[which], 0, buffers[s->reads + i], values[i],
                               type_bytes(&s->types[s->reads + i]));
    result_free(&result);
    backend->unload(t->sessions[which]);
    return status;
}

/* The largest difference relative to the largest value, or to `least`; NaN counts as infinite. */
static double distance(const struct tensor_type *type, const void *a, const void *b, double least)
{
    double most = least;
    double difference = 0;
    int64_t n = shape_elements(&type->shape);
    for (int64_t i = 0; i < n; i++) {
        double x = get(type->dtype, a, i);
        double y = get(type->dtype, b, i);
        if (!isfinite(x) || !isfinite(y))
            return INFINITY;
        most = fmax(most, fabs(x));
        difference = fmax(difference, fabs(x - y));
    }
    return most > 0 ? difference / most : difference;
}

void parity_compare(struct tally *t, const struct subject *s)
{
    int buffers[MOST_OPERANDS];
    void *values[2][MOST_OPERANDS];
    struct plan *plan = make_plan(s, buffers);
    double worst = 0;
    t->seen[s->op.kind] = true;
    const struct device_model *gpu = cluster_device_model(t->cluster, 0);
    plan_add_workspace(plan, &gpu->workspace);
    enum rh_status status = plan_check(plan);
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < s->writes; i++)
            values[which][i] = malloc(type_bytes(&s->types[s->reads + i]) + 1);
    for (int which = 0; which < 2 && status == RH_OK; which++)
        status = run_on(t, which, s, plan, buffers, values[which]);
    for (int i = 0; i < s->writes && status == RH_OK; i++)
        worst = fmax(worst, distance(&s->types[s->reads + i], values[0][i], values[1][i],
                                     s->in_place[i] ? 1 : 0)); /* operands of order 1 cancel */
    double unit = t->real == DTYPE_BF16 ? 0x1p-7 : t->real == DTYPE_F16 ? 0x1p-10 : 0;
    double bound = s->bound > 0 ? fmax(s->bound, unit) : 0;
    bool fine = status == RH_OK && worst <= bound;
    printf("%s %s %-34s %.3g of %.3g%s%s\n", fine ? "ok    " : "FAILED", dtype_name(t->real),
           s->name, worst, bound, status == RH_OK ? "" : ": ",
           status == RH_OK ? "" : fail_message());
    t->passed += fine;
    t->failed += !fine;
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < s->writes; i++)
            free(values[which][i]);
    plan_free(plan);
}

void parity_plain(struct tally *t, const char *name, const struct op *op, int reads, int writes,
                  double bound, const struct tensor_type *types)
{
    struct subject s = {.name = name, .op = *op, .reads = reads, .writes = writes, .bound = bound};
    memcpy(s.types, types, (size_t)(reads + writes) * sizeof *types);
    parity_compare(t, &s);
}

enum rh_status parity_find_gpu(struct tally *t)
{
    char version[128];
    RETURN_IF_FAILED(backend_find("reference", &t->backends[0]));
    RETURN_IF_FAILED(backend_find("cuda", &t->backends[1]));
    RETURN_IF_FAILED(t->backends[1]->probe(version));
    printf("%s\n", version);
    return RH_OK;
}

enum rh_status parity_open(struct tally *t)
{
    static const int device = 0;
    RETURN_IF_FAILED(platform_open(&t->platform));
    cJSON *json = cJSON_CreateString("hgx-h200");
    enum rh_status status = cluster_open(t->platform, json, "parity", 1, &t->cluster);
    cJSON_Delete(json);
    struct backend_options options = {.cluster = t->cluster,
                                      .devices = &device,
                                      .device_count = 1,
                                      .numbers = true,
                                      .compute_scale = 1,
                                      .bucket_tensor_seconds = -1};
    for (int i = 0; i < 2 && status == RH_OK; i++)
        status = t->backends[i]->open(&options, &t->sessions[i]);
    return status;
}

void parity_close(struct tally *t)
{
    for (int i = 0; i < 2; i++)
        if (t->sessions[i])
            t->backends[i]->close(t->sessions[i]);
    if (t->cluster)
        cluster_free(t->cluster);
    platform_close(t->platform);
}
