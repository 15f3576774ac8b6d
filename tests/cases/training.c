#include "cases/training.h"

#include <unistd.h>

#include "base/json.h"
#include "base/memory.h"

const char *const model_wx = "{\"name\":\"wx\",\"input\":[1],\"layers\":[{\"name\":\"w\",\"op\":"
                             "\"linear\",\"out\":1,\"bias\":false}]}";

enum { MOST_RUNS = 64, MOST_BATCHES = 16 };

static struct {
    struct trained *runs[MOST_RUNS];
    int count;
    struct {
        struct platform *platform;
        struct experiment *experiment;
        struct strategy_plan plan;
    } plans[MOST_RUNS];
    int plan_count;
} kept;

void training_free_all(void)
{
    for (int i = 0; i < kept.count; i++) {
        safetensors_free(&kept.runs[i]->saved);
        free(kept.runs[i]);
    }
    kept.count = 0;
    for (int i = 0; i < kept.plan_count; i++) {
        strategy_plan_free(&kept.plans[i].plan);
        experiment_close(kept.plans[i].experiment);
        platform_close(kept.plans[i].platform);
    }
    kept.plan_count = 0;
}

static int64_t or_one(int64_t number)
{
    return number ? number : 1;
}

static void write_data(const struct case_training *t, const char *path)
{
    struct named_tensor tensors[2 * MOST_BATCHES];
    int64_t columns = or_one(t->columns);
    int64_t target_columns = or_one(t->target_columns);
    int batches = (int)or_one(t->batches);
    if (t->source)
        return;
    float *zeros = memory_new_array((size_t)(t->rows * target_columns), sizeof *zeros);
    case_require(batches <= MOST_BATCHES, "few batches", __FILE__, __LINE__);
    for (int b = 0; b < batches; b++) {
        struct named_tensor *input = &tensors[2 * b];
        struct named_tensor *target = &tensors[2 * b + 1];
        input->name = text_format("input.%d", b);
        input->type = (struct tensor_type){t->indices ? DTYPE_I64 : DTYPE_F32,
                                           {t->indices    ? 1
                                            : t->pictures ? 4
                                                          : 2,
                                            {t->rows, columns, 1, 1}}};
        input->data = t->indices ? (void *)(uintptr_t)(t->indices + b * t->rows)
                                 : (void *)(uintptr_t)(t->inputs + b * t->rows * columns);
        target->name = text_format("target.%d", b);
        target->type = (struct tensor_type){
            t->labels ? DTYPE_I64 : DTYPE_F32,
            {t->labels ? 1 : 2, {t->target_rows ? t->target_rows : t->rows, target_columns}}};
        target->data = t->labels    ? (void *)(uintptr_t)(t->labels + b * t->rows)
                       : t->targets ? (void *)(uintptr_t)(t->targets + b * t->rows * target_columns)
                                    : zeros;
    }
    enum rh_status status = safetensors_write(path, tensors, 2 * batches);
    for (int i = 0; i < 2 * batches; i++)
        free(tensors[i].name);
    free(zeros);
    CHECK_OK(status);
}

static void write_init(const struct case_training *t, const char *path)
{
    static int64_t zero;
    static char counter[] = "bn.num_batches_tracked";
    struct named_tensor tensors[7];
    int count = 0;
    for (; count < 6 && t->init[count].name; count++) {
        const struct case_values *v = &t->init[count];
        char *name = (char *)(uintptr_t)v->name;
        tensors[count] = (struct named_tensor){
            name, {DTYPE_F32, shape_of(v->rank, v->dims)}, (void *)(uintptr_t)v->values};
    }
    if (count == 0) {
        static char name[] = "w.weight";
        tensors[count++] =
            (struct named_tensor){name, {DTYPE_F32, {2, {1, 1}}}, (void *)(uintptr_t)&t->w};
    }
    if (strncmp(tensors[0].name, "bn.", 3) == 0)
        tensors[count++] = (struct named_tensor){counter, {.dtype = DTYPE_I64}, &zero};
    CHECK_OK(safetensors_write(path, tensors, count));
}

