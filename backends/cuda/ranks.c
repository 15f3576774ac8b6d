#include "backends/cuda/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/rank.h"
#include "base/text.h"
#include "plan/communicators.h"

struct ranks {
    struct rank self;
    double timeout_seconds;
    ncclComm_t world;
    struct communicator_use *uses;
    ncclComm_t *communicators; /* per use; NULL: this rank is in no instance, or alone */
    int count;
};

static enum rh_status nccl_failed(const struct ranks *r, const char *what, ncclResult_t error)
{
    return fail(RH_FAILED, "rank %d: %.60s: %s (%.200s)", r->self.rank, what,
                ncclGetErrorString(error), ncclGetLastError(r->world));
}
#define NCCL_DO(ranks, call)                                                                       \
    do {                                                                                           \
        ncclResult_t error_ = (call);                                                              \
        if (error_ != ncclSuccess && error_ != ncclInProgress)                                     \
            return nccl_failed(ranks, #call, error_);                                              \
    } while (0)

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_shortly(void)
{
    const struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
}

/* Communicators do not block: a call may go on in the background, and a dead rank is no hang. */
static enum rh_status settle(const struct ranks *r, ncclComm_t communicator, const char *what)
{
    double end = now_seconds() + r->timeout_seconds;
    ncclResult_t state = ncclInProgress;
    for (;;) {
        NCCL_DO(r, ncclCommGetAsyncError(communicator, &state));
        if (state == ncclSuccess)
            return RH_OK;
        if (state != ncclInProgress)
            return nccl_failed(r, what, state);
        if (now_seconds() > end)
            return fail(RH_FAILED, "rank %d: %s: no answer of the others within %g s", r->self.rank,
                        what, r->timeout_seconds);
        pause_shortly();
    }
}

enum rh_status ranks_set_device(void)
{
    struct rank rank;
    int gpus = 0;
    RETURN_IF_FAILED(rank_read(&rank));
    CUDA_DO(cudaGetDeviceCount(&gpus));
    CUDA_DO(cudaSetDevice(rank.local % gpus));
    return RH_OK;
}

int ranks_nccl_version(void)
{
    int version = 0;
    ncclGetVersion(&version);
    return version;
}

bool ranks_owns(const struct session *s, int worker)
{
    return !s->ranks || s->ranks->self.rank == worker;
}

int ranks_communicators(const struct session *s)
{
    int count = s->ranks != NULL; /* all ranks' own */
    for (int i = 0; s->ranks && i < s->ranks->count; i++)
        count += s->ranks->communicators[i] != NULL;
    return count;
}

/* ---- the id, by a file: whole or not there ---- */
static enum rh_status write_id(const char *path, const ncclUniqueId *id)
{
    char *part = text_format("%s.part", path);
    FILE *out = fopen(part, "wb");
    bool good = out && fwrite(id, sizeof *id, 1, out) == 1;
    good = out && fclose(out) == 0 && good && rename(part, path) == 0;
    free(part);
    return good ? RH_OK
                : fail(RH_FAILED, "cannot write the rendezvous '%s': %s", path, strerror(errno));
}

static enum rh_status read_id(const struct ranks *r, const char *path, ncclUniqueId *id)
{
    double end = now_seconds() + r->timeout_seconds;
    FILE *in = NULL;
    while (!(in = fopen(path, "rb"))) {
        if (now_seconds() > end)
            return fail(RH_FAILED, "rank %d: rank 0 did not write '%s' within %g s", r->self.rank,
                        path, r->timeout_seconds);
        pause_shortly();
    }
    bool good = fread(id, sizeof *id, 1, in) == 1;
    fclose(in);
    return good ? RH_OK : fail(RH_FAILED, "rank %d: '%s' is no NCCL id", r->self.rank, path);
}

static enum rh_status join_world(struct ranks *r)
{
    const char *path = getenv("REHEARSE_RENDEZVOUS");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    config.blocking = 0;
    if (!path)
        return fail(RH_INVALID, "rank %d of %d: REHEARSE_RENDEZVOUS names no file for NCCL's id",
                    r->self.rank, r->self.ranks);
    if (r->self.rank == 0) {
        NCCL_DO(r, ncclGetUniqueId(&id));
        RETURN_IF_FAILED(write_id(path, &id));
    } else {
        RETURN_IF_FAILED(read_id(r, path, &id));
    }
    NCCL_DO(r, ncclCommInitRankConfig(&r->world, r->self.ranks, id, r->self.rank, &config));
    RETURN_IF_FAILED(settle(r, r->world, "joining"));
    if (r->self.rank == 0)
        unlink(path); /* all have read it */
    return RH_OK;
}

static enum rh_status split(struct ranks *r, const struct plan *plan)
{
    communicators_list(plan, &r->uses, &r->count);
    r->communicators = memory_new_array((size_t)r->count + 1, sizeof(ncclComm_t));
    for (int i = 0; i < r->count; i++) {
        int group = r->uses[i].group;
        int key = communicators_rank(plan, group, r->self.rank);
        int color = key < 0 ? NCCL_SPLIT_NOCOLOR : communicators_color(plan, group, r->self.rank);
        NCCL_DO(r, ncclCommSplit(r->world, color, key < 0 ? 0 : key, &r->communicators[i], NULL));
        RETURN_IF_FAILED(settle(r, r->world, "splitting"));
        if (r->communicators[i])
            RETURN_IF_FAILED(settle(r, r->communicators[i], "splitting"));
    }
    return RH_OK;
}

enum rh_status ranks_join(struct session *s)
{
    struct rank self;
    RETURN_IF_FAILED(rank_read(&self));
    if (self.ranks == 1 || s->worker_count == 1)
        return RH_OK;
    if (s->worker_count != self.ranks)
        return fail(RH_INVALID,
                    "the plan has %d workers; the job has %d ranks, and needs one a worker",
                    s->worker_count, self.ranks);
    const char *timeout = getenv("REHEARSE_TIMEOUT");
    s->ranks = memory_new(sizeof *s->ranks);
    s->ranks->self = self;
    s->ranks->timeout_seconds = timeout && atof(timeout) > 0 ? atof(timeout) : 20;
    RETURN_IF_FAILED(join_world(s->ranks));
    return split(s->ranks, s->plan);
}

static void drop(struct session *s, bool abort)
{
    struct ranks *r = s->ranks;
    for (int i = 0; i < r->count; i++)
        if (r->communicators[i])
            (abort ? ncclCommAbort : ncclCommDestroy)(r->communicators[i]);
    if (r->world)
        (abort ? ncclCommAbort : ncclCommDestroy)(r->world);
    r->count = 0;
    r->world = NULL;
}

void ranks_leave(struct session *s)
{
    if (!s->ranks)
        return;
    drop(s, false);
    free(s->ranks->communicators);
    free(s->ranks->uses);
    free(s->ranks);
    s->ranks = NULL;
}

static enum rh_status look_for_errors(const struct ranks *r)
{
    ncclResult_t state = ncclSuccess;
    for (int i = 0; i <= r->count; i++) {
        ncclComm_t c = i < r->count ? r->communicators[i] : r->world;
        if (!c)
            continue;
        NCCL_DO(r, ncclCommGetAsyncError(c, &state));
        if (state != ncclSuccess && state != ncclInProgress)
            return nccl_failed(r, "a peer failed", state);
    }
    return RH_OK;
}

enum rh_status ranks_wait(struct session *s, cudaEvent_t event)
{
    if (!s->ranks) {
        CUDA_DO(cudaEventSynchronize(event));
        return RH_OK;
    }
    double end = now_seconds() + s->ranks->timeout_seconds;
    for (;;) {
        cudaError_t error = cudaEventQuery(event);
        if (error == cudaSuccess)
            return RH_OK;
        enum rh_status status = error == cudaErrorNotReady
                                    ? look_for_errors(s->ranks)
                                    : cuda_failed("waiting for the step", error);
        if (status == RH_OK && now_seconds() > end)
            status = fail(RH_FAILED, "rank %d: no progress in %g s: another rank is dead or hangs",
                          s->ranks->self.rank, s->ranks->timeout_seconds);
        if (status != RH_OK) {
            drop(s, true);
            return status;
        }
    }
}

/* ---- what the plan asks for ---- */
static enum rh_status nccl_type(enum dtype dtype, ncclDataType_t *type)
{
    switch (dtype) {
    case DTYPE_F32:
    case DTYPE_TF32: *type = ncclFloat32; return RH_OK;
    case DTYPE_BF16: *type = ncclBfloat16; return RH_OK;
    case DTYPE_F16: *type = ncclFloat16; return RH_OK;
    case DTYPE_I64: *type = ncclInt64; return RH_OK;
    default: return fail(RH_INVALID, "NCCL does not carry %s here", dtype_name(dtype));
    }
}

static ncclRedOp_t nccl_reduction(enum reduce_op reduce)
{
    return reduce == REDUCE_SUM ? ncclSum : reduce == REDUCE_MAX ? ncclMax : ncclMin;
}

static const struct role *role_of(const struct session *s, int worker)
{
    return &s->plan->roles[s->workers[worker].role];
}

static ncclComm_t find(const struct ranks *r, int group, const char *stream)
{
    return r->communicators[communicators_find(r->uses, r->count, group, stream)];
}

enum rh_status ranks_collect(struct session *s, const struct untimed_member *members, int count,
                             int root)
{
    const struct ranks *r = s->ranks;
    int me = 0;
    while (me < count && members[me].worker != r->self.rank)
        me++;
    if (me == count)
        return RH_OK;
    const struct instruction *in = members[me].instruction;
    const struct role *role = role_of(s, r->self.rank);
    const struct part *part = members[me].part;
    if (in->collect.part_count != 1)
        return fail(RH_INVALID, "'%s': %d devices of one rank; one is supported", in->name,
                    in->collect.part_count);
    const struct view *give = part->send >= 0 ? &role->views[part->send] : NULL;
    const struct view *get = part->receive >= 0 ? &role->views[part->receive] : NULL;
    const struct view *any = give ? give : get;
    const void *from = give ? view_pointer(s, r->self.rank, give) : NULL;
    void *to = get ? view_pointer(s, r->self.rank, get) : NULL;
    size_t n = (size_t)shape_elements(&any->type.shape);
    cudaStream_t stream = s->workers[r->self.rank].streams[part->stream];
    ncclComm_t c = find(r, in->collect.group, role->streams[part->stream].name);
    ncclRedOp_t op = nccl_reduction(in->collect.reduce);
    ncclDataType_t type = ncclChar;
    RETURN_IF_FAILED(nccl_type(any->type.dtype, &type));
    switch (in->collect.kind) {
    case COLLECTIVE_ALL_REDUCE: NCCL_DO(r, ncclAllReduce(from, to, n, type, op, c, stream)); break;
    case COLLECTIVE_REDUCE: NCCL_DO(r, ncclReduce(from, to, n, type, op, root, c, stream)); break;
    case COLLECTIVE_BROADCAST:
        NCCL_DO(r, ncclBroadcast(from, to ? to : (void *)from, n, type, root, c, stream));
        break;
    case COLLECTIVE_ALL_GATHER: NCCL_DO(r, ncclAllGather(from, to, n, type, c, stream)); break;
    case COLLECTIVE_REDUCE_SCATTER:
        NCCL_DO(r, ncclReduceScatter(from, to, n / (size_t)count, type, op, c, stream));
        break;
    default: NCCL_DO(r, ncclAlltoAll(from, to, n / (size_t)count, type, c, stream)); break;
    }
    return settle(r, c, in->name);
}

/* Every rank sees all messages in one order, so that one call a message cannot deadlock. The group
 * of a message is found by its end's instruction. */
static int group_of(const struct session *s, const struct untimed_end *end)
{
    const struct role *role = role_of(s, end->worker);
    for (int l = 0; l < role->list_count; l++)
        for (int i = 0; i < role->lists[l].count; i++) {
            const struct instruction *in = &role->lists[l].instructions[i];
            for (int k = 0; in->kind == INSTRUCTION_EXCHANGE && k < in->exchange.message_count; k++)
                if (role->messages[in->exchange.message_first + k].view == end->view)
                    return in->exchange.group;
        }
    return -1;
}

enum rh_status ranks_transfer(struct session *s, const struct untimed_end *from,
                              const struct untimed_end *to)
{
    const struct ranks *r = s->ranks;
    bool sends = from->worker == r->self.rank;
    if (!sends && to->worker != r->self.rank)
        return RH_OK;
    const struct untimed_end *mine = sends ? from : to;
    const struct untimed_end *other = sends ? to : from;
    const struct role *role = role_of(s, mine->worker);
    const struct view *view = &role->views[mine->view];
    int group = group_of(s, mine);
    ncclComm_t c = find(r, group, role->streams[mine->stream].name);
    int peer = communicators_rank(s->plan, group, other->worker);
    cudaStream_t stream = s->workers[mine->worker].streams[mine->stream];
    size_t bytes = type_bytes(&view->type);
    void *at = view_pointer(s, mine->worker, view);
    if (!view_is_dense(view))
        return fail(RH_INVALID, "a message of a strided view does not go to another rank");
    if (sends)
        NCCL_DO(r, ncclSend(at, bytes, ncclChar, peer, c, stream));
    else
        NCCL_DO(r, ncclRecv(at, bytes, ncclChar, peer, c, stream));
    return settle(r, c, "message");
}

/* ---- values of all ranks ---- */
static enum rh_status finish(struct session *s)
{
    RETURN_IF_FAILED(settle(s->ranks, s->ranks->world, "sharing values"));
    CUDA_DO(cudaEventRecord(s->join, s->origin));
    return ranks_wait(s, s->join);
}

static enum rh_status sum_on(struct session *s, double *on_gpu, double *values, size_t n,
                             bool maximum)
{
    CUDA_DO(cudaMemcpy(on_gpu, values, n * sizeof *values, cudaMemcpyHostToDevice));
    NCCL_DO(s->ranks, ncclAllReduce(on_gpu, on_gpu, n, ncclFloat64, maximum ? ncclMax : ncclSum,
                                    s->ranks->world, s->origin));
    RETURN_IF_FAILED(finish(s));
    CUDA_DO(cudaMemcpy(values, on_gpu, n * sizeof *values, cudaMemcpyDeviceToHost));
    return RH_OK;
}

enum rh_status ranks_sum(struct session *s, double *values, int count, bool maximum)
{
    double *on_gpu = NULL;
    if (!s->ranks)
        return RH_OK;
    CUDA_DO(cudaMalloc((void **)&on_gpu, ((size_t)count + 1) * sizeof *values));
    enum rh_status status = sum_on(s, on_gpu, values, (size_t)count, maximum);
    cudaFree(on_gpu);
    return status;
}

enum { SHARED_PIECE_BYTES = 8 << 20 };

static enum rh_status share_on(struct session *s, int owner, void *on_gpu, void *data, size_t bytes)
{
    CUDA_DO(cudaMemcpy(on_gpu, data, bytes, cudaMemcpyHostToDevice));
    NCCL_DO(s->ranks,
            ncclBroadcast(on_gpu, on_gpu, bytes, ncclChar, owner, s->ranks->world, s->origin));
    RETURN_IF_FAILED(finish(s));
    CUDA_DO(cudaMemcpy(data, on_gpu, bytes, cudaMemcpyDeviceToHost));
    return RH_OK;
}

/* In pieces: a plan may have left little of the GPU's memory. */
enum rh_status ranks_share(struct session *s, int owner, void *data, size_t bytes)
{
    void *on_gpu = NULL;
    enum rh_status status = RH_OK;
    if (!s->ranks)
        return RH_OK;
    CUDA_DO(cudaMalloc(&on_gpu, SHARED_PIECE_BYTES));
    for (size_t done = 0; done < bytes && status == RH_OK; done += SHARED_PIECE_BYTES) {
        size_t left = bytes - done;
        status = share_on(s, owner, on_gpu, (char *)data + done,
                          left < SHARED_PIECE_BYTES ? left : SHARED_PIECE_BYTES);
    }
    cudaFree(on_gpu);
    return status;
}
