/* `rehearse comm`: one call of torch.cuda.comm on tensors made up here, with what it gives, what it
 * moves and how long it takes. */
#include "cli/comm.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "report/report.h"

static const char *const DEFAULT_CLUSTER = "dgx-1v-32gb";

/* What each call takes beside --devices, --shape and --values. */
static const struct call_kind kinds[] = {
    {"to", KIND_TO, false, true, true, true, false, false, false},
    {"broadcast", KIND_BROADCAST, false, true, false, false, false, false, true},
    {"broadcast_coalesced", KIND_BROADCAST, true, false, false, false, false, false, false},
    {"reduce_add", KIND_REDUCE, false, false, true, false, false, false, false},
    {"reduce_add_coalesced", KIND_REDUCE, true, false, true, false, false, false, false},
    {"scatter", KIND_SCATTER, false, true, false, false, true, true, true},
    {"gather", KIND_GATHER, false, false, true, true, true, false, true},
};
enum { CALL_COUNT = sizeof kinds / sizeof *kinds };

static enum rh_status read_number(const char *option, const char *text, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return fail(RH_INVALID, "comm: %s: '%s' is no whole number", option, text);
    *number = value;
    return RH_OK;
}

static enum rh_status read_device(const char *option, const char *text, int *device)
{
    int64_t number = RH_HOST;
    if (strcmp(text, "host") != 0)
        RETURN_IF_FAILED(read_number(option, text, &number));
    if (number > INT_MAX - 1 || number < INT_MIN)
        return fail(RH_INVALID, "comm: %s: device %s; at most %d", option, text, INT_MAX - 1);
    *device = (int)number;
    return RH_OK;
}

static enum rh_status read_devices(const char *text, struct comm_call *call)
{
    struct string_list words = {0};
    enum rh_status status = RH_OK;
    list_split(&words, text);
    call->devices = memory_new_array((size_t)words.count + 1, sizeof *call->devices);
    for (int i = 0; i < words.count && status == RH_OK && *text; i++)
        status = read_device("--devices", words.items[i], &call->devices[call->device_count++]);
    list_free(&words, true);
    return status;
}

static enum rh_status read_sizes(const char *text, struct comm_call *call)
{
    struct string_list words = {0};
    enum rh_status status = RH_OK;
    list_split(&words, text);
    call->sizes = memory_new_array((size_t)words.count, sizeof *call->sizes);
    for (int i = 0; i < words.count && status == RH_OK; i++)
        status = read_number("--sizes", words.items[i], &call->sizes[call->size_count++]);
    list_free(&words, true);
    if (status == RH_OK && call->size_count != call->device_count)
        status = fail(RH_INVALID, "comm: --sizes has %d numbers, --devices %d", call->size_count,
                      call->device_count);
    return status;
}

static enum rh_status refuse(const struct call_kind *kind, bool given, bool allowed,
                             const char *option)
{
    return given && !allowed ? fail(RH_INVALID, "comm: %s takes no %s", kind->name, option) : RH_OK;
}

static enum rh_status check_options(const struct comm_arguments *a, const struct call_kind *kind)
{
    RETURN_IF_FAILED(refuse(kind, a->source, kind->source, "--source"));
    RETURN_IF_FAILED(refuse(kind, a->destination, kind->destination, "--destination"));
    RETURN_IF_FAILED(refuse(kind, a->dim, kind->dim, "--dim"));
    RETURN_IF_FAILED(refuse(kind, a->sizes, kind->sizes, "--sizes"));
    RETURN_IF_FAILED(refuse(kind, a->outs.count, kind->outs, "--out"));
    RETURN_IF_FAILED(refuse(kind, a->buffer_bytes, kind->coalesced, "--buffer-bytes"));
    RETURN_IF_FAILED(refuse(kind, a->devices, kind->kind != KIND_TO, "--devices"));
    if (a->outs.count && a->sizes)
        return fail(RH_INVALID, "comm: --out and --sizes exclude each other");
    if (!a->devices && kind->kind != KIND_TO)
        return fail(RH_INVALID, "comm: %s needs --devices", kind->name);
    if (!a->shapes.count)
        return fail(RH_INVALID, "comm: %s needs --shape", kind->name);
    return RH_OK;
}

static enum rh_status read_call(const struct comm_arguments *a, const struct call_kind *kind,
                                struct comm_call *call)
{
    int64_t dim = 0;
    RETURN_IF_FAILED(check_options(a, kind));
    call->name = kind->name;
    call->cluster = a->cluster ? a->cluster : DEFAULT_CLUSTER;
    call->backend = a->backend ? a->backend : "simgrid";
    call->buffer_bytes = a->buffer_bytes;
    if (a->devices)
        RETURN_IF_FAILED(read_devices(a->devices, call));
    call->source = call->destination = call->device_count ? call->devices[0] : 0;
    if (kind->kind == KIND_TO && !a->destination)
        return fail(RH_INVALID, "comm: to needs --destination");
    if (a->source)
        RETURN_IF_FAILED(read_device("--source", a->source, &call->source));
    if (a->destination)
        RETURN_IF_FAILED(read_device("--destination", a->destination, &call->destination));
    if (a->dim)
        RETURN_IF_FAILED(read_number("--dim", a->dim, &dim));
    call->dim = dim > INT_MAX ? INT_MAX : dim < INT_MIN ? INT_MIN : (int)dim;
    return a->sizes ? read_sizes(a->sizes, call) : RH_OK;
}

