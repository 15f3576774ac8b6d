#include "experiment/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* The metadata, in this order. */
enum { FORMAT, STEP, OPTIMIZER, DATA, SEED, SAMPLES, WORDS };
static const char *const keys[WORDS] = {"format", "step",      "optimizer",
                                        "data",   "data.seed", "samples_per_step"};
static const char format[] = "rehearse checkpoint 1";

static char *word_of(const struct experiment *e, int key, int step)
{
    static const char *const optimizers[] = {"sgd", "adam", "adamw"};
    switch (key) {
    case FORMAT: return text_copy(format);
    case STEP: return text_format("%d", step);
    case OPTIMIZER: return text_copy(optimizers[e->training.optimizer]);
    case DATA: return text_copy(data_kind_name(e->source.kind));
    case SEED: return text_format("%llu", (unsigned long long)e->seed);
    default: return text_format("%lld", (long long)(e->batch * e->training.accumulate));
    }
}

/* A whole number and nothing else, or -1. */
static long read_step(const char *text)
{
    char *end = NULL;
    long step = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : -1;
    return step >= 0 && *end == '\0' ? step : -1;
}

/* All words but the step must be what this experiment would write. */
static enum rh_status check_words(const struct experiment *e, const struct safetensors *file)
{
    const char *path = e->resume_path;
    for (int key = 0; key < WORDS; key++) {
        const char *there = safetensors_metadata(file, keys[key]);
        if (!there)
            return fail(RH_INVALID, "'%s' is no checkpoint: '%s' is not in its metadata", path,
                        keys[key]);
        if (key == STEP)
            continue;
        char *here = word_of(e, key, 0);
        bool same = strcmp(there, here) == 0;
        if (!same)
            fail(RH_INVALID, "'%s': %s is '%.60s' in the checkpoint and '%s' in the experiment",
                 path, keys[key], there, here);
        free(here);
        if (!same)
            return RH_INVALID;
    }
    return RH_OK;
}

static enum rh_status check_step(const struct experiment *e, struct checkpoint *c)
{
    const char *text = safetensors_metadata(&c->file, keys[STEP]);
    long step = read_step(text);
    if (step < 0)
        return fail(RH_INVALID, "'%s': step '%.60s' is no number of steps", e->resume_path, text);
    if (step >= e->training.steps)
        return fail(RH_INVALID, "'%s' has %ld steps done, train.steps is %d: nothing is left to do",
                    e->resume_path, step, e->training.steps);
    c->step = (int)step;
    return RH_OK;
}

static enum rh_status check_tensors(const struct experiment *e, const struct strategy_plan *plan,
                                    const struct safetensors *file)
{
    struct stored_list list;
    const void *data;
    enum rh_status status = RH_OK;
    stored_list_make(&list, e->model, plan);
    for (int i = 0; i < list.count && status == RH_OK; i++)
        status = stored_find(&list.items[i], file, e->resume_path, &data);
    if (status == RH_OK)
        status = stored_check_names(&list, file, e->resume_path);
    stored_list_free(&list);
    return status;
}

enum rh_status checkpoint_open(const struct experiment *e, const struct strategy_plan *plan,
                               struct checkpoint *c)
{
    *c = (struct checkpoint){0};
    if (!e->resume_path)
        return RH_OK;
    enum rh_status status = safetensors_read(e->resume_path, &c->file);
    if (status == RH_OK)
        status = check_words(e, &c->file);
    if (status == RH_OK)
        status = check_step(e, c);
    if (status == RH_OK)
        status = check_tensors(e, plan, &c->file);
    if (status != RH_OK)
        checkpoint_close(c);
    return status;
}

void checkpoint_close(struct checkpoint *c)
{
    safetensors_free(&c->file);
    *c = (struct checkpoint){0};
}

enum rh_status checkpoint_write(const struct experiment *e, int step,
                                const struct named_tensor *tensors, int count)
{
    struct named_text words[WORDS];
    for (int key = 0; key < WORDS; key++)
        words[key] = (struct named_text){text_copy(keys[key]), word_of(e, key, step)};
    enum rh_status status = safetensors_write_with(e->save_path, words, WORDS, tensors, count);
    for (int key = 0; key < WORDS; key++) {
        free(words[key].name);
        free(words[key].text);
    }
    return status;
}
