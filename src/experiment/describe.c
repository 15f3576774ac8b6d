#include "experiment/describe.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static cJSON *resolved_optimizer(const struct training *t)
{
    static const char *const names[] = {"sgd", "adam", "adamw"};
    cJSON *optimizer = cJSON_CreateObject();
    cJSON_AddStringToObject(optimizer, "type", names[t->optimizer]);
    cJSON_AddNumberToObject(optimizer, "lr", t->learning_rate);
    cJSON_AddNumberToObject(optimizer, "weight_decay", t->weight_decay);
    if (t->optimizer == OPTIMIZER_SGD) {
        cJSON_AddNumberToObject(optimizer, "momentum", t->momentum);
        cJSON_AddNumberToObject(optimizer, "dampening", t->dampening);
        cJSON_AddBoolToObject(optimizer, "nesterov", t->nesterov);
    } else {
        cJSON_AddNumberToObject(optimizer, "beta1", t->beta1);
        cJSON_AddNumberToObject(optimizer, "beta2", t->beta2);
        cJSON_AddNumberToObject(optimizer, "epsilon", t->epsilon);
    }
    return optimizer;
}

static void add_scaling(const struct experiment *e, cJSON *train)
{
    const struct gradient_scaling *s = &e->training.scaling;
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(e->json, "train");
    const cJSON *schedule = cJSON_GetObjectItemCaseSensitive(given, "lr_schedule");
    if (s->loss_scale > 0) {
        cJSON *scale = cJSON_AddObjectToObject(train, "loss_scale");
        cJSON_AddNumberToObject(scale, "initial", s->loss_scale);
        cJSON_AddNumberToObject(scale, "growth", s->growth);
        cJSON_AddNumberToObject(scale, "backoff", s->backoff);
        cJSON_AddNumberToObject(scale, "interval", s->interval);
    } else {
        cJSON_AddStringToObject(train, "loss_scale", "none");
    }
    if (s->clip_norm > 0)
        cJSON_AddNumberToObject(train, "clip_grad_norm", s->clip_norm);
    if (schedule)
        cJSON_AddItemToObject(train, "lr_schedule", cJSON_Duplicate(schedule, true));
}

static cJSON *resolved_train(const struct experiment *e)
{
    const struct training *t = &e->training;
    cJSON *train = cJSON_CreateObject();
    cJSON *loss = cJSON_AddObjectToObject(train, "loss");
    cJSON_AddStringToObject(loss, "type", t->loss == LOSS_MSE ? "mse" : "cross_entropy");
    cJSON_AddStringToObject(loss, "reduction", t->loss_sum ? "sum" : "mean");
    cJSON_AddItemToObject(train, "optimizer", resolved_optimizer(t));
    cJSON_AddStringToObject(train, "precision", dtype_name(t->precision));
    cJSON_AddStringToObject(train, "memory_format",
                            t->channels_last ? "channels_last" : "contiguous");
    cJSON_AddBoolToObject(train, "fusion", t->fusion);
    add_scaling(e, train);
    cJSON_AddNumberToObject(train, "steps", t->steps);
    cJSON_AddNumberToObject(train, "accumulate", t->accumulate);
    if (e->init_path)
        cJSON_AddStringToObject(train, "init", e->init_path);
    if (e->save_path)
        cJSON_AddStringToObject(train, "save", e->save_path);
    if (e->save_every)
        cJSON_AddNumberToObject(train, "save_every", e->save_every);
    if (e->resume_path)
        cJSON_AddStringToObject(train, "resume", e->resume_path);
    return train;
}

static cJSON *resolved_source(const struct data_source *s)
{
    if (s->kind == DATA_SYNTHETIC)
        return cJSON_CreateString("synthetic");
    cJSON *source = cJSON_CreateObject();
    if (s->kind == DATA_BATCHES) {
        cJSON_AddStringToObject(source, "file", s->files[0]);
        return source;
    }
    cJSON_AddStringToObject(source, "kind", data_kind_name(s->kind));
    if (s->kind == DATA_IDX) {
        cJSON_AddStringToObject(source, "images", s->files[0]);
        cJSON_AddStringToObject(source, "labels", s->files[1]);
    } else {
        cJSON_AddItemToObject(
            source, "files", cJSON_CreateStringArray((const char *const *)s->files, s->file_count));
    }
    if (s->channels) {
        cJSON *normalize = cJSON_AddObjectToObject(source, "normalize");
        cJSON_AddItemToObject(normalize, "mean", cJSON_CreateDoubleArray(s->mean, s->channels));
        cJSON_AddItemToObject(normalize, "std", cJSON_CreateDoubleArray(s->deviation, s->channels));
    }
    cJSON_AddBoolToObject(source, "shuffle", s->shuffle);
    return source;
}

