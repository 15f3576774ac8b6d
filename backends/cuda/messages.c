#include <stdlib.h>

#include "backends/cuda/communicators.h"
#include "backends/cuda/ranks.h"
#include "base/memory.h"

static const struct role *role_of(const struct session *s, int worker)
{
    return &s->plan->roles[s->workers[worker].role];
}

static const struct view *view_of_end(const struct session *s, const struct untimed_end *end)
{
    return &role_of(s, end->worker)->views[end->view];
}

/* Bytes of one end travel as they lie if they lie so at the other end too; else row by row, which
 * may be how this end has them. */
static bool needs_scratch(const struct view *own, const struct view *other)
{
    return !view_same_order(own, other) && !view_is_row_major(own);
}

static struct view row_by_row(const struct tensor_type *type)
{
    struct view rows = {.type = *type};
    int64_t step = 1;
    for (int d = type->shape.rank - 1; d >= 0; d--) {
        rows.stride[d] = step;
        step *= type->shape.dim[d];
    }
    rows.type.channels_last = false;
    return rows;
}

/* ---- at load: the lists are run without effect, to see who sends what to whom ---- */
static enum rh_status note_need(void *context, const struct untimed_end *from,
                                const struct untimed_end *to)
{
    struct session *s = context;
    struct ranks *r = s->ranks;
    bool sends = from->worker == r->self.rank;
    const struct untimed_end *mine = sends ? from : to;
    const struct view *own = view_of_end(s, mine);
    const struct view *other = view_of_end(s, sends ? to : from);
    if (from->worker == to->worker || mine->worker != r->self.rank || !needs_scratch(own, other))
        return RH_OK;
    if (!shape_equal(&own->type.shape, &other->type.shape))
        return fail(RH_INVALID,
                    "a message between workers %d and %d has two shapes, and is strided",
                    from->worker, to->worker);
    if (type_bytes(&own->type) > r->scratch_bytes[mine->stream])
        r->scratch_bytes[mine->stream] = type_bytes(&own->type);
    return RH_OK;
}

enum rh_status messages_make(struct session *s)
{
    struct ranks *r = s->ranks;
    const struct role *role = role_of(s, r->self.rank);
    struct untimed_hooks hooks = {.context = s, .transfer = note_need};
    r->scratch_count = role->stream_count;
    r->scratch = memory_new_array((size_t)r->scratch_count + 1, sizeof *r->scratch);
    r->scratch_bytes = memory_new_array((size_t)r->scratch_count + 1, sizeof *r->scratch_bytes);
    for (int l = 0; l < role->list_count; l++)
        RETURN_IF_FAILED(untimed_run(s->plan, &s->plan->mesh, l, &hooks));
    for (int k = 0; k < r->scratch_count; k++)
        if (r->scratch_bytes[k])
            CUDA_DO(cudaMalloc(&r->scratch[k], r->scratch_bytes[k]));
    return RH_OK;
}

void messages_drop(struct session *s)
{
    struct ranks *r = s->ranks;
    for (int k = 0; r->scratch && k < r->scratch_count; k++)
        cudaFree(r->scratch[k]);
    free(r->scratch);
    free(r->scratch_bytes);
}

/* ---- a message ---- */
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
    const struct view *view = view_of_end(s, mine);
    struct view rows = row_by_row(&view->type);
    int group = group_of(s, mine);
    ncclComm_t c = ranks_find(r, group, role_of(s, mine->worker)->streams[mine->stream].name);
    int peer = communicators_rank(s->plan, group, other->worker);
    cudaStream_t stream = s->workers[mine->worker].streams[mine->stream];
    size_t bytes = type_bytes(&view->type);
    void *own = view_pointer(s, mine->worker, view);
    bool packs = needs_scratch(view, view_of_end(s, other));
    void *at = packs ? r->scratch[mine->stream] : own;
    if (packs && sends)
        view_copy_strided(stream, view, own, &rows, at);
    if (sends)
        NCCL_DO(r, ncclSend(at, bytes, ncclChar, peer, c, stream));
    else
        NCCL_DO(r, ncclRecv(at, bytes, ncclChar, peer, c, stream));
    RETURN_IF_FAILED(ranks_settle(r, c, "message"));
    if (packs && !sends)
        view_copy_strided(stream, &rows, at, view, own);
    return RH_OK;
}