char *training_text(const struct case_training *t, const char *folder)
{
    if (!folder)
        return text_format("{\"name\":\"case\",\"model\":%s,\"data\":{\"batch\":%lld},\"train\":{"
                           "\"loss\":%s,\"optimizer\":%s%s},\"cluster\":\"dgx-1v-32gb\",%s}",
                           t->model ? t->model : model_wx,
                           (long long)(t->batch ? t->batch : t->rows),
                           t->loss ? t->loss : "\"mse\"",
                           t->optimizer ? t->optimizer : "{\"type\":\"sgd\",\"lr\":1}",
                           t->train ? t->train : "", t->rest);
    char *source = t->source ? text_copy(t->source) : text_format("{\"file\":\"%s/data\"}", folder);
    char *text = text_format(
        "{\"name\":\"case\",\"model\":%s,\"data\":{\"batch\":%lld,\"resident\":%s,\"source\":%s},"
        "\"train\":{\"loss\":%s,\"optimizer\":%s,\"steps\":%d,\"init\":\"%s/init\",\"save\":\"%s/"
        "saved\"%s},\"cluster\":\"dgx-1v-32gb\",\"backend\":\"%s\",%s}",
        t->model ? t->model : model_wx, (long long)(t->batch ? t->batch : t->rows),
        t->resident ? "true" : "false", source, t->loss ? t->loss : "\"mse\"",
        t->optimizer ? t->optimizer : "{\"type\":\"sgd\",\"lr\":1}", (int)or_one(t->steps), folder,
        folder, t->train ? t->train : "", case_backend(), t->rest);
    free(source);
    return text;
}

static void run_text(struct trained *trained, const char *text, int steps)
{
    struct rh_experiment *experiment = NULL;
    struct rh_result *result = NULL;
    trained->status = rh_experiment_open(text, &experiment);
    if (trained->status == RH_OK)
        trained->status = rh_experiment_run(experiment, RH_NUMBERS, &result);
    if (trained->status != RH_OK)
        snprintf(trained->error, sizeof trained->error, "%s", rh_error());
    for (int i = 0; trained->status == RH_OK && i < steps && i < 32; i++)
        trained->losses[i] = rh_result_loss(result, i);
    if (trained->status == RH_OK)
        trained->step_seconds = rh_result_step_seconds(result, -1);
    rh_result_free(result);
    rh_experiment_close(experiment);
}

void training_files(const struct case_training *t, char folder[32])
{
    char path[64];
    snprintf(folder, 32, "/tmp/rehearse-case-XXXXXX");
    case_require(mkdtemp(folder) != NULL, "a scratch folder", __FILE__, __LINE__);
    snprintf(path, sizeof path, "%s/data", folder);
    write_data(t, path);
    snprintf(path, sizeof path, "%s/init", folder);
    write_init(t, path);
}

