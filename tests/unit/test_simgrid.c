/* The simulator on plans made by hand, whose times are known. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/simgrid/simgrid.h"
#include "base/json.h"
#include "base/memory.h"
#include "plan/check.h"
#include "plan/placement.h"

/* A device that computes 1 byte of `zero` a nanosecond and costs nothing else. */
static const char device_text[] =
    "{\"name\":\"unit-gpu\",\"source\":\"test\",\"kind\":\"gpu\",\"memory_bytes\":1e12,"
    "\"runtime_bytes\":0,\"communicator_bytes\":0,\"memory_bytes_per_second\":1e9,"
    "\"workspace_bytes\":{\"convolution\":0,\"matmul\":0},"
    "\"flops_per_second\":{\"fp32\":1e18},\"efficiency\":{\"matmul\":1,\"convolution\":1,"
    "\"normalization\":1,\"pooling\":1,\"elementwise\":1,\"embedding\":1,\"loss\":1,\"optimizer\":"
    "1,"
    "\"memory\":1},\"kernel_seconds\":0,\"launch_seconds\":%g,\"event_seconds\":0,"
    "\"graph_launch_seconds\":%g,\"graph_node_seconds\":0,\"copy_seconds\":%g,"
    "\"collective_compute_share\":%g,\"bucket_tensor_seconds\":0,\"compute_capability\":70,"
    "\"multiprocessors\":80,\"nvlink_bytes_per_second\":20e9,\"nvlink_count\":6}";

struct setting {
    double launch_seconds, graph_launch_seconds, copy_seconds, share;
    const char *cluster; /* JSON; %s is the folder's node */
};

struct stand {
    char folder[64];
    struct platform *platform;
    struct cluster *cluster;
    int devices[4096];
    struct session *session;
};

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
}

/* Two GPUs behind one PCIe switch, and two joined by NVLink to nothing else. */
static const char node_text[] =
    "{\"name\":\"unit-node\",\"source\":\"test\",\"gpu\":\"%s/"
    "unit-gpu.json\",\"host\":\"generic-host\","
    "\"vertices\":[{\"name\":\"gpu0\",\"kind\":\"gpu\"},{\"name\":\"gpu1\",\"kind\":\"gpu\"},"
    "{\"name\":\"host\",\"kind\":\"host\"},{\"name\":\"cpu0\",\"kind\":\"cpu\"},"
    "{\"name\":\"plx0\",\"kind\":\"switch\"},{\"name\":\"nic0\",\"kind\":\"nic\","
    "\"bytes_per_second\":12e9}],\"links\":["
    "{\"a\":\"cpu0\",\"b\":\"host\",\"class\":\"memory\",\"bytes_per_second\":1e12,\"latency_"
    "seconds\":0},"
    "{\"a\":\"plx0\",\"b\":\"cpu0\",\"class\":\"PCIe\",\"bytes_per_second\":10e9,\"latency_"
    "seconds\":0},"
    "{\"a\":\"gpu0\",\"b\":\"plx0\",\"class\":\"PCIe\",\"bytes_per_second\":10e9,\"latency_"
    "seconds\":0},"
    "{\"a\":\"gpu1\",\"b\":\"plx0\",\"class\":\"PCIe\",\"bytes_per_second\":10e9,\"latency_"
    "seconds\":0},"
    "{\"a\":\"nic0\",\"b\":\"plx0\",\"class\":\"PCIe\",\"bytes_per_second\":12e9,\"latency_"
    "seconds\":0},"
    "{\"a\":\"gpu0\",\"b\":\"gpu1\",\"class\":\"NVLink\",\"bytes_per_second\":20e9,\"latency_"
    "seconds\":0}]}";

