/* The roofline with measured rows, and the text that names an op in a measured table. */
#include "cost/cost.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { KEY_BYTES = 512, MOST_OPERANDS = 8 };

/* A key being written; what does not fit is cut, never past the end. */
struct key {
    char *out;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct key *key, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(key->out + key->used, KEY_BYTES - key->used, format, arguments);
    va_end(arguments);
    if (length > 0)
        key->used += (size_t)length;
    if (key->used >= KEY_BYTES)
        key->used = KEY_BYTES - 1;
}

static void add_pair(struct key *key, const char *name, int first, int second)
{
    add(key, first == second ? " %s%d" : " %s%dx%d", name, first, second);
}

static void add_window(struct key *key, const struct op *op)
{
    if (op->window.output_h > 0 || op->window.output_w > 0) {
        add(key, " o%dx%d", op->window.output_h, op->window.output_w);
        return;
    }
    add(key, " k%dx%d", op->window.kernel_h, op->window.kernel_w);
    add_pair(key, "s", op->window.stride_h, op->window.stride_w);
    add_pair(key, "p", op->window.padding_h, op->window.padding_w);
    if (op_class(op->kind) == OP_CLASS_CONVOLUTION)
        add(key, " g%d", op->window.groups);
    if (op->window.dilation > 1)
        add(key, " d%d", op->window.dilation);
}

static void add_attributes(struct key *key, const struct op *op)
{
    enum op_class class = op_class(op->kind);
    if (class == OP_CLASS_CONVOLUTION || class == OP_CLASS_POOLING)
        add_window(key, op);
    else if (op->kind == OP_batch_norm2d)
        add(key, "%s%s", op->norm.training ? " training" : " evaluation",
            op->norm.relu ? " relu" : "");
    else if ((op->kind == OP_batch_norm2d_grad && op->norm.relu) ||
             (op->kind == OP_linear && op->linear.relu))
        add(key, " relu");
    if (op->accumulate)
        add(key, " accumulate");
}

/* Element types are written where they are not what the op computes in. */
static void add_type(struct key *key, const struct op *op, const struct tensor_type *type)
{
    enum dtype plain = op->compute == DTYPE_TF32 ? DTYPE_F32 : op->compute;
    enum dtype stored = type->dtype == DTYPE_TF32 ? DTYPE_F32 : type->dtype;
    add(key, "(");
    for (int i = 0; i < type->shape.rank; i++)
        add(key, "%s%lld", i ? "," : "", (long long)type->shape.dim[i]);
    add(key, ")%s", stored == plain ? "" : dtype_name(stored));
}

/* Ops with any number of operands (optimizers, pack) are named by their count and elements. */
static void add_types(struct key *key, const struct op *op, const struct tensor_type *types,
                      int count)
{
    if (count > MOST_OPERANDS) {
        double elements = 0;
        for (int i = 0; i < count; i++)
            elements += (double)shape_elements(&types[i].shape);
        add(key, " %d operands of %.0f elements", count, elements);
        return;
    }
    for (int i = 0; i < count; i++) {
        add(key, " ");
        add_type(key, op, &types[i]);
    }
}

char *cost_op_key(const struct op *op, const struct tensor_type *reads, int read_count,
                  const struct tensor_type *writes, int write_count, char out[512])
{
    struct key key = {out, 0};
    out[0] = '\0';
    add(&key, "%s", op_name(op->kind));
    add_attributes(&key, op);
    add(&key, " %s:", dtype_name(op->compute));
    add_types(&key, op, reads, read_count);
    add(&key, " ->");
    add_types(&key, op, writes, write_count);
    return out;
}

static int compare_key(const void *key, const void *row)
{
    return strcmp(key, ((const struct measured_op *)row)->key);
}

enum rh_status cost_op_seconds(const struct device_model *device, const struct op *op,
                               const struct tensor_type *reads, int read_count,
                               const struct tensor_type *writes, int write_count, double *seconds)
{
    if (device->measured_count) {
        char key[KEY_BYTES];
        cost_op_key(op, reads, read_count, writes, write_count, key);
        const struct measured_op *row =
            bsearch(key, device->measured, (size_t)device->measured_count, sizeof *device->measured,
                    compare_key);
        if (row) {
            *seconds = row->seconds;
            return RH_OK;
        }
    }
    double flops = op_flops(op, reads, read_count, writes, write_count);
    double bytes = op_bytes(op, reads, read_count, writes, write_count);
    double rate = device->flops_per_second[op->compute];
    if (flops > 0 && rate <= 0)
        return fail(RH_INVALID, "device '%s' has no %s rate, which '%s' needs", device->name,
                    dtype_name(op->compute), op_name(op->kind));
    double roof = flops > 0 ? flops / rate : 0;
    roof = fmax(roof, bytes / device->memory_bytes_per_second);
    *seconds = fmax(device->kernel_seconds, roof / device->efficiency[op_class(op->kind)]);
    return RH_OK;
}
