#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "experiment/edited.h"
#include "experiment/place.h"
#include "plan/check.h"
#include "plan/fuse.h"
#include "plan/placement.h"
#include "plan/workspace.h"

/* Communicators of a role: distinct (group, stream name) pairs of its collectives and exchanges. */
static int count_communicators(const struct plan *plan, int role)
{
    const struct role *r = &plan->roles[role];
    bool *known = memory_new_array((size_t)plan->group_count * (size_t)r->stream_count + 1, 1);
    int count = 0;
    for (int l = 0; l < r->list_count; l++)
        for (int i = 0; i < r->lists[l].count; i++) {
            const struct instruction *in = &r->lists[l].instructions[i];
            int group = in->kind == INSTRUCTION_COLLECT    ? in->collect.group
                        : in->kind == INSTRUCTION_EXCHANGE ? in->exchange.group
                                                           : -1;
            if (group < 0 || known[group * r->stream_count + in->stream])
                continue;
            known[group * r->stream_count + in->stream] = true;
            count++;
        }
    free(known);
    return count;
}

double place_runtime_bytes(const struct experiment *e, const struct plan *plan, int role,
                           int device)
{
    const struct device_model *model = cluster_device_model(e->cluster, device);
    return model->runtime_bytes + model->communicator_bytes * count_communicators(plan, role);
}

int place_worker_device(const struct experiment *e, const struct plan *plan, int worker, int local)
{
    int gpus = plan->roles[plan_role_of(plan, worker)].gpus;
    if (local < gpus)
        return e->devices[worker * gpus + local];
    return cluster_host_device(e->cluster,
                               cluster_device_node(e->cluster, e->devices[worker * gpus]));
}

static double asked_of(const struct plan *plan, int role, int local, double runtime_bytes)
{
    double peak[PURPOSE_COUNT];
    double asked = runtime_bytes;
    plan_peak(plan, role, local, peak);
    for (int p = 0; p < PURPOSE_COUNT; p++)
        asked += peak[p];
    return asked;
}

static enum rh_status check_gpus(const struct experiment *e, const struct plan *plan,
                                 struct shortage *shortage)
{
    int workers = mesh_workers(&plan->mesh);
    int last_role = -1;
    const struct device_model *last_model = NULL;
    for (int worker = 0; worker < workers; worker++) {
        int role = plan_role_of(plan, worker);
        for (int local = 0; local < plan->roles[role].gpus; local++) {
            int device = place_worker_device(e, plan, worker, local);
            const struct device_model *model = cluster_device_model(e->cluster, device);
            char name[48];
            if (plan->roles[role].gpus == 1 && role == last_role && model == last_model)
                continue; /* workers of a role on equal devices need the same */
            last_role = role;
            last_model = model;
            double runtime = place_runtime_bytes(e, plan, role, device);
            enum rh_status status =
                plan_fits(plan, role, local, cluster_device_name(e->cluster, device, name),
                          model->memory_bytes, runtime);
            if (status == RH_OUT_OF_MEMORY)
                *shortage =
                    (struct shortage){asked_of(plan, role, local, runtime), model->memory_bytes};
            RETURN_IF_FAILED(status);
        }
    }
    return RH_OK;
}

/* A node's host memory is shared by all its workers. */
static enum rh_status check_hosts(const struct experiment *e, const struct plan *plan,
                                  struct shortage *shortage)
{
    double *bytes = memory_new_array((size_t)e->cluster->node_count, sizeof *bytes);
    enum rh_status status = RH_OK;
    for (int worker = 0; worker < mesh_workers(&plan->mesh); worker++) {
        const struct role *role = &plan->roles[plan_role_of(plan, worker)];
        int node = cluster_device_node(e->cluster, e->devices[worker * role->gpus]);
        bytes[node] +=
            (double)role->persistent_bytes[role->gpus] + (double)role->arena_bytes[role->gpus];
        double capacity = e->cluster->nodes[node]->host->memory_bytes;
        if (bytes[node] <= capacity || status != RH_OK)
            continue;
        *shortage = (struct shortage){bytes[node], capacity};
        status = fail(RH_OUT_OF_MEMORY,
                      "does not fit on 'node%d:host': %.1f GiB asked, %.1f GiB available", node,
                      bytes[node] / 1073741824, capacity / 1073741824);
    }
    free(bytes);
    return status;
}

enum rh_status place_fits(const struct experiment *e, const struct plan *plan,
                          struct shortage *shortage)
{
    RETURN_IF_FAILED(check_gpus(e, plan, shortage));
    return check_hosts(e, plan, shortage);
}

/* Workers of a role have one plan, whatever devices they have: the largest limits count. */
static struct workspace_limits workspace_limits_of(const struct experiment *e)
{
    struct workspace_limits most = {0};
    for (int i = 0; i < e->device_count; i++) {
        const struct workspace_limits *limits =
            &cluster_device_model(e->cluster, e->devices[i])->workspace;
        most.convolution_bytes = fmax(most.convolution_bytes, limits->convolution_bytes);
        most.matmul_bytes = fmax(most.matmul_bytes, limits->matmul_bytes);
    }
    return most;
}

enum rh_status place_build(const struct experiment *e, struct strategy_plan *plan)
{
    char *where = text_format("experiment '%s': strategy '%s'", e->name, e->strategy->name);
    struct strategy_request request = {.where = where,
                                       .model = e->model,
                                       .training = &e->training,
                                       .batch = e->batch,
                                       .resident = e->resident,
                                       .cluster = e->cluster,
                                       .devices = e->devices,
                                       .device_count = e->device_count,
                                       .dp = e->dp,
                                       .pp = e->pp,
                                       .keys = e->strategy_keys};
    enum rh_status status = strategy_build(e->strategy, &request, plan);
    free(where);
    if (status != RH_OK)
        return status;
    if (e->training.fusion && !e->plan_path)
        plan_fuse(plan->plan);
    if (e->plan_path)
        status = edited_read(e->plan_path, e->model, plan);
    if (status != RH_OK) {
        strategy_plan_free(plan);
        return status;
    }
    struct workspace_limits limits = workspace_limits_of(e);
    plan_add_workspace(plan->plan, &limits);
    status = plan_check(plan->plan);
    if (status != RH_OK) {
        fail_within(status, "experiment '%s': plan of '%s'", e->name, e->strategy->name);
        strategy_plan_free(plan);
    }
    return status;
}

enum rh_status experiment_plan(const struct experiment *e, struct strategy_plan *plan)
{
    struct shortage shortage;
    RETURN_IF_FAILED(place_build(e, plan));
    enum rh_status status = place_fits(e, plan->plan, &shortage);
    if (status != RH_OK)
        strategy_plan_free(plan);
    return status;
}
