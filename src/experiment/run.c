#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "experiment/checkpoint.h"
#include "experiment/place.h"
#include "experiment/values.h"
#include "plan/placement.h"

struct run {
    const struct experiment *experiment;
    const struct run_options *options;
    struct strategy_plan *plan;
    double compute_scale;
    const struct checkpoint *checkpoint; /* NULL: none */
    struct stop *stop;                   /* NULL: signals act as ever */
};

/* For the test that asks the device itself what does not fit. */
static bool memory_unchecked(void)
{
    const char *set = getenv("REHEARSE_UNCHECKED_MEMORY");
    return set && *set;
}

/* Hardware computes real values whether asked to or not, so it never trains on zeros. */
static bool with_numbers(const struct run *run)
{
    return run->options->numbers || run->experiment->backend->real;
}

static enum rh_status run_numbers(const struct run *run, struct session *session,
                                  const struct run_order *order, struct result *result)
{
    const struct experiment *e = run->experiment;
    struct values values;
    struct backend_feed feed = {.context = &values, .fill = values_fill};
    enum rh_status status = values_open(&values, e, run->plan, run->checkpoint);
    values.session = session;
    values.stop = run->stop;
    if (status == RH_OK)
        status = values_write(&values, session);
    if (status == RH_OK)
        status = e->backend->run(session, order, &feed, result);
    if (status == RH_OK)
        status = values_finish(&values, result);
    values_close(&values);
    return status;
}

static enum rh_status run_session(const struct run *run, struct session *session,
                                  struct result *result)
{
    const struct backend *backend = run->experiment->backend;
    struct run_order order = run->plan->order;
    if (run->checkpoint)
        order.steps -= run->checkpoint->step;
    enum rh_status status = backend->load(session, run->plan->plan);
    if (status != RH_OK)
        return status;
    status = with_numbers(run) ? run_numbers(run, session, &order, result)
                               : backend->run(session, &order, NULL, result);
    backend->unload(session);
    return status;
}

static enum rh_status run_plan(const struct run *run, struct result *result)
{
    const struct experiment *e = run->experiment;
    struct session *session = NULL;
    struct backend_options options = {.cluster = e->cluster,
                                      .devices = e->devices,
                                      .device_count = e->device_count,
                                      .launch = e->launch,
                                      .fidelity = e->fidelity,
                                      .numbers = with_numbers(run),
                                      .trace = run->options->trace,
                                      .fold = !run->options->no_fold,
                                      .unchecked_memory = memory_unchecked(),
                                      .compute_scale = run->compute_scale,
                                      .bucket_tensor_seconds = e->bucket_tensor_seconds};
    memset(result, 0, sizeof *result);
    RETURN_IF_FAILED(e->backend->open(&options, &session));
    enum rh_status status = run_session(run, session, result);
    e->backend->close(session);
    if (status != RH_OK)
        result_free(result);
    return status;
}

/* The peak of every device that the result names, from the plan's placement. Hardware knows its own
 * runtime; devices that share a GPU share that too. */
static void fill_peaks(const struct experiment *e, const struct plan *plan, struct result *result)
{
    int total = e->cluster->gpu_count + e->cluster->node_count;
    int *worker_of = memory_new_array((size_t)total, sizeof *worker_of);
    int *local_of = memory_new_array((size_t)total, sizeof *local_of);
    for (int i = 0; i < total; i++)
        worker_of[i] = -1;
    for (int worker = 0; worker < mesh_workers(&plan->mesh); worker++)
        for (int local = 0; local <= plan->roles[plan_role_of(plan, worker)].gpus; local++) {
            int device = place_worker_device(e, plan, worker, local);
            if (worker_of[device] >= 0)
                continue;
            worker_of[device] = worker;
            local_of[device] = local;
        }
    int last_role = -1, last_local = -1;
    double peak[PURPOSE_COUNT] = {0};
    for (int i = 0; i < result->device_count; i++) {
        struct device_result *d = &result->devices[i];
        d->capacity_bytes = result->memory.devices == 1
                                ? result->memory.capacity_bytes
                                : cluster_device_model(e->cluster, d->device)->memory_bytes;
        if (worker_of[d->device] < 0)
            continue;
        int role = plan_role_of(plan, worker_of[d->device]);
        int local = local_of[d->device];
        if (role != last_role || local != last_local)
            plan_peak(plan, role, local, peak);
        last_role = role;
        last_local = local;
        memcpy(d->peak_bytes, peak, sizeof peak);
        if (local < plan->roles[role].gpus)
            d->peak_bytes[PURPOSE_RUNTIME] =
                result->memory.devices ? result->memory.runtime_bytes / result->memory.devices
                                       : place_runtime_bytes(e, plan, role, d->device);
    }
    free(worker_of);
    free(local_of);
}

