/* SimGrid has one engine a process and aborts on what it does not like: every run is a child
 * process that sends its result back over a pipe. Pointers into the plan mean the same in both. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/simgrid/sim.h"
#include "base/memory.h"
#include "base/text.h"

#if defined(__SANITIZE_ADDRESS__)
#define CONTEXT_FACTORY "--cfg=contexts/factory:thread"
#else
#define CONTEXT_FACTORY "--cfg=contexts/factory:raw"
#endif

/* DESIGN: CM02, no TCP window, no cross-traffic; set before the platform is loaded. */
static const char *const settings[] = {
    "rehearse",
    "--log=root.thresh:critical",
    "--log=no_loc",
    CONTEXT_FACTORY,
    "--cfg=contexts/stack-size:64",
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--cfg=network/latency-factor:1",
    "--cfg=network/bandwidth-factor:1",
    "--cfg=network/weight-S:0",
    "--cfg=network/optim:Full",
};
static const char settings_text[] =
    "SimGrid CM02, TCP-gamma 0, crosstraffic 0, weight-S 0, latency "
    "and bandwidth factors 1, optim Full; latency is paid after a flow";

/* What the child sends first; the arrays follow. */
struct header {
    enum rh_status status;
    char error[1024];
    int steps, span_count;
    double link_class_bytes[LINK_CLASS_COUNT];
};

/* The list executions of the run; identical steps repeat identically, so that a few stand for all.
 */
static void expand_order(struct sim *sim)
{
    enum { STEADY_STEPS = 4 };
    const struct run_order *order = sim->order;
    int capacity = 0;
    int step = 0;
    int pass = 0;
    int at = 0;
    int first_steps = 0;
    for (int i = 0; i < order->loop_first; i++)
        first_steps += order->entries[i].ends_step;
    sim->steps = order->steps;
    if (!sim->session->options.trace && sim->steps > first_steps + STEADY_STEPS)
        sim->steps = first_steps + STEADY_STEPS;
    while (step < sim->steps) {
        const struct run_entry *entry = &order->entries[at];
        for (int k = 0; k < entry->repeat; k++) {
            *ARRAY_ADD(sim->executions, sim->execution_count, capacity) =
                (struct execution){entry->list, step, pass++, entry->ends_step};
            if (entry->ends_step) {
                step++;
                pass = 0;
            }
        }
        if (++at == order->count)
            at = order->loop_first;
    }
}

static void make_worker(struct sim *sim, int index)
{
    const struct plan *plan = sim->session->plan;
    struct sim_worker *w = &sim->workers[index];
    int role = plan_role_of(plan, index);
    const struct role *r = &plan->roles[role];
    int longest = 0;
    for (int l = 0; l < r->list_count; l++)
        longest = r->lists[l].count > longest ? r->lists[l].count : longest;
    *w = (struct sim_worker){.sim = sim, .worker = index, .role = role};
    w->stream_count = r->stream_count;
    w->streams = memory_new_array((size_t)r->stream_count, sizeof *w->streams);
    w->events = memory_new_array((size_t)r->event_count + 1, sizeof *w->events);
    w->issue = memory_new_array((size_t)longest + 1, sizeof *w->issue);
    for (int i = 0; i < r->event_count; i++)
        w->events[i].execution = -1;
    for (int i = 0; i < r->stream_count; i++)
        w->streams[i] =
            (struct sim_stream){.sim = sim,
                                .worker = w,
                                .stream = i,
                                .device = session_device(sim->session, index, r->streams[i].device),
                                .wake = sg_sem_init(0),
                                .at = "its beginning"};
}

