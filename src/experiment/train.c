#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "experiment/sections.h"

/* A string, or an object whose `type` is that string: gives the word and the object (or NULL). */
static enum rh_status word_or_object(const cJSON *parent, const char *where, const char *key,
                                     const char **word, const cJSON **object)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(parent, key);
    *object = NULL;
    if (!item)
        return RH_OK;
    if (cJSON_IsString(item)) {
        *word = item->valuestring;
        return RH_OK;
    }
    if (!cJSON_IsObject(item))
        return fail(RH_INVALID, "%s: '%s' must be a name or an object with 'type'", where, key);
    *object = item;
    return json_string_required(item, where, "type", word);
}

static enum rh_status read_loss(struct training *t, const cJSON *train, const char *where)
{
    static const char *const losses[] = {"mse", "cross_entropy"};
    static const char *const reductions[] = {"mean", "sum"};
    const char *word = "cross_entropy";
    const char *reduction = "mean";
    const cJSON *object = NULL;
    int loss = 0;
    int sum = 0;
    RETURN_IF_FAILED(word_or_object(train, where, "loss", &word, &object));
    RETURN_IF_FAILED(json_choice("loss", word, losses, 2, &loss));
    if (object) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "type", "reduction"));
        RETURN_IF_FAILED(json_string(object, where, "reduction", &reduction));
        RETURN_IF_FAILED(json_choice("reduction", reduction, reductions, 2, &sum));
    }
    t->loss = (enum loss_kind)loss;
    t->loss_sum = sum;
    return RH_OK;
}

static enum rh_status read_sgd(struct training *t, const cJSON *object, const char *where)
{
    t->learning_rate = 0.01;
    if (!object)
        return RH_OK;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "type", "lr", "momentum", "dampening",
                                     "weight_decay", "nesterov"));
    RETURN_IF_FAILED(json_number(object, where, "momentum", 0, 1, &t->momentum));
    RETURN_IF_FAILED(json_number(object, where, "dampening", 0, 1, &t->dampening));
    RETURN_IF_FAILED(json_bool(object, where, "nesterov", &t->nesterov));
    if (t->nesterov && (t->momentum == 0 || t->dampening != 0))
        return fail(RH_INVALID,
                    "%s: nesterov needs momentum > 0 and dampening 0; they are %g and %g", where,
                    t->momentum, t->dampening);
    return RH_OK;
}

static enum rh_status read_adam(struct training *t, const cJSON *object, const char *where)
{
    t->learning_rate = 1e-3;
    t->beta1 = 0.9;
    t->beta2 = 0.999;
    t->epsilon = 1e-8;
    t->weight_decay = t->optimizer == OPTIMIZER_ADAMW ? 0.01 : 0;
    if (!object)
        return RH_OK;
    RETURN_IF_FAILED(
        JSON_CHECK_KEYS(object, where, "type", "lr", "beta1", "beta2", "epsilon", "weight_decay"));
    RETURN_IF_FAILED(json_number(object, where, "beta1", 0, 0.9999999, &t->beta1));
    RETURN_IF_FAILED(json_number(object, where, "beta2", 0, 0.9999999, &t->beta2));
    return json_number(object, where, "epsilon", 0, 1, &t->epsilon);
}

static enum rh_status read_optimizer(struct training *t, const cJSON *train, const char *where)
{
    static const char *const names[] = {"sgd", "adam", "adamw"};
    const char *word = "sgd";
    const cJSON *object = NULL;
    int index = 0;
    RETURN_IF_FAILED(word_or_object(train, where, "optimizer", &word, &object));
    RETURN_IF_FAILED(json_choice("optimizer", word, names, 3, &index));
    t->optimizer = (enum optimizer_kind)index;
    RETURN_IF_FAILED(index == 0 ? read_sgd(t, object, where) : read_adam(t, object, where));
    if (!object)
        return RH_OK;
    RETURN_IF_FAILED(json_number(object, where, "lr", 0, 1e6, &t->learning_rate));
    return json_number(object, where, "weight_decay", 0, 1e6, &t->weight_decay);
}