static void stand_open(struct stand *s, const struct setting *setting, int device_count,
                       struct backend_options options)
{
    char text[8192];
    cJSON *json = NULL;
    memset(s, 0, sizeof *s);
    snprintf(s->folder, sizeof s->folder, "/tmp/rehearse-simgrid-XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(s->folder));
    snprintf(text, sizeof text, device_text, setting->launch_seconds, setting->graph_launch_seconds,
             setting->copy_seconds, setting->share);
    write_file(s->folder, "unit-gpu.json", text);
    snprintf(text, sizeof text, node_text, s->folder);
    write_file(s->folder, "unit-node.json", text);
    CU_ASSERT_EQUAL_FATAL(platform_open(&s->platform), RH_OK);
    if (setting->cluster)
        json = cJSON_Parse(setting->cluster);
    else {
        snprintf(text, sizeof text, "{\"node\":\"%s/unit-node.json\"}", s->folder);
        json = cJSON_Parse(text);
    }
    CU_ASSERT_EQUAL(cluster_open(s->platform, json, "test", device_count, &s->cluster), RH_OK);
    cJSON_Delete(json);
    if (!s->cluster)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(s->cluster);
    for (int i = 0; i < device_count; i++)
        s->devices[i] = i;
    options.cluster = s->cluster;
    options.devices = s->devices;
    options.device_count = device_count;
    options.compute_scale = 1;
    options.bucket_tensor_seconds = -1;
    CU_ASSERT_EQUAL_FATAL(backend_simgrid.open(&options, &s->session), RH_OK);
}

static void stand_close(struct stand *s)
{
    char path[256];
    backend_simgrid.close(s->session);
    cluster_free(s->cluster);
    platform_close(s->platform);
    snprintf(path, sizeof path, "%s/unit-gpu.json", s->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/unit-node.json", s->folder);
    unlink(path);
    rmdir(s->folder);
}

/* A plan under construction with one role and one list. */
struct sketch {
    struct plan *plan;
    struct writer w;
};

static struct sketch sketch_new(int workers, int gpus)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {workers}};
    struct sketch s = {.plan = plan_new("sketch", &mesh, -1)};
    role_init(s.plan, 0, "worker", gpus);
    plan_add_group(s.plan, "dp", 1, 0, NULL);
    s.w = (struct writer){s.plan, 0, role_add_list(s.plan, 0, "list"), WORK_FORWARD, -1};
    return s;
}

static struct view buffer_of(struct sketch *s, int device, int64_t floats)
{
    struct buffer buffer = {.name = plan_text(s->plan, "buffer %d", s->plan->roles[0].buffer_count),
                            .device = device,
                            .type = {DTYPE_F32, shape_of(1, &floats)},
                            .purpose = PURPOSE_ACTIVATIONS,
                            .lifetime = LIFETIME_PERSISTENT,
                            .list = -1,
                            .index = -1};
    return view_of(&s->plan->roles[0], role_add_buffer(s->plan, 0, buffer));
}

/* A compute that takes `seconds` alone: zero of that many nanoseconds' bytes. */
static void work(struct sketch *s, int stream, int device, double seconds)
{
    struct view view = buffer_of(s, device, (int64_t)(seconds * 1e9 / 4));
    struct op op = {.kind = OP_zero, .compute = DTYPE_F32};
    write_compute(&s->w, stream, "work", &op, NULL, 0, &view, 1);
}

/* Seconds of the step, or the status. */
static enum rh_status run_sketch(struct stand *stand, struct sketch *s, bool check, double *seconds)
{
    struct run_entry entry = {0, 1, true};
    struct run_order order = {&entry, 1, 0, 1};
    struct result result = {0};
    enum rh_status status = check ? plan_check(s->plan) : plan_place(s->plan);
    if (status == RH_OK)
        status = backend_simgrid.load(stand->session, s->plan);
    if (status == RH_OK) {
        status = backend_simgrid.run(stand->session, &order, NULL, &result);
        backend_simgrid.unload(stand->session);
    }
    if (status == RH_OK)
        *seconds = result.step_seconds[0];
    result_free(&result);
    return status;
}