/* `single` on the first device with one device's share of the batch: what speed-up is measured
 * against, and what an anchor scales. */
static int64_t single_share(const struct experiment *e)
{
    int shares = 1;
    if (strcmp(e->strategy->name, "ddp") == 0 || strcmp(e->strategy->name, "data_parallel") == 0)
        shares = e->device_count;
    else if (e->dp > 1)
        shares = e->dp;
    return (e->batch + shares - 1) / shares;
}

static enum rh_status run_single(const struct experiment *e, struct strategy_plan *plan,
                                 double scale, double *seconds)
{
    struct run_options options = {.ignore_memory = true};
    struct run run = {e, &options, plan, scale, NULL, NULL};
    struct result result;
    RETURN_IF_FAILED(run_plan(&run, &result));
    *seconds = result.median_step_seconds;
    result_free(&result);
    return RH_OK;
}

/* The factor on compute with which `single` takes the measured time: a secant, since launch costs
 * do not scale. */
static enum rh_status solve_anchor(const struct experiment *single, struct strategy_plan *plan,
                                   double target, double *scale, double *seconds)
{
    double before = 1;
    double before_seconds = 0;
    RETURN_IF_FAILED(run_single(single, plan, before, &before_seconds));
    if (before_seconds <= 0)
        return fail(RH_INVALID,
                    "experiment '%s': backend '%s' gives no times; an anchor needs them",
                    single->name, single->backend->name);
    double now = target / before_seconds;
    for (int i = 0; i < 30; i++) {
        RETURN_IF_FAILED(run_single(single, plan, now, seconds));
        if (fabs(*seconds - target) <= 1e-7 * target) {
            *scale = now;
            return RH_OK;
        }
        double slope = (*seconds - before_seconds) / (now - before);
        if (!(slope > 0))
            break;
        before_seconds = *seconds;
        double next = now + (target - *seconds) / slope;
        before = now;
        now = next > now / 10 ? next : now / 10;
    }
    return fail(RH_INVALID,
                "experiment '%s': no factor on compute makes a single step take %g s (at best %g "
                "s): launch costs alone are longer",
                single->name, target, *seconds);
}

/* Measured against itself. */
static bool runs_for_itself(const struct experiment *e)
{
    return e->backend->real && strcmp(e->strategy->name, "single") == 0 && e->anchor_seconds <= 0;
}

static enum rh_status reference(const struct experiment *e, struct outcome *outcome)
{
    struct experiment single = *e;
    struct strategy_plan plan;
    RETURN_IF_FAILED(strategy_find("single", &single.strategy));
    single.strategy_keys = NULL;
    single.device_count = 1;
    single.dp = single.pp = 0;
    single.training.steps = 3;
    single.save_path = single.resume_path = single.plan_path = NULL;
    single.save_every = 0;
    single.batch = single_share(e);
    outcome->single_batch = single.batch;
    outcome->compute_scale = 1;
    if (runs_for_itself(e)) /* it would be the same run, twice on the hardware */
        return RH_OK;
    RETURN_IF_FAILED(place_build(&single, &plan));
    enum rh_status status;
    if (e->anchor_seconds > 0)
        status = solve_anchor(&single, &plan, e->anchor_seconds, &outcome->compute_scale,
                              &outcome->single_step_seconds);
    else
        status = run_single(&single, &plan, 1, &outcome->single_step_seconds);
    strategy_plan_free(&plan);
    if (status == RH_OUT_OF_MEMORY && e->backend->real) /* no device holds it: nobody knows */
        return RH_OK;
    return status;
}

