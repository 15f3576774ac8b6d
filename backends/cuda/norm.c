/* What batch norm's launches need besides their operands: partial sums in the plan's workspace, and
 * counters that stay. */
#include "backends/cuda/ranks.h"
#include "backends/cuda/ready.h"
#include "op/norm_cut.h"
#include "plan/workspace.h"

static const struct tensor_type *picture_of(const struct role *role, const struct instruction *in)
{
    return &role->views[in->compute.view_first].type;
}

/* What the kernels work in must be there: whoever made the plan may have left out the pass. */
enum rh_status ready_batch_norm(const struct role *role, const struct instruction *in)
{
    const struct tensor_type *x = picture_of(role, in);
    const int64_t *dim = x->shape.dim;
    bool sums = in->compute.op.kind != OP_batch_norm2d || in->compute.op.norm.training;
    size_t wanted = sums ? norm_cut_bytes(dim[0], dim[1], dim[2], dim[3], x->channels_last) : 0;
    size_t given = workspace_bytes(role, in);
    if (given >= wanted)
        return RH_OK;
    return fail(RH_INVALID, "'%s': workspace too small: %zu bytes wanted, %zu given", in->name,
                wanted, given);
}

/* Most channels that a batch norm of this list has. */
static int most_channels(const struct role *role, const struct list *list)
{
    int most = 0;
    for (int i = 0; i < list->count; i++) {
        const struct instruction *in = &list->instructions[i];
        if (in->kind != INSTRUCTION_COMPUTE || in->compute.workspace < 0 ||
            op_class(in->compute.op.kind) != OP_CLASS_NORMALIZATION)
            continue;
        int channels = (int)picture_of(role, in)->shape.dim[1];
        most = channels > most ? channels : most;
    }
    return most;
}

/* Launches of one stream follow each other, and each leaves its counters zero. */
enum rh_status counters_make(struct session *s)
{
    for (int r = 0; r < s->plan->role_count; r++)
        for (int l = 0; l < s->plan->roles[r].list_count; l++) {
            int channels = most_channels(&s->plan->roles[r], &s->plan->roles[r].lists[l]);
            if (channels > s->counters_per_stream)
                s->counters_per_stream = channels;
        }
    for (int i = 0; i < s->worker_count && s->counters_per_stream; i++) {
        struct cuda_worker *w = &s->workers[i];
        size_t bytes = (size_t)s->plan->roles[w->role].stream_count *
                       (size_t)s->counters_per_stream * sizeof *w->counters;
        if (!ranks_owns(s, i))
            continue;
        CUDA_DO(cudaMalloc((void **)&w->counters, bytes));
        CUDA_DO(cudaMemset(w->counters, 0, bytes));
    }
    return RH_OK;
}

void counters_drop(struct session *s)
{
    for (int i = 0; i < s->worker_count; i++)
        cudaFree(s->workers[i].counters);
    s->counters_per_stream = 0;
}
