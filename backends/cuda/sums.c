/* What our kernels that sum over blocks need besides their operands, in batch norm, biases'
 * gradients and losses: partial sums in the plan's workspace, and counters that stay. */
#include "backends/cuda/ranks.h"
#include "backends/cuda/ready.h"
#include "plan/workspace.h"

static const struct tensor_type *first_of(const struct role *role, const struct instruction *in)
{
    return &role->views[in->compute.view_first].type;
}

/* What the kernels work in must be there: whoever made the plan may have left out the pass. */
enum rh_status sums_check(const struct role *role, const struct instruction *in)
{
    size_t wanted = op_sums_bytes(&in->compute.op, first_of(role, in), in->compute.write_count);
    size_t given = workspace_bytes(role, in);
    if (given >= wanted || role->streams[in->stream].device == role->gpus)
        return RH_OK;
    return fail(RH_INVALID, "'%s': workspace too small: %zu bytes wanted, %zu given", in->name,
                wanted, given);
}

/* A batch norm has one a channel, a loss with its gradient one. */
static int counters_of(const struct role *role, const struct instruction *in)
{
    if (in->kind != INSTRUCTION_COMPUTE || in->compute.workspace < 0)
        return 0;
    switch (op_class(in->compute.op.kind)) {
    case OP_CLASS_NORMALIZATION: return (int)first_of(role, in)->shape.dim[1];
    case OP_CLASS_LOSS: return 1;
    default: return 0;
    }
}

/* The most that an instruction of this list has. */
static int most_counters(const struct role *role, const struct list *list)
{
    int most = 0;
    for (int i = 0; i < list->count; i++) {
        int count = counters_of(role, &list->instructions[i]);
        most = count > most ? count : most;
    }
    return most;
}

/* Launches of one stream follow each other, and each leaves its counters zero. */
enum rh_status counters_make(struct session *s)
{
    for (int r = 0; r < s->plan->role_count; r++)
        for (int l = 0; l < s->plan->roles[r].list_count; l++) {
            int count = most_counters(&s->plan->roles[r], &s->plan->roles[r].lists[l]);
            if (count > s->counters_per_stream)
                s->counters_per_stream = count;
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
