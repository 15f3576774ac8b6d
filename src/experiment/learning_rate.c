#include "experiment/learning_rate.h"

#include <math.h>

#include "base/json.h"

static const int MOST_STEPS = 1000000000;

static enum rh_status read_count(const cJSON *object, const char *where, const char *key,
                                 int64_t least, int *value)
{
    int64_t count = *value;
    RETURN_IF_FAILED(json_integer(object, where, key, least, MOST_STEPS, &count));
    *value = (int)count;
    return RH_OK;
}

static enum rh_status require(const cJSON *object, const char *where, const char *key)
{
    return cJSON_HasObjectItem(object, key)
               ? RH_OK
               : fail(RH_INVALID, "%s: train.lr_schedule wants '%s'", where, key);
}

static enum rh_status read_milestones(const cJSON *object, const char *where,
                                      struct rate_schedule *s)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "milestones");
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (count < 1 || count > SCHEDULE_MILESTONES)
        return fail(RH_INVALID,
                    "%s: train.lr_schedule.milestones has %d steps, 1 to %d are "
                    "expected",
                    where, count, SCHEDULE_MILESTONES);
    for (const cJSON *item = list->child; item; item = item->next) {
        double step = cJSON_IsNumber(item) ? item->valuedouble : -1;
        int before = s->milestone_count ? s->milestones[s->milestone_count - 1] : 0;
        if (!(step > before && step <= MOST_STEPS && step == floor(step)))
            return fail(RH_INVALID,
                        "%s: train.lr_schedule.milestones: number %d is not a step after %d", where,
                        s->milestone_count, before);
        s->milestones[s->milestone_count++] = (int)step;
    }
    return RH_OK;
}

static enum rh_status read_kind(const cJSON *object, const char *where, struct rate_schedule *s)
{
    switch (s->kind) {
    case SCHEDULE_CONSTANT: return JSON_CHECK_KEYS(object, where, "type", "warmup_steps");
    case SCHEDULE_STEP:
        RETURN_IF_FAILED(
            JSON_CHECK_KEYS(object, where, "type", "warmup_steps", "step_size", "gamma"));
        RETURN_IF_FAILED(require(object, where, "step_size"));
        return read_count(object, where, "step_size", 1, &s->step_size);
    case SCHEDULE_MULTI_STEP:
        RETURN_IF_FAILED(
            JSON_CHECK_KEYS(object, where, "type", "warmup_steps", "milestones", "gamma"));
        return read_milestones(object, where, s);
    case SCHEDULE_EXPONENTIAL:
        RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "type", "warmup_steps", "gamma"));
        return require(object, where, "gamma");
    case SCHEDULE_COSINE:
        RETURN_IF_FAILED(
            JSON_CHECK_KEYS(object, where, "type", "warmup_steps", "t_max", "eta_min"));
        RETURN_IF_FAILED(require(object, where, "t_max"));
        RETURN_IF_FAILED(read_count(object, where, "t_max", 1, &s->t_max));
        return json_number(object, where, "eta_min", 0, 1e6, &s->eta_min);
    default:
        RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "type", "warmup_steps", "start_factor",
                                         "end_factor", "total_iters"));
        RETURN_IF_FAILED(json_number(object, where, "start_factor", 0, 1e6, &s->start_factor));
        RETURN_IF_FAILED(json_number(object, where, "end_factor", 0, 1e6, &s->end_factor));
        return read_count(object, where, "total_iters", 1, &s->total_iters);
    }
}

enum rh_status rate_schedule_read(const cJSON *train, const char *where,
                                  struct rate_schedule *schedule)
{
    static const char *const names[] = {"constant",    "step",   "multi_step",
                                        "exponential", "cosine", "linear"};
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(train, "lr_schedule");
    const cJSON nothing = {.type = cJSON_Object};
    const char *word = cJSON_IsString(object) ? object->valuestring : names[0];
    int kind = 0;
    *schedule = (struct rate_schedule){
        .gamma = 0.1, .start_factor = 1.0 / 3, .end_factor = 1, .total_iters = 5};
    if (!object)
        return RH_OK;
    if (!cJSON_IsString(object) && !cJSON_IsObject(object))
        return fail(RH_INVALID, "%s: 'lr_schedule' must be a name or an object with 'type'", where);
    if (cJSON_IsObject(object))
        RETURN_IF_FAILED(json_string(object, where, "type", &word));
    else
        object = &nothing;
    RETURN_IF_FAILED(json_choice("lr_schedule", word, names, 6, &kind));
    schedule->kind = (enum schedule_kind)kind;
    RETURN_IF_FAILED(read_kind(object, where, schedule));
    RETURN_IF_FAILED(json_number(object, where, "gamma", 0, 1e6, &schedule->gamma));
    return read_count(object, where, "warmup_steps", 0, &schedule->warmup_steps);
}

static int milestones_passed(const struct rate_schedule *s, int step)
{
    int passed = 0;
    while (passed < s->milestone_count && s->milestones[passed] <= step)
        passed++;
    return passed;
}

double rate_schedule_at(const struct rate_schedule *s, double rate, int step)
{
    const double pi = 3.14159265358979323846;
    double share = 1;
    if (step < s->warmup_steps)
        return rate * (step + 1) / (s->warmup_steps + 1);
    step -= s->warmup_steps;
    switch (s->kind) {
    case SCHEDULE_STEP: return rate * pow(s->gamma, step / s->step_size);
    case SCHEDULE_MULTI_STEP: return rate * pow(s->gamma, milestones_passed(s, step));
    case SCHEDULE_EXPONENTIAL: return rate * pow(s->gamma, step);
    case SCHEDULE_COSINE:
        return s->eta_min + (rate - s->eta_min) * (1 + cos(pi * step / s->t_max)) / 2;
    case SCHEDULE_LINEAR:
        share = step < s->total_iters ? (double)step / s->total_iters : 1;
        return rate * (s->start_factor + (s->end_factor - s->start_factor) * share);
    default: return rate;
    }
}
