#include "cases/training.h"

#include <unistd.h>

#include "base/memory.h"

const char *const model_wx = "{\"name\":\"wx\",\"input\":[1],\"layers\":[{\"name\":\"w\",\"op\":"
                             "\"linear\",\"out\":1,\"bias\":false}]}";

enum { MOST_RUNS = 64, MOST_BATCHES = 16 };

static struct {
    struct trained *runs[MOST_RUNS];
    int count;
} kept;

void training_free_all(void)
{
    for (int i = 0; i < kept.count; i++) {
        safetensors_free(&kept.runs[i]->saved);
        free(kept.runs[i]);
    }
    kept.count = 0;
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
    float *zeros = memory_new_array((size_t)(t->rows * target_columns), sizeof *zeros);
    case_require(batches <= MOST_BATCHES, "few batches", __FILE__, __LINE__);
    for (int b = 0; b < batches; b++) {
        struct named_tensor *input = &tensors[2 * b];
        struct named_tensor *target = &tensors[2 * b + 1];
        input->name = text_format("input.%d", b);
        input->type = (struct tensor_type){t->indices ? DTYPE_I64 : DTYPE_F32,
                                           {t->indices ? 1 : 2, {t->rows, columns}}};
        input->data = t->indices ? (void *)(uintptr_t)(t->indices + b * t->rows)
                                 : (void *)(uintptr_t)(t->inputs + b * t->rows * columns);
        target->name = text_format("target.%d", b);
        target->type = (struct tensor_type){t->labels ? DTYPE_I64 : DTYPE_F32,
                                            {t->labels ? 1 : 2, {t->rows, target_columns}}};
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
    struct named_tensor tensors[6];
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
    CHECK_OK(safetensors_write(path, tensors, count));
}

static char *experiment_text(const struct case_training *t, const char *folder)
{
    return text_format(
        "{\"name\":\"case\",\"model\":%s,\"data\":{\"batch\":%lld,\"source\":{\"file\":\"%s/"
        "data\"}},"
        "\"train\":{\"loss\":%s,\"optimizer\":%s,\"steps\":%d,\"init\":\"%s/init\",\"save\":\"%s/"
        "saved\"%s},\"cluster\":\"dgx-1v-32gb\",\"backend\":\"%s\",%s}",
        t->model ? t->model : model_wx, (long long)t->rows, folder, t->loss ? t->loss : "\"mse\"",
        t->optimizer ? t->optimizer : "{\"type\":\"sgd\",\"lr\":1}", (int)or_one(t->steps), folder,
        folder, t->train ? t->train : "", case_backend(), t->rest);
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

const struct trained *case_train(const struct case_training *t)
{
    static const char *const files[] = {"data", "init", "saved"};
    char folder[] = "/tmp/rehearse-case-XXXXXX";
    char path[64];
    case_require(kept.count < MOST_RUNS && mkdtemp(folder), "a scratch folder", __FILE__, __LINE__);
    struct trained *trained = memory_new(sizeof *trained);
    kept.runs[kept.count++] = trained;
    snprintf(path, sizeof path, "%s/data", folder);
    write_data(t, path);
    snprintf(path, sizeof path, "%s/init", folder);
    write_init(t, path);
    char *text = experiment_text(t, folder);
    run_text(trained, text, (int)or_one(t->steps));
    free(text);
    snprintf(path, sizeof path, "%s/saved", folder);
    if (trained->status == RH_OK && safetensors_read(path, &trained->saved) != RH_OK)
        trained->status = RH_FAILED;
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
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
    return tensor->type.dtype == DTYPE_I64 ? (double)((const int64_t *)tensor->data)[index]
                                           : ((const float *)tensor->data)[index];
}

double trained_w(const struct trained *trained)
{
    return trained_value(trained, "w.weight", 0);
}