static cJSON *resolved_data(const struct experiment *e)
{
    cJSON *data = cJSON_CreateObject();
    cJSON_AddNumberToObject(data, e->batch_per_device ? "batch_per_device" : "batch",
                            (double)e->batch_given);
    cJSON_AddItemToObject(data, "source", resolved_source(&e->source));
    cJSON_AddNumberToObject(data, "seed", (double)e->seed);
    cJSON_AddBoolToObject(data, "resident", e->resident);
    return data;
}

static void copy_key(cJSON *to, const cJSON *from, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);
    if (item)
        cJSON_AddItemToObject(to, key, cJSON_Duplicate(item, true));
}

cJSON *experiment_resolved(const struct experiment *e)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", e->name);
    copy_key(root, e->json, "description");
    copy_key(root, e->json, "model");
    cJSON_AddItemToObject(root, "data", resolved_data(e));
    cJSON_AddItemToObject(root, "train", resolved_train(e));
    copy_key(root, e->json, "cluster");
    if (cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(e->json, "devices")))
        copy_key(root, e->json, "devices");
    else
        cJSON_AddNumberToObject(root, "devices", e->device_count);
    cJSON *strategy = cJSON_AddObjectToObject(root, "strategy");
    cJSON_AddStringToObject(strategy, "type", e->strategy->name);
    for (const cJSON *item = e->strategy_keys->child; item; item = item->next)
        if (strcmp(item->string, "type") != 0)
            copy_key(strategy, e->strategy_keys, item->string);
    copy_key(root, e->json, "mesh");
    cJSON_AddStringToObject(root, "backend", e->backend->name);
    cJSON_AddStringToObject(root, "launch", e->launch == LAUNCH_EAGER ? "eager" : "graph");
    cJSON_AddStringToObject(root, "fidelity", e->fidelity == FIDELITY_FLOWS ? "flows" : "messages");
    copy_key(root, e->json, "anchor");
    return root;
}

static void add_device_names(struct described *d, const struct experiment *e,
                             const struct result *result)
{
    d->device_names = memory_new_array((size_t)result->device_count, sizeof *d->device_names);
    for (int i = 0; i < result->device_count; i++) {
        char name[48];
        cluster_device_name(e->cluster, result->devices[i].device, name);
        d->device_names[i] = text_format(
            "%s (%s)", name, cluster_device_model(e->cluster, result->devices[i].device)->name);
    }
    d->report.device_names = (const char *const *)d->device_names;
}

static void add_files(struct described *d, const struct experiment *e)
{
    int count = 0;
    const struct platform_file *files = platform_files(e->platform, &count);
    d->files = memory_new_array((size_t)count, sizeof *d->files);
    for (int i = 0; i < count; i++)
        d->files[i] = (struct report_file){files[i].path, files[i].hash};
    d->report.files = d->files;
    d->report.file_count = count;
}

void describe_case(const struct experiment *e, const struct outcome *outcome, enum rh_status status,
                   struct described *d)
{
    memset(d, 0, sizeof *d);
    if (status == RH_OK && e->backend->probe(d->version) != RH_OK)
        d->version[0] = '\0';
    d->resolved = experiment_resolved(e);
    d->report = (struct report_case){
        .experiment = e->name,
        .model = e->model->name,
        .strategy = e->strategy->name,
        .backend = e->backend->name,
        .backend_version = d->version,
        .launch = e->launch == LAUNCH_EAGER ? "eager" : "graph",
        .precision = dtype_name(e->training.precision),
        .cluster = e->cluster->name,
        .batch_fixed = e->batch_per_device ? "batch_per_device" : "batch",
        .batch = e->batch * e->training.accumulate,
        .accumulate = e->training.accumulate,
        .resolved = d->resolved,
        .seed = e->seed,
        .status = status,
        .error = status == RH_OK ? NULL : fail_message(),
        .compute_scale = 1,
    };
    d->report.device_count = e->device_count;
    add_files(d, e);
    if (status != RH_OK) {
        d->report.asked_bytes = outcome->asked_bytes;
        d->report.available_bytes = outcome->available_bytes;
        return;
    }
    d->report.microbatches = outcome->plan.microbatches;
    d->report.buckets = outcome->plan.buckets;
    d->report.result = &outcome->result;
    d->report.first_step = outcome->first_step;
    d->report.samples_per_second = outcome->samples_per_second;
    d->report.speedup = outcome->speedup;
    d->report.efficiency = outcome->efficiency;
    d->report.single_step_seconds = outcome->single_step_seconds;
    d->report.single_batch = outcome->single_batch;
    d->report.compute_scale = outcome->compute_scale;
    d->report.flops_per_step = outcome->flops_per_step;
    add_device_names(d, e, &outcome->result);
}

void described_free(struct described *d)
{
    cJSON_Delete(d->resolved);
    for (int i = 0; d->device_names && d->report.result && i < d->report.result->device_count; i++)
        free(d->device_names[i]);
    free(d->device_names);
    free(d->files);
}