static double total_flops(const struct strategy_plan *plan)
{
    double flops = 0;
    for (int worker = 0; worker < mesh_workers(&plan->plan->mesh); worker++)
        for (int i = plan->order.loop_first; i < plan->order.count; i++) {
            struct plan_totals totals;
            plan_totals(plan->plan, plan_role_of(plan->plan, worker), plan->entries[i].list,
                        &totals);
            if (plan->plan->role_axis < 0) { /* all workers do the same */
                flops += totals.flops * plan->entries[i].repeat * mesh_workers(&plan->plan->mesh);
                if (i + 1 == plan->order.count)
                    return flops;
            } else {
                flops += totals.flops * plan->entries[i].repeat;
            }
        }
    return flops;
}

static void summarize(const struct experiment *e, struct outcome *outcome)
{
    double seconds = outcome->result.median_step_seconds;
    double samples = (double)(e->batch * e->training.accumulate);
    outcome->flops_per_step = total_flops(&outcome->plan);
    if (seconds <= 0)
        return;
    outcome->samples_per_second = samples / seconds;
    if (outcome->single_step_seconds <= 0)
        return;
    double single =
        (double)(outcome->single_batch * e->training.accumulate) / outcome->single_step_seconds;
    outcome->speedup = outcome->samples_per_second / single;
    outcome->efficiency = outcome->speedup / e->device_count;
}

/* Files of a training mean nothing where none happens. */
static enum rh_status check_files(const struct run *run)
{
    const struct experiment *e = run->experiment;
    const char *path = e->save_path ? e->save_path : e->resume_path;
    if (!path || with_numbers(run))
        return RH_OK;
    return fail(
        RH_INVALID,
        "experiment '%s': train.%s '%s' needs values, and this run computes times only: give "
        "--numbers",
        e->name, e->save_path ? "save" : "resume", path);
}

static enum rh_status run_all(struct run *run, struct outcome *outcome)
{
    const struct experiment *e = run->experiment;
    struct checkpoint checkpoint;
    struct shortage shortage = {0};
    struct stop stop = {0};
    RETURN_IF_FAILED(check_files(run));
    enum rh_status status = run->options->ignore_memory || memory_unchecked()
                                ? RH_OK
                                : place_fits(e, outcome->plan.plan, &shortage);
    outcome->asked_bytes = shortage.asked_bytes;
    outcome->available_bytes = shortage.available_bytes;
    RETURN_IF_FAILED(status);
    RETURN_IF_FAILED(checkpoint_open(e, &outcome->plan, &checkpoint));
    outcome->first_step = checkpoint.step;
    status = reference(e, outcome);
    run->compute_scale = outcome->compute_scale;
    run->checkpoint = &checkpoint;
    run->stop = run->options->stop_on_signal ? &stop : NULL;
    if (status == RH_OK)
        status = run_plan(run, &outcome->result);
    if (status == RH_OK && runs_for_itself(e))
        outcome->single_step_seconds = outcome->result.median_step_seconds;
    stop_release(&stop);
    checkpoint_close(&checkpoint);
    return status;
}

enum rh_status experiment_run(const struct experiment *e, const struct run_options *options,
                              struct outcome *outcome)
{
    struct run run = {e, options, &outcome->plan, 1, NULL, NULL};
    memset(outcome, 0, sizeof *outcome);
    outcome->compute_scale = 1;
    RETURN_IF_FAILED(place_build(e, &outcome->plan));
    enum rh_status status = run_all(&run, outcome);
    if (status != RH_OK) {
        strategy_plan_free(&outcome->plan);
        return status;
    }
    fill_peaks(e, outcome->plan.plan, &outcome->result);
    summarize(e, outcome);
    return RH_OK;
}

void outcome_free(struct outcome *outcome)
{
    result_free(&outcome->result);
    strategy_plan_free(&outcome->plan);
}
