/* bench_ring NETWORK RANKS BYTES QUARTERS flows|messages [FACTOR]: a ring all-reduce on a pure
 * network, cut into QUARTERS that run one after another; prints the simulated seconds (times
 * FACTOR). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "plan/check.h"

static void write_plan(struct plan *plan, int64_t floats, int quarters)
{
    struct writer w = {plan, 0, 0, WORK_COMMUNICATION, -1};
    role_init(plan, 0, "rank", 1);
    plan_add_group(plan, "dp", 1, 0, NULL);
    int stream = role_add_stream(plan, 0, "communication", 0);
    w.list = role_add_list(plan, 0, "list");
    int64_t piece = floats / quarters;
    for (int i = 0; i < quarters; i++) {
        struct buffer buffer = {.name = plan_text(plan, "piece %d", i),
                                .type = {DTYPE_F32, shape_of(1, &piece)},
                                .purpose = PURPOSE_COMMUNICATION,
                                .list = -1,
                                .index = -1};
        struct view view = view_of(&plan->roles[0], role_add_buffer(plan, 0, buffer));
        struct collect_part part = {stream, &view, &view};
        write_collect(&w, plan_text(plan, "piece %d", i), COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0, 0,
                      0, &part, 1);
    }
}

static enum rh_status run_plan(const struct backend_options *options, const struct plan *plan,
                               struct result *result)
{
    const struct backend *backend = NULL;
    struct session *session = NULL;
    struct run_entry entry = {0, 1, true};
    struct run_order order = {&entry, 1, 0, 1};
    RETURN_IF_FAILED(backend_find("simgrid", &backend));
    RETURN_IF_FAILED(backend->open(options, &session));
    enum rh_status status = backend->load(session, plan);
    if (status == RH_OK)
        status = backend->run(session, &order, NULL, result);
    if (status == RH_OK)
        backend->unload(session);
    backend->close(session);
    return status;
}

static enum rh_status run(char **argv)
{
    int ranks = atoi(argv[2]);
    struct platform *platform = NULL;
    struct cluster *cluster = NULL;
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {ranks}};
    struct result result = {0};
    cJSON *json = cJSON_CreateString(argv[1]);
    RETURN_IF_FAILED(platform_open(&platform));
    RETURN_IF_FAILED(cluster_open(platform, json, "bench", ranks, &cluster));
    cJSON_Delete(json);
    int *devices = malloc((size_t)ranks * sizeof *devices);
    for (int i = 0; i < ranks && devices; i++)
        devices[i] = i;
    struct plan *plan = plan_new("ring", &mesh, -1);
    write_plan(plan, atoll(argv[3]) / 4, atoi(argv[4]));
    RETURN_IF_FAILED(plan_check(plan));
    struct backend_options options = {
        .cluster = cluster,
        .devices = devices,
        .device_count = ranks,
        .fidelity = strcmp(argv[5], "messages") == 0 ? FIDELITY_MESSAGES : FIDELITY_FLOWS,
        .compute_scale = 1,
        .bucket_tensor_seconds = -1};
    enum rh_status status = run_plan(&options, plan, &result);
    double launch = cluster_device_model(cluster, 0)->launch_seconds;
    if (status == RH_OK)
        printf("%.9g\n", (result.step_seconds[0] - launch) * (argv[6] ? atof(argv[6]) : 1));
    result_free(&result);
    plan_free(plan);
    cluster_free(cluster);
    platform_close(platform);
    free(devices);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: bench_ring NETWORK RANKS BYTES QUARTERS flows|messages [FACTOR]\n");
        return RH_INVALID;
    }
    enum rh_status status = run(argv);
    if (status != RH_OK)
        fprintf(stderr, "bench_ring: %s\n", rh_error());
    return (int)status;
}