/* "dynamic" (torch's GradScaler with its defaults), a fixed number, an object, "none". */
static enum rh_status read_loss_scale(struct training *t, const cJSON *train, const char *where)
{
    static const char *const words[] = {"dynamic", "none"};
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(train, "loss_scale");
    struct gradient_scaling *s = &t->scaling;
    const char *word = t->precision == DTYPE_F16 ? words[0] : words[1];
    int none = 0;
    int64_t interval = 2000;
    if (cJSON_IsNumber(item)) {
        s->growth = s->backoff = 1;
        s->interval = 1;
        return json_number(train, where, "loss_scale", 1e-30, 1e30, &s->loss_scale);
    }
    if (!cJSON_IsObject(item)) {
        RETURN_IF_FAILED(json_string(train, where, "loss_scale", &word));
        RETURN_IF_FAILED(json_choice("loss_scale", word, words, 2, &none));
        item = NULL;
    }
    s->loss_scale = none ? 0 : 65536;
    s->growth = 2;
    s->backoff = 0.5;
    if (item) {
        RETURN_IF_FAILED(JSON_CHECK_KEYS(item, where, "initial", "growth", "backoff", "interval"));
        RETURN_IF_FAILED(json_number(item, where, "initial", 1e-30, 1e30, &s->loss_scale));
        RETURN_IF_FAILED(json_number(item, where, "growth", 1, 1e6, &s->growth));
        RETURN_IF_FAILED(json_number(item, where, "backoff", 1e-6, 1, &s->backoff));
        RETURN_IF_FAILED(json_integer(item, where, "interval", 1, 1000000000, &interval));
    }
    s->interval = (int)interval;
    return RH_OK;
}

static enum rh_status read_scaling(struct training *t, const cJSON *train, const char *where)
{
    RETURN_IF_FAILED(read_loss_scale(t, train, where));
    return json_number(train, where, "clip_grad_norm", 1e-30, 1e30, &t->scaling.clip_norm);
}

/* What cannot be written is refused before the training, not after it. */
static enum rh_status check_folder(const char *path, const char *where)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? text_format("%.*s", (int)(slash - path) + 1, path) : text_copy(".");
    bool fine = access(folder, W_OK) == 0;
    free(folder);
    struct stat info;
    if (fine && stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return fail(RH_INVALID, "%s: cannot write '%s': it is there and no file", where, path);
    return fine ? RH_OK
                : fail(RH_INVALID, "%s: cannot write '%s': %s", where, path, strerror(errno));
}

static enum rh_status read_files(struct experiment *e, const cJSON *train, const char *where)
{
    const char *init = NULL;
    const char *save = NULL;
    const char *resume = NULL;
    int64_t every = 0;
    RETURN_IF_FAILED(json_string(train, where, "init", &init));
    RETURN_IF_FAILED(json_string(train, where, "save", &save));
    RETURN_IF_FAILED(json_string(train, where, "resume", &resume));
    RETURN_IF_FAILED(json_integer(train, where, "save_every", 0, 1000000, &every));
    e->init_path = text_copy(init);
    e->save_path = text_copy(save);
    e->resume_path = text_copy(resume);
    e->save_every = (int)every;
    if (init && resume)
        return fail(RH_INVALID, "%s: train.init '%s' and train.resume '%s' are both given", where,
                    init, resume);
    if (every > 0 && !save)
        return fail(RH_INVALID, "%s: train.save_every is %d and train.save is missing", where,
                    e->save_every);
    return save ? check_folder(save, where) : RH_OK;
}

enum rh_status section_train(struct experiment *e, const char *where)
{
    static const char *const precisions[] = {"fp32", "tf32", "bf16", "fp16"};
    const cJSON *train = cJSON_GetObjectItemCaseSensitive(e->json, "train");
    struct training *t = &e->training;
    static const char *const formats[] = {"contiguous", "channels_last"};
    const char *precision = "fp32";
    const char *format = formats[0];
    int64_t steps = 4;
    int64_t accumulate = 1;
    int index = 0;
    if (train)
        RETURN_IF_FAILED(JSON_CHECK_KEYS(train, where, "loss", "optimizer", "precision", "steps",
                                         "accumulate", "init", "save", "save_every", "resume",
                                         "memory_format", "fusion", "loss_scale", "clip_grad_norm",
                                         "lr_schedule"));
    RETURN_IF_FAILED(read_loss(t, train, where));
    RETURN_IF_FAILED(read_optimizer(t, train, where));
    RETURN_IF_FAILED(json_string(train, where, "precision", &precision));
    RETURN_IF_FAILED(json_choice("precision", precision, precisions, 4, &index));
    dtype_parse(precisions[index], &t->precision);
    RETURN_IF_FAILED(read_scaling(t, train, where));
    RETURN_IF_FAILED(rate_schedule_read(train, where, &e->schedule));
    RETURN_IF_FAILED(json_string(train, where, "memory_format", &format));
    RETURN_IF_FAILED(json_choice("memory_format", format, formats, 2, &index));
    t->channels_last = index == 1;
    RETURN_IF_FAILED(json_bool(train, where, "fusion", &t->fusion));
    RETURN_IF_FAILED(json_integer(train, where, "steps", 1, 1000000, &steps));
    RETURN_IF_FAILED(json_integer(train, where, "accumulate", 1, 1000000, &accumulate));
    t->steps = (int)steps;
    t->accumulate = (int)accumulate;
    return read_files(e, train, where);
}