static double time_sketch(struct stand *stand, struct sketch *s)
{
    double seconds = NAN;
    enum rh_status status = run_sketch(stand, s, true, &seconds);
    CU_ASSERT_EQUAL(status, RH_OK);
    if (status != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    plan_free(s->plan);
    return seconds;
}

static const struct setting free_of_charge = {0};

static void a_chain_adds_up(void)
{
    struct stand stand;
    stand_open(&stand, &free_of_charge, 1, (struct backend_options){0});
    struct sketch s = sketch_new(1, 1);
    int stream = role_add_stream(s.plan, 0, "compute", 0);
    for (int i = 0; i < 10; i++)
        work(&s, stream, 0, 0.125);
    UNIT_ASSERT_NEAR(time_sketch(&stand, &s), 1.25, 1e-9);
    stand_close(&stand);
}

static void two_streams_share_a_device(void)
{
    struct stand stand;
    stand_open(&stand, &free_of_charge, 1, (struct backend_options){0});
    struct sketch s = sketch_new(1, 1);
    int a = role_add_stream(s.plan, 0, "a", 0);
    int b = role_add_stream(s.plan, 0, "b", 0);
    work(&s, a, 0, 100);
    work(&s, b, 0, 100);
    UNIT_ASSERT_NEAR(time_sketch(&stand, &s), 200, 1e-6);
    stand_close(&stand);
}

static void events_order_streams(void)
{
    struct stand stand;
    stand_open(&stand, &free_of_charge, 2, (struct backend_options){0});
    struct sketch s = sketch_new(1, 2);
    int a = role_add_stream(s.plan, 0, "a", 0);
    int b = role_add_stream(s.plan, 0, "b", 1);
    work(&s, a, 0, 3);
    write_join(&s.w, a, b, "join");
    work(&s, b, 1, 2); /* after a's 3 */
    work(&s, a, 0, 4); /* beside it */
    UNIT_ASSERT_NEAR(time_sketch(&stand, &s), 7, 1e-9);
    stand_close(&stand);
}

static void launches_bound_an_eager_list(void)
{
    struct setting slow_host = {.launch_seconds = 0.5, .graph_launch_seconds = 0.25};
    for (int launch = LAUNCH_EAGER; launch <= LAUNCH_GRAPH; launch++) {
        struct stand stand;
        stand_open(&stand, &slow_host, 1, (struct backend_options){.launch = (enum launch)launch});
        struct sketch s = sketch_new(1, 1);
        int stream = role_add_stream(s.plan, 0, "compute", 0);
        for (int i = 0; i < 8; i++)
            work(&s, stream, 0, 0.125);
        double expected = launch == LAUNCH_EAGER ? 8 * 0.5 + 0.125 : 0.25 + 8 * 0.125;
        UNIT_ASSERT_NEAR(time_sketch(&stand, &s), expected, 1e-9);
        stand_close(&stand);
    }
}

static void the_host_waits_at_a_sync(void)
{
    struct setting host = {.launch_seconds = 0.5};
    struct stand stand;
    stand_open(&stand, &host, 1, (struct backend_options){0});
    struct sketch s = sketch_new(1, 1);
    int stream = role_add_stream(s.plan, 0, "compute", 0);
    int event = role_add_event(s.plan, 0, "done");
    work(&s, stream, 0, 10); /* issued at 0.5, ends at 10.5 */
    write_record(&s.w, stream, event);
    write_sync(&s.w, event);
    work(&s, stream, 0, 1); /* issued at 11 */
    UNIT_ASSERT_NEAR(time_sketch(&stand, &s), 12, 1e-9);
    stand_close(&stand);
}

/* Two GPUs copy from the host over one PCIe uplink: each gets half of it. */
static void copies_share_an_uplink(void)
{
    double seconds[2];
    for (int both = 0; both < 2; both++) {
        struct stand stand;
        stand_open(&stand, &free_of_charge, 2, (struct backend_options){0});
        struct sketch s = sketch_new(1, 2);
        for (int gpu = 0; gpu <= both; gpu++) {
            int stream = role_add_stream(s.plan, 0, gpu ? "b" : "a", gpu);
            struct view from = buffer_of(&s, 2, 250000000);
            struct view to = buffer_of(&s, gpu, 250000000);
            write_copy(&s.w, stream, "copy", from, to);
        }
        seconds[both] = time_sketch(&stand, &s);
        stand_close(&stand);
    }
    UNIT_ASSERT_NEAR(seconds[0], 0.1, 2e-5); /* and a launch */
    UNIT_ASSERT_NEAR(seconds[1], 0.2, 2e-5);
}

static void a_collective_slows_compute(void)
{
    struct setting shared = {.share = 0.25};
    struct stand stand;
    stand_open(&stand, &shared, 2, (struct backend_options){0});
    struct sketch s = sketch_new(2, 1);
    int compute = role_add_stream(s.plan, 0, "compute", 0);
    int communication = role_add_stream(s.plan, 0, "communication", 0);
    struct view bucket = buffer_of(&s, 0, 500000000); /* 2 GB over 20 GB/s: about 0.1 s */
    struct collect_part part = {communication, &bucket, &bucket};
    write_collect(&s.w, "bucket", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, 0, 0, &part, 1);
    work(&s, compute, 0, 1);
    double seconds = time_sketch(&stand, &s);
    /* 0.1 s at three quarters of the speed costs 0.025 s */
    CU_ASSERT_TRUE(seconds > 1.0245 && seconds < 1.0275);
    stand_close(&stand);
}

/* Without the endpoint's launch. */
static double all_reduce_seconds(const char *cluster, int ranks, int64_t bytes,
                                 enum fidelity fidelity, double *process_seconds)
{
    static const struct setting plain = {0};
    struct setting setting = plain;
    struct stand stand;
    struct timespec begin, end;
    setting.cluster = cluster;
    stand_open(&stand, &setting, ranks, (struct backend_options){.fidelity = fidelity});
    struct sketch s = sketch_new(ranks, 1);
    int stream = role_add_stream(s.plan, 0, "communication", 0);
    struct view bucket = buffer_of(&s, 0, bytes / 4);
    struct collect_part part = {stream, &bucket, &bucket};
    write_collect(&s.w, "all-reduce", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, 0, 0, &part, 1);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    double launch = cluster_device_model(stand.cluster, 0)->launch_seconds;
    double seconds = time_sketch(&stand, &s) - launch;
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (process_seconds)
        *process_seconds =
            (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    stand_close(&stand);
    return seconds;
}

/* Host launch cost of the network's endpoint: the same in every run, so it is measured and taken
 * off. */
static void flows_and_messages_agree(void)
{
    for (int ranks = 2; ranks <= 64; ranks *= 2) {
        double flows =
            all_reduce_seconds("\"fat-tree-network\"", ranks, 26214400, FIDELITY_FLOWS, NULL);
        double messages =
            all_reduce_seconds("\"fat-tree-network\"", ranks, 26214400, FIDELITY_MESSAGES, NULL);
        UNIT_ASSERT_NEAR(flows, messages, 0.01);
    }
    double flows = all_reduce_seconds("\"hgx-h100\"", 16, 26214400, FIDELITY_FLOWS, NULL);
    double messages = all_reduce_seconds("\"hgx-h100\"", 16, 26214400, FIDELITY_MESSAGES, NULL);
    UNIT_ASSERT_NEAR(flows, messages, 0.03);
}

/* peers.md section 2: exactly 2(N-1)(2 us + m/B). */
static void a_ring_on_a_fat_tree_is_exact(void)
{
    for (int ranks = 8; ranks <= 64; ranks *= 8) {
        double m = 26214400.0 / ranks;
        double expected = 2.0 * (ranks - 1) * (2e-6 + m / 25e9);
        double messages =
            all_reduce_seconds("\"fat-tree-network\"", ranks, 26214400, FIDELITY_MESSAGES, NULL);
        double flows =
            all_reduce_seconds("\"fat-tree-network\"", ranks, 26214400, FIDELITY_FLOWS, NULL);
        UNIT_ASSERT_NEAR(messages, expected, 1e-7);
        UNIT_ASSERT_NEAR(flows, expected, 1e-7);
    }
}

/* A send whose receive is missing, past the checker: the run says so and does not end well. */
static void a_deadlock_is_a_failure(void)
{
    struct stand stand;
    double seconds = 0;
    stand_open(&stand, &free_of_charge, 2, (struct backend_options){0});
    struct sketch s = sketch_new(2, 1);
    int stream = role_add_stream(s.plan, 0, "compute", 0);
    struct view view = buffer_of(&s, 0, 100);
    struct exchange_message message = {true, stream, {true, 1}, "lost", view};
    write_exchange(&s.w, "send lost", 0, &message, 1);
    CU_ASSERT_EQUAL(run_sketch(&stand, &s, false, &seconds), RH_FAILED);
    UNIT_ASSERT_CONTAINS(fail_message(), "did not finish");
    UNIT_ASSERT_CONTAINS(fail_message(), "send lost");
    plan_free(s.plan);
    stand_close(&stand);
}

static void neighbours_exchange(void)
{
    struct stand stand;
    stand_open(&stand, &free_of_charge, 2, (struct backend_options){0});
    struct sketch s = sketch_new(2, 1);
    int stream = role_add_stream(s.plan, 0, "compute", 0);
    struct view out = buffer_of(&s, 0, 500000000);
    struct view in = buffer_of(&s, 0, 500000000);
    struct exchange_message messages[2] = {{true, stream, {true, 1}, "right", out},
                                           {false, stream, {true, -1}, "right", in}};
    write_exchange(&s.w, "shift", 0, messages, 2);
    UNIT_ASSERT_NEAR(time_sketch(&stand, &s), 0.1, 1e-3); /* 2 GB each way over 20 GB/s */
    stand_close(&stand);
}

static void many_runs_in_one_process(void)
{
    struct stand stand;
    stand_open(&stand, &free_of_charge, 1, (struct backend_options){0});
    for (int i = 1; i <= 3; i++) {
        struct sketch s = sketch_new(1, 1);
        int stream = role_add_stream(s.plan, 0, "compute", 0);
        work(&s, stream, 0, i);
        UNIT_ASSERT_NEAR(time_sketch(&stand, &s), i, 1e-9);
    }
    stand_close(&stand);
}

static void bad_native_platforms(void)
{
    static const char good[] =
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">"
        "<host id=\"a\" speed=\"1Gf\"><prop id=\"device\" value=\"v100-sxm2-32gb\"/></host>"
        "<host id=\"b\" speed=\"1Gf\"><prop id=\"device\" value=\"v100-sxm2-32gb\"/></host>"
        "<link id=\"l\" bandwidth=\"1GBps\" latency=\"0s\"/>"
        "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route></zone></platform>\n";
    static const char broken[] =
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\"><zone id=\"z\" routing=\"Star\">"
        "<host id=\"a\" speed=\"fast\"><prop id=\"device\" value=\"v100-sxm2-32gb\"/></host>"
        "<host id=\"b\" speed=\"1Gf\"><prop id=\"device\" value=\"v100-sxm2-32gb\"/></host>"
        "</zone></platform>\n";
    for (int bad = 0; bad < 2; bad++) {
        char path[64];
        char json[96];
        struct setting setting = {0};
        struct stand stand;
        double seconds = 0;
        snprintf(path, sizeof path, "/tmp/rehearse-native-%ld.xml", (long)getpid());
        snprintf(json, sizeof json, "\"%s\"", path);
        write_file("/tmp", path + 5, bad ? broken : good);
        setting.cluster = json;
        stand_open(&stand, &setting, 2, (struct backend_options){0});
        struct sketch s = sketch_new(2, 1);
        int stream = role_add_stream(s.plan, 0, "communication", 0);
        struct view bucket = buffer_of(&s, 0, 25000000); /* 100 MB over 1 GB/s both ways */
        struct collect_part part = {stream, &bucket, &bucket};
        write_collect(&s.w, "all-reduce", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, 0, 0, &part, 1);
        enum rh_status status = run_sketch(&stand, &s, true, &seconds);
        CU_ASSERT_EQUAL(status, bad ? RH_INVALID : RH_OK);
        if (bad)
            UNIT_ASSERT_CONTAINS(fail_message(), "SimGrid refuses");
        else
            CU_ASSERT_TRUE(seconds > 0.0999 && seconds < 0.25);
        plan_free(s.plan);
        stand_close(&stand);
        unlink(path);
    }
}

/* Workers of one node share its host: two that compute there take twice as long. */
static void workers_share_the_host(void)
{
    double seconds[2];
    struct stand stand;
    stand_open(&stand, &free_of_charge, 2, (struct backend_options){.launch = LAUNCH_GRAPH});
    for (int workers = 1; workers <= 2; workers++) {
        struct sketch s = sketch_new(workers, 1);
        int stream = role_add_stream(s.plan, 0, "host", 1);
        work(&s, stream, 1, 200);
        seconds[workers - 1] = time_sketch(&stand, &s);
    }
    UNIT_ASSERT_NEAR(seconds[1], 2 * seconds[0], 1e-3);
    stand_close(&stand);
}

static void tiny_pieces_add_up(void)
{
    struct stand stand;
    stand_open(&stand, &free_of_charge, 1, (struct backend_options){0});
    struct sketch s = sketch_new(1, 1);
    int a = role_add_stream(s.plan, 0, "a", 0);
    int b = role_add_stream(s.plan, 0, "b", 0);
    for (int i = 0; i < 20; i++) {
        work(&s, a, 0, 1e-6);
        work(&s, b, 0, 1e-6);
    }
    UNIT_ASSERT_NEAR(time_sketch(&stand, &s), 40e-6, 1e-3);
    stand_close(&stand);
}

/* Runs a sketch and keeps its result. */
static struct result result_of(struct stand *stand, struct sketch *s)
{
    struct run_entry entry = {0, 1, true};
    struct run_order order = {&entry, 1, 0, 1};
    struct result result = {0};
    CU_ASSERT_EQUAL_FATAL(plan_check(s->plan), RH_OK);
    CU_ASSERT_EQUAL_FATAL(backend_simgrid.load(stand->session, s->plan), RH_OK);
    CU_ASSERT_EQUAL_FATAL(backend_simgrid.run(stand->session, &order, NULL, &result), RH_OK);
    backend_simgrid.unload(stand->session);
    return result;
}

/* Eight GPUs of a DGX-1V read their input at once over four shared PCIe links of 12 GB/s. */
static void no_copy_outruns_its_link(void)
{
    struct setting setting = {.cluster = "\"dgx-1v\""};
    struct stand stand;
    double bytes = 4 * 4816896.0;
    double fastest = 0;
    stand_open(&stand, &setting, 8, (struct backend_options){0});
    struct sketch s = sketch_new(8, 1);
    int stream = role_add_stream(s.plan, 0, "compute", 0);
    struct view from = buffer_of(&s, 1, 4816896);
    struct view to = buffer_of(&s, 0, 4816896);
    write_copy(&s.w, stream, "input", from, to);
    struct result result = result_of(&stand, &s);
    for (int i = 0; i < result.span_count; i++) {
        const struct span *span = &result.spans[i];
        double rate = bytes / (span->end_seconds - span->start_seconds);
        if (span->communication && rate > fastest)
            fastest = rate;
    }
    CU_ASSERT_TRUE(fastest > 0 && fastest <= 12e9);
    result_free(&result);
    plan_free(s.plan);
    stand_close(&stand);
}

static void both_ends_communicate(void)
{
    struct stand stand;
    stand_open(&stand, &free_of_charge, 2, (struct backend_options){0});
    struct sketch s = sketch_new(2, 1);
    int stream = role_add_stream(s.plan, 0, "compute", 0);
    struct view out = buffer_of(&s, 0, 500000000);
    struct view in = buffer_of(&s, 0, 500000000);
    struct exchange_message messages[2] = {{true, stream, {true, 1}, "right", out},
                                           {false, stream, {true, -1}, "right", in}};
    write_exchange(&s.w, "shift", 0, messages, 2);
    struct result result = result_of(&stand, &s);
    for (int i = 0; i < 2; i++)
        CU_ASSERT_TRUE(result.devices[i].communication_seconds > 0.09);
    result_free(&result);
    plan_free(s.plan);
    stand_close(&stand);
}

int main(void)
{
    static const struct unit_test tests[] = {
        {"a chain adds up", a_chain_adds_up, NULL},
        {"two streams share a device", two_streams_share_a_device, NULL},
        {"events order streams", events_order_streams, NULL},
        {"launches bound an eager list", launches_bound_an_eager_list, NULL},
        {"the host waits at a sync", the_host_waits_at_a_sync, NULL},
        {"copies share an uplink", copies_share_an_uplink, NULL},
        {"a collective slows compute", a_collective_slows_compute, NULL},
        {"flows and messages agree", flows_and_messages_agree, NULL},
        {"a ring on a fat tree is exact", a_ring_on_a_fat_tree_is_exact, NULL},
        {"a deadlock is a failure", a_deadlock_is_a_failure, NULL},
        {"neighbours exchange", neighbours_exchange, NULL},
        {"many runs in one process", many_runs_in_one_process, NULL},
        {"bad native platforms", bad_native_platforms, NULL},
        {"workers share the host", workers_share_the_host, NULL},
        {"tiny pieces add up", tiny_pieces_add_up, NULL},
        {"no copy outruns its link", no_copy_outruns_its_link, NULL},
        {"both ends communicate", both_ends_communicate, NULL},
    };
    return UNIT_MAIN("simgrid", tests);
}
