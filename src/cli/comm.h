/* One call of torch.cuda.comm as the command line asks for it. */
#ifndef REHEARSE_CLI_COMM_H
#define REHEARSE_CLI_COMM_H

#include <cjson/cJSON.h>

#include "cli/cli.h"

/* The command line, all texts. */
struct comm_arguments {
    struct string_list names, shapes, outs;
    const char *devices, *values, *dtype, *source, *destination, *dim, *sizes, *cluster, *backend,
        *json;
    int buffer_bytes;
};

enum kind { KIND_TO, KIND_BROADCAST, KIND_SCATTER, KIND_REDUCE, KIND_GATHER, KIND_COUNT };

/* What each call takes beside --devices, --shape and --values. */
struct call_kind {
    const char *name;
    enum kind kind;
    bool coalesced;
    bool source, destination, host_destination, dim, sizes, outs;
};

struct comm_call {
    const char *name; /* "scatter" */
    const char *cluster, *backend;
    int *devices;
    int device_count;
    int source, destination, dim;
    int64_t *sizes; /* scatter: NULL: even pieces */
    int size_count, buffer_bytes;
    struct rh_tensor **inputs,
        **outs; /* `outs`: given tensors that results go into; NULL: new ones */
    int input_count, out_count;
    int tensors_per_device; /* coalesced calls */
    struct rh_tensor **results;
    int result_count;
    double seconds;
    struct rh_traffic traffic;
};

/* The tensors that the call starts from and those that it writes into. */
enum rh_status comm_make(struct rh_cluster *cluster, const struct comm_arguments *a,
                         const struct call_kind *kind, struct comm_call *call);
enum rh_status comm_run_kind(const struct call_kind *kind, struct comm_call *call);
void comm_free(struct comm_call *call);

void comm_print(const struct comm_call *call);
cJSON *comm_json(const struct comm_call *call);

#endif