/* As many devices as the call names. */
static enum rh_status open_cluster(const struct comm_call *call, struct rh_cluster **cluster)
{
    int most = call->source > call->destination ? call->source : call->destination;
    for (int i = 0; i < call->device_count; i++)
        most = call->devices[i] > most ? call->devices[i] : most;
    return rh_cluster_open(call->cluster, most < 0 ? 1 : most + 1, call->backend, cluster);
}

static enum rh_status run_on(struct rh_cluster *cluster, const struct comm_arguments *a,
                             const struct call_kind *kind, struct comm_call *call)
{
    RETURN_IF_FAILED(comm_make(cluster, a, kind, call));
    RETURN_IF_FAILED(comm_run_kind(kind, call));
    rh_cluster_traffic(cluster, &call->traffic);
    if (!a->json || strcmp(a->json, "-") != 0)
        comm_print(call);
    if (!a->json)
        return RH_OK;
    cJSON *json = comm_json(call);
    enum rh_status status = report_write_json(json, a->json);
    cJSON_Delete(json);
    return status;
}

static enum rh_status run_arguments(const struct comm_arguments *a)
{
    const char *names[CALL_COUNT];
    struct comm_call call = {0};
    struct rh_cluster *cluster = NULL;
    int index = 0;
    for (int i = 0; i < CALL_COUNT; i++)
        names[i] = kinds[i].name;
    RETURN_IF_FAILED(json_choice("call", a->names.items[0], names, CALL_COUNT, &index));
    enum rh_status status = read_call(a, &kinds[index], &call);
    if (status == RH_OK)
        status = open_cluster(&call, &cluster);
    if (status == RH_OK)
        status = run_on(cluster, a, &kinds[index], &call);
    comm_free(&call);
    rh_cluster_close(cluster);
    return status;
}

static enum rh_status run(int argc, char **argv)
{
    struct comm_arguments a = {0};
    const struct option options[] = {
        {"devices", OPTION_STRING, &a.devices}, {"shape", OPTION_LIST, &a.shapes},
        {"values", OPTION_STRING, &a.values},   {"dtype", OPTION_STRING, &a.dtype},
        {"source", OPTION_STRING, &a.source},   {"destination", OPTION_STRING, &a.destination},
        {"dim", OPTION_STRING, &a.dim},         {"sizes", OPTION_STRING, &a.sizes},
        {"out", OPTION_LIST, &a.outs},          {"buffer-bytes", OPTION_INTEGER, &a.buffer_bytes},
        {"cluster", OPTION_STRING, &a.cluster}, {"backend", OPTION_STRING, &a.backend},
        {"json", OPTION_STRING, &a.json},
    };
    enum rh_status status = options_read(&command_comm, argc, argv, options,
                                         sizeof options / sizeof *options, &a.names, 1, 1);
    if (status == RH_OK)
        status = run_arguments(&a);
    list_free(&a.names, false);
    list_free(&a.shapes, false);
    list_free(&a.outs, false);
    return status;
}

const struct command command_comm = {
    .name = "comm",
    .usage = "CALL --devices A,B,… --shape RxC [--values X,Y,…] [--source D] [--destination D] …",
    .summary = "run one call of torch.cuda.comm: what it gives, moves and costs",
    .help =
        "calls: to, broadcast, broadcast_coalesced, reduce_add, reduce_add_coalesced, scatter, "
        "gather\n"
        "  --devices A,B,…    GPUs of the call, in order\n"
        "  --shape RxC        of a tensor (2x3, 3, scalar); once for all, or once for each\n"
        "  --values X,Y,…     elements, repeated as needed (default: 1, 2, 3 …)\n"
        "  --dtype NAME       fp32 (default), int64\n"
        "  --source D         where the tensor is: a GPU or 'host' (default: the first device)\n"
        "  --destination D    where the result goes (default: the first device)\n"
        "  --dim D            scatter, gather: along which dimension (0; negative: from the end)\n"
        "  --sizes N,M,…      scatter: a size for each device\n"
        "  --out RxC          write into given tensors: once for each result\n"
        "  --buffer-bytes N   coalesced calls: size of a piece (10485760)\n"
        "  --cluster NAME     dgx-1v-32gb (default)\n"
        "  --backend NAME     simgrid (default), reference, cuda\n"
        "  --json FILE        the result for programs ('-': standard output)\n",
    .run = run,
};
