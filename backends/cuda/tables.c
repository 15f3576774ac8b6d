/* Tables of pointers in device memory, for kernels that take many tensors in one launch. */
#include <stdlib.h>

#include "backends/cuda/ready.h"
#include "base/memory.h"

static enum rh_status to_device(struct ready *r, const void *rows, size_t bytes)
{
    CUDA_DO(cudaMalloc(&r->table, bytes));
    CUDA_DO(cudaMemcpy(r->table, rows, bytes, cudaMemcpyHostToDevice));
    return RH_OK;
}

/* Rows of at most KERNEL_ROW_ELEMENTS that `elements` take. */
static int rows_for(int64_t elements)
{
    return (int)((elements + KERNEL_ROW_ELEMENTS - 1) / KERNEL_ROW_ELEMENTS);
}

static int64_t row_length(int64_t elements, int row)
{
    int64_t left = elements - (int64_t)row * KERNEL_ROW_ELEMENTS;
    return left < KERNEL_ROW_ELEMENTS ? left : KERNEL_ROW_ELEMENTS;
}

enum rh_status ready_optimizer(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, struct ready *r)
{
    const struct op *op = &in->compute.op;
    const struct view *views = &role->views[in->compute.view_first];
    bool adaptive = op->kind != OP_sgd;
    int stride = adaptive ? 4 : op->sgd.momentum != 0 ? 3 : 2;
    int first_read = op->scaled ? 3 : 2;
    for (int i = first_read; i < in->compute.read_count; i += stride)
        r->rows += rows_for(shape_elements(&views[i].type.shape));
    struct optimizer_table *rows = memory_new_array((size_t)r->rows + 2, sizeof *rows);
    int at = 0;
    for (int i = first_read; i < in->compute.read_count; i += stride) {
        int64_t elements = shape_elements(&views[i].type.shape);
        for (int k = 0; k < rows_for(elements); k++) {
            struct optimizer_table *row = &rows[at++];
            int64_t first = (int64_t)k * KERNEL_ROW_ELEMENTS;
            row->p = (float *)view_pointer(s, worker, &views[i]) + first;
            row->g = (float *)view_pointer(s, worker, &views[i + 1]) + first;
            if (stride > 2)
                row->m = (float *)view_pointer(s, worker, &views[i + 2]) + first;
            if (stride > 3)
                row->v = (float *)view_pointer(s, worker, &views[i + 3]) + first;
            row->n = row_length(elements, k);
        }
    }
    enum rh_status status = to_device(r, rows, (size_t)(r->rows + 2) * sizeof *rows);
    free(rows);
    return status;
}

enum rh_status ready_grad_norm(struct session *s, int worker, const struct role *role,
                               const struct instruction *in, struct ready *r)
{
    const struct view *views = &role->views[in->compute.view_first];
    for (int i = 0; i < in->compute.read_count; i++)
        r->rows += rows_for(shape_elements(&views[i].type.shape));
    /* two floats a row and a counter: half as many rows again, and one */
    size_t most = (size_t)r->rows + (size_t)r->rows / 2 + 2;
    struct norm_table *rows = memory_new_array(most, sizeof *rows);
    int at = 0;
    for (int i = 0; i < in->compute.read_count; i++) {
        int64_t elements = shape_elements(&views[i].type.shape);
        const float *g = view_pointer(s, worker, &views[i]);
        for (int k = 0; k < rows_for(elements); k++)
            rows[at++] =
                (struct norm_table){g + (int64_t)k * KERNEL_ROW_ELEMENTS, row_length(elements, k)};
    }
    enum rh_status status = to_device(r, rows, most * sizeof *rows);
    free(rows);
    return status;
}

/* Of one tensor nothing is made ready. */
enum rh_status ready_casts(struct session *s, int worker, const struct role *role,
                           const struct instruction *in, struct ready *r)
{
    const struct view *views = &role->views[in->compute.view_first];
    int count = in->compute.read_count;
    if (count == 1)
        return RH_OK;
    for (int i = 0; i < count; i++) {
        if (!view_same_order(&views[i], &views[count + i]))
            return fail(RH_INVALID, "'%s': cast %d of %d changes the memory format", in->name, i,
                        count);
        r->rows += rows_for(shape_elements(&views[i].type.shape));
    }
    struct cast_table *rows = memory_new_array((size_t)r->rows + 1, sizeof *rows);
    int at = 0;
    for (int i = 0; i < count; i++) {
        int64_t elements = shape_elements(&views[i].type.shape);
        for (int k = 0; k < rows_for(elements); k++) {
            size_t first = (size_t)k * KERNEL_ROW_ELEMENTS;
            rows[at].x = (char *)view_pointer(s, worker, &views[i]) +
                         first * dtype_bytes(views[i].type.dtype);
            rows[at].y = (char *)view_pointer(s, worker, &views[count + i]) +
                         first * dtype_bytes(views[count + i].type.dtype);
            rows[at++].n = row_length(elements, k);
        }
    }
    enum rh_status status = to_device(r, rows, (size_t)(r->rows + 1) * sizeof *rows);
    free(rows);
    return status;
}

enum rh_status ready_pieces(struct session *s, int worker, const struct role *role,
                            const struct instruction *in, struct ready *r)
{
    bool pack = in->compute.op.kind == OP_pack;
    r->rows = pack ? in->compute.read_count : in->compute.write_count;
    const struct view *views = &role->views[in->compute.view_first];
    const struct view *tensors = pack ? views : views + 1;
    char *flat = view_pointer(s, worker, pack ? &views[r->rows] : views);
    struct piece_table *rows = memory_new_array((size_t)r->rows + 1, sizeof *rows);
    for (int i = 0; i < r->rows; i++) {
        rows[i] = (struct piece_table){(float *)(void *)flat, view_pointer(s, worker, &tensors[i]),
                                       shape_elements(&tensors[i].type.shape)};
        flat += type_bytes(&tensors[i].type);
        r->longest = rows[i].n > r->longest ? rows[i].n : r->longest;
    }
    enum rh_status status = to_device(r, rows, (size_t)(r->rows + 1) * sizeof *rows);
    free(rows);
    return status;
}