static void load_platform(struct sim *sim)
{
    const struct cluster *cluster = sim->session->options.cluster;
    if (cluster->native_path) {
        simgrid_load_platform(cluster->native_path);
        return;
    }
    char path[64];
    int descriptor = memfd_create("platform.xml", 0);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (!file) {
        fail(RH_FAILED, "cannot write the simulated platform: %s", strerror(errno));
        sim_fail(sim, RH_FAILED);
        return;
    }
    enum rh_status status = sim_write_platform(sim, file);
    const char *keep =
        getenv("REHEARSE_KEEP_PLATFORM"); /* to look at, and to time a bare start with */
    FILE *copy = status == RH_OK && keep ? fopen(keep, "w") : NULL;
    if (copy) {
        sim_write_platform(sim, copy);
        fclose(copy);
    }
    if (status != RH_OK)
        sim_fail(sim, status);
    fflush(file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (status == RH_OK)
        simgrid_load_platform(path);
    fclose(file);
}

static void find_hosts(struct sim *sim)
{
    const struct session *s = sim->session;
    const struct cluster *cluster = s->options.cluster;
    int devices = cluster->gpu_count + cluster->node_count;
    sim->hosts = memory_new_array((size_t)devices, sizeof *sim->hosts);
    sim->collectives = memory_new_array((size_t)devices, sizeof *sim->collectives);
    for (int worker = 0; worker < s->simulated; worker++)
        for (int i = 0; i <= s->plan->roles[plan_role_of(s->plan, worker)].gpus; i++) {
            char name[64];
            int device = session_device(s, worker, i);
            sim_host_name(sim, device, 0, name);
            sim->hosts[device] = sg_host_by_name(name);
        }
}

static void name_stuck(struct sim *sim)
{
    struct text text = {0};
    int named = 0;
    for (int w = 0; w < sim->session->simulated; w++)
        for (int i = 0; i < sim->workers[w].stream_count; i++) {
            const struct sim_stream *s = &sim->workers[w].streams[i];
            if (s->finished || named++ >= 4)
                continue;
            text_add(&text, "%s worker %d stream '%s' at '%s'", text.length ? "," : "", w,
                     sim->session->plan->roles[sim->workers[w].role].streams[i].name, s->at);
        }
    fail(RH_FAILED, "the simulated run did not finish: %d streams wait for ever:%s",
         sim->unfinished, text.data ? text.data : "");
    free(text.data);
    sim_fail(sim, RH_FAILED);
}

static void simulate(struct sim *sim)
{
    enum { COUNT = sizeof settings / sizeof *settings };
    char *arguments[COUNT + 1];
    int count = COUNT;
    for (int i = 0; i < COUNT; i++)
        arguments[i] = text_copy(settings[i]);
    arguments[COUNT] = NULL;
    simgrid_init(&count, arguments);
    load_platform(sim);
    if (sim->status != RH_OK)
        return;
    find_hosts(sim);
    sim->meetings = meetings_new();
    sim->workers = memory_new_array((size_t)sim->session->simulated, sizeof *sim->workers);
    sim->step_end = memory_new_array((size_t)sim->steps + 1, sizeof *sim->step_end);
    for (int w = 0; w < sim->session->simulated; w++)
        make_worker(sim, w);
    sim_start_actors(sim);
    simgrid_run();
    if (sim->unfinished > 0)
        name_stuck(sim);
}

static bool write_all(int out, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t sent = write(out, at, bytes);
        if (sent < 0 && errno != EINTR)
            return false;
        at += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static bool read_all(int in, void *data, size_t bytes)
{
    char *at = data;
    while (bytes > 0) {
        ssize_t got = read(in, at, bytes);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        at += got > 0 ? got : 0;
        bytes -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

static void child_main(struct session *session, const struct run_order *order, int out)
{
    struct sim sim = {.session = session, .order = order};
    struct header header = {.status = RH_FAILED};
    expand_order(&sim);
    simulate(&sim);
    header.status = sim.status;
    memcpy(header.error, sim.error, sizeof header.error);
    header.steps = sim.steps;
    header.span_count = sim.status == RH_OK ? sim.span_count : 0;
    memcpy(header.link_class_bytes, sim.link_class_bytes, sizeof header.link_class_bytes);
    bool fine = write_all(out, &header, sizeof header);
    if (fine && sim.status == RH_OK)
        fine = write_all(out, sim.step_end, (size_t)sim.steps * sizeof *sim.step_end) &&
               write_all(out, sim.spans, (size_t)sim.span_count * sizeof *sim.spans);
    _exit(fine ? 0 : 1);
}

static void fill_steps(struct result *result, const double *step_end, int simulated, int steps)
{
    result->step_count = steps;
    result->step_seconds = memory_new_array((size_t)steps, sizeof *result->step_seconds);
    for (int i = 0; i < steps; i++) {
        int k = i < simulated ? i : simulated - 1; /* further steps repeat the last one */
        result->step_seconds[i] = step_end[k] - (k > 0 ? step_end[k - 1] : 0);
    }
}

/* Folded nodes are like the first. */
static void fill_devices(const struct session *s, struct result *result)
{
    int per_worker = s->plan->roles[0].gpus;
    int devices = s->workers * per_worker;
    result->devices = memory_new_array((size_t)devices + 1, sizeof *result->devices);
    for (int w = 0; w < s->workers; w++)
        for (int i = 0; i < per_worker; i++) {
            struct device_result *d = &result->devices[result->device_count++];
            d->device = session_device(s, w, i);
            d->capacity_bytes = cluster_device_model(s->options.cluster, d->device)->memory_bytes;
        }
}

static void repeat_devices(const struct session *s, struct result *result)
{
    int simulated = s->simulated * s->plan->roles[0].gpus;
    for (int i = simulated; i < result->device_count; i++) {
        int device = result->devices[i].device;
        result->devices[i] = result->devices[i % simulated];
        result->devices[i].device = device;
    }
}

static enum rh_status read_result(struct session *s, const struct run_order *order, int in,
                                  struct result *result, bool *whole)
{
    struct header header;
    *whole = read_all(in, &header, sizeof header);
    if (!*whole)
        return RH_FAILED;
    if (header.status != RH_OK)
        return fail(header.status, "%s", header.error);
    double *step_end = memory_new_array((size_t)header.steps + 1, sizeof *step_end);
    result->spans = memory_new_array((size_t)header.span_count + 1, sizeof *result->spans);
    result->span_count = header.span_count;
    *whole = read_all(in, step_end, (size_t)header.steps * sizeof *step_end) &&
             read_all(in, result->spans, (size_t)header.span_count * sizeof *result->spans);
    if (*whole) {
        fill_steps(result, step_end, header.steps, order->steps);
        fill_devices(s, result);
        result_account(result, header.steps > 1 ? step_end[header.steps - 2] : 0,
                       step_end[header.steps - 1]);
        repeat_devices(s, result);
        memcpy(result->link_class_bytes, header.link_class_bytes, sizeof header.link_class_bytes);
        result->folded = s->folded;
        result->network_settings = settings_text;
    }
    free(step_end);
    return *whole ? RH_OK : RH_FAILED;
}

/* The child died: SimGrid refused its platform, or gave up. Its first line says why. */
static enum rh_status report_death(const struct session *s, int errors)
{
    char line[512] = "";
    ssize_t got = pread(errors, line, sizeof line - 1, 0);
    line[got > 0 ? got : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (s->options.cluster->native_path)
        return fail(RH_INVALID, "SimGrid refuses '%s': %s", s->options.cluster->native_path,
                    line[0] ? line : "it died without a word");
    return fail(RH_FAILED, "the simulation died: %s", line[0] ? line : "without a word");
}

enum rh_status session_simulate(struct session *s, const struct run_order *order,
                                struct result *result)
{
    int ends[2];
    int errors = memfd_create("errors", 0);
    bool whole = false;
    int exit_status = 0;
    fflush(NULL);
    if (errors < 0 || pipe(ends) != 0)
        return fail(RH_FAILED, "cannot start the simulation: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        dup2(errors, STDERR_FILENO);
        close(ends[0]);
        child_main(s, order, ends[1]);
    }
    close(ends[1]);
    enum rh_status status =
        child < 0 ? fail(RH_FAILED, "cannot start the simulation: %s", strerror(errno))
                  : read_result(s, order, ends[0], result, &whole);
    close(ends[0]);
    if (child > 0)
        waitpid(child, &exit_status, 0);
    if (child > 0 && !whole)
        status = report_death(s, errors);
    close(errors);
    return status;
}