void training_remove(const char *folder)
{
    static const char *const files[] = {"data", "init", "saved"};
    char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

const struct trained *case_train(const struct case_training *t)
{
    char folder[32];
    char path[64];
    case_require(kept.count < MOST_RUNS, "room for runs", __FILE__, __LINE__);
    training_files(t, folder);
    struct trained *trained = memory_new(sizeof *trained);
    kept.runs[kept.count++] = trained;
    char *text = training_text(t, folder);
    run_text(trained, text, (int)or_one(t->steps));
    free(text);
    snprintf(path, sizeof path, "%s/saved", folder);
    if (trained->status == RH_OK && safetensors_read(path, &trained->saved) != RH_OK)
        trained->status = RH_FAILED;
    training_remove(folder);
    return trained;
}

const struct trained *case_trained(const struct case_training *t)
{
    const struct trained *trained = case_train(t);
    if (trained->status != RH_OK)
        fprintf(stderr, "    %s\n", trained->error);
    case_require(trained->status == RH_OK, "the training runs", __FILE__, __LINE__);
    return trained;
}

void case_check_not_trained(const struct case_training *t, const char *part, const char *file,
                            int line)
{
    const struct trained *trained = case_train(t);
    bool found = strstr(trained->error, part) != NULL;
    if (trained->status != RH_INVALID || !found)
        fprintf(stderr, "    status %d, '%s'; expected '%s'\n", (int)trained->status,
                trained->error, part);
    case_check(trained->status == RH_INVALID && found, "the training is refused", file, line);
}

double trained_value(const struct trained *trained, const char *name, int64_t index)
{
    const struct named_tensor *tensor = safetensors_find(&trained->saved, name);
    bool there = tensor && index < shape_elements(&tensor->type.shape);
    case_check(there, name, __FILE__, __LINE__);
    if (!there)
        return NAN;
    union { /* the file's bytes are not aligned */
        int64_t whole;
        float real;
    } value;
    size_t size = dtype_bytes(tensor->type.dtype);
    memcpy(&value, (const char *)tensor->data + (size_t)index * size, size);
    return tensor->type.dtype == DTYPE_I64 ? (double)value.whole : value.real;
}

double trained_w(const struct trained *trained)
{
    return trained_value(trained, "w.weight", 0);
}

const struct strategy_plan *case_plan(const struct case_training *t)
{
    struct platform *platform = NULL;
    struct experiment *experiment = NULL;
    cJSON *json = NULL;
    char *text = training_text(t, NULL);
    enum rh_status status = json_read_text("case", text, &json);
    free(text);
    CHECK_OK(status);
    CHECK_OK(platform_open(&platform));
    CHECK_OK(experiment_open(platform, json, &experiment));
    case_require(kept.plan_count < MOST_RUNS, "room for plans", __FILE__, __LINE__);
    kept.plans[kept.plan_count].platform = platform;
    kept.plans[kept.plan_count].experiment = experiment;
    CHECK_OK(experiment_plan(experiment, &kept.plans[kept.plan_count].plan));
    return &kept.plans[kept.plan_count++].plan;
}

static double bytes_of(const struct role *role, const struct instruction *in)
{
    const struct part *part = NULL;
    switch (in->kind) {
    case INSTRUCTION_COPY: return (double)type_bytes(&role->views[in->copy.from].type);
    case INSTRUCTION_COLLECT:
        part = &role->parts[in->collect.part_first];
        return (double)type_bytes(&role->views[part->send >= 0 ? part->send : part->receive].type);
    case INSTRUCTION_EXCHANGE:
        return (double)type_bytes(
            &role->views[role->messages[in->exchange.message_first].view].type);
    default: return 0;
    }
}

static double add_up(const struct strategy_plan *plan, const char *list, enum instruction_kind kind,
                     const char *name, int *count)
{
    double bytes = 0;
    *count = 0;
    for (int r = 0; r < plan->plan->role_count; r++) {
        const struct role *role = &plan->plan->roles[r];
        for (int l = 0; l < role->list_count; l++) {
            const struct list *here = &role->lists[l];
            for (int i = 0; (!list || strcmp(here->name, list) == 0) && i < here->count; i++) {
                const struct instruction *in = &here->instructions[i];
                if (in->kind != kind || strncmp(in->name, name, strlen(name)) != 0)
                    continue;
                bytes += bytes_of(role, in);
                ++*count;
            }
        }
    }
    return bytes;
}

int plan_count(const struct strategy_plan *plan, const char *list, enum instruction_kind kind,
               const char *name)
{
    int count = 0;
    add_up(plan, list, kind, name, &count);
    return count;
}

double plan_bytes(const struct strategy_plan *plan, const char *list, enum instruction_kind kind,
                  const char *name)
{
    int count = 0;
    return add_up(plan, list, kind, name, &count);
}
