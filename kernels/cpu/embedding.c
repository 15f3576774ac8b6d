#include "kernels/cpu/kernel.h"

#include <string.h>

static enum rh_status check_indices(const struct cpu_call *call, const int64_t *index,
                                    int64_t count, int64_t rows)
{
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= rows)
            return fail(RH_INVALID,
                        "index out of range in op '%s': sample %lld has %lld, the table has %lld "
                        "rows",
                        op_name(call->op->kind), (long long)i, (long long)index[i],
                        (long long)rows);
    return RH_OK;
}

enum rh_status cpu_embedding(const struct cpu_call *call)
{
    const int64_t *index = cpu_read_integers(call, 0);
    const float *w = cpu_read(call, 1);
    int64_t count = cpu_read_elements(call, 0);
    int64_t rows = cpu_read_dim(call, 1)[0], width = cpu_read_dim(call, 1)[1];
    float *y = cpu_write(call, 0);
    RETURN_IF_FAILED(check_indices(call, index, count, rows));
    for (int64_t i = 0; i < count && width > 0; i++)
        memcpy(y + i * width, w + index[i] * width, (size_t)width * sizeof *y);
    return RH_OK;
}

/* Rows of repeated indices add up; untouched rows are zero. */
enum rh_status cpu_embedding_weight_grad(const struct cpu_call *call)
{
    const float *gy = cpu_read(call, 0);
    const int64_t *index = cpu_read_integers(call, 1);
    int64_t count = cpu_read_elements(call, 1);
    int64_t rows = cpu_write_dim(call, 0)[0], width = cpu_write_dim(call, 0)[1];
    float *gw = cpu_write(call, 0);
    RETURN_IF_FAILED(check_indices(call, index, count, rows));
    for (int64_t i = 0; i < rows * width && !call->op->accumulate; i++)
        gw[i] = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < width; k++)
            gw[index[i] * width + k] += gy[i * width + k];
    return RH_OK;
}
