#include "plan/attributes.h"

#include <limits.h>
#include <stddef.h>

#include "base/json.h"

enum family {
    EVERY,
    WINDOW,
    NORM,
    LOSS,
    SGD,
    ADAM,
    SCALER,
    SCALE_ADD,
    NONE /* what has no attributes of its own */
};

static enum family family_of(enum op_kind kind)
{
    switch (kind) {
    case OP_sgd: return SGD;
    case OP_adam:
    case OP_adamw: return ADAM;
    case OP_grad_scaler: return SCALER;
    case OP_scale_add:
    case OP_bucket_copy: return SCALE_ADD;
    default: break;
    }
    switch (op_class(kind)) {
    case OP_CLASS_CONVOLUTION:
    case OP_CLASS_POOLING: return WINDOW;
    case OP_CLASS_NORMALIZATION: return NORM;
    case OP_CLASS_LOSS: return LOSS;
    default: return NONE;
    }
}

enum field_type { FIELD_INT, FIELD_BOOL, FIELD_DOUBLE };

static const struct field {
    enum family family;
    const char *name;
    enum field_type type;
    size_t offset;
} fields[] = {
#define FIELD(family, name, type, member)                                                          \
    {                                                                                              \
        family, name, type, offsetof(struct op, member)                                            \
    }
    FIELD(EVERY, "accumulate", FIELD_BOOL, accumulate),
    FIELD(EVERY, "scaled", FIELD_BOOL, scaled),
    FIELD(WINDOW, "kernel_h", FIELD_INT, window.kernel_h),
    FIELD(WINDOW, "kernel_w", FIELD_INT, window.kernel_w),
    FIELD(WINDOW, "stride_h", FIELD_INT, window.stride_h),
    FIELD(WINDOW, "stride_w", FIELD_INT, window.stride_w),
    FIELD(WINDOW, "padding_h", FIELD_INT, window.padding_h),
    FIELD(WINDOW, "padding_w", FIELD_INT, window.padding_w),
    FIELD(WINDOW, "dilation", FIELD_INT, window.dilation),
    FIELD(WINDOW, "groups", FIELD_INT, window.groups),
    FIELD(WINDOW, "output_h", FIELD_INT, window.output_h),
    FIELD(WINDOW, "output_w", FIELD_INT, window.output_w),
    FIELD(WINDOW, "ceil_mode", FIELD_BOOL, window.ceil_mode),
    FIELD(NORM, "epsilon", FIELD_DOUBLE, norm.epsilon),
    FIELD(NORM, "momentum", FIELD_DOUBLE, norm.momentum),
    FIELD(NORM, "training", FIELD_BOOL, norm.training),
    FIELD(NORM, "relu", FIELD_BOOL, norm.relu),
    FIELD(LOSS, "weight", FIELD_DOUBLE, loss.weight),
    FIELD(LOSS, "sum", FIELD_BOOL, loss.sum),
    FIELD(SGD, "momentum", FIELD_DOUBLE, sgd.momentum),
    FIELD(SGD, "dampening", FIELD_DOUBLE, sgd.dampening),
    FIELD(SGD, "weight_decay", FIELD_DOUBLE, sgd.weight_decay),
    FIELD(SGD, "nesterov", FIELD_BOOL, sgd.nesterov),
    FIELD(ADAM, "beta1", FIELD_DOUBLE, adam.beta1),
    FIELD(ADAM, "beta2", FIELD_DOUBLE, adam.beta2),
    FIELD(ADAM, "epsilon", FIELD_DOUBLE, adam.epsilon),
    FIELD(ADAM, "weight_decay", FIELD_DOUBLE, adam.weight_decay),
    FIELD(SCALER, "max_norm", FIELD_DOUBLE, scaler.max_norm),
    FIELD(SCALER, "skip", FIELD_BOOL, scaler.skip),
    FIELD(SCALER, "growth", FIELD_DOUBLE, scaler.growth),
    FIELD(SCALER, "backoff", FIELD_DOUBLE, scaler.backoff),
    FIELD(SCALER, "interval", FIELD_INT, scaler.interval),
    FIELD(SCALE_ADD, "alpha", FIELD_DOUBLE, scale_add.alpha),
    FIELD(SCALE_ADD, "beta", FIELD_DOUBLE, scale_add.beta),
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

static bool has(const struct field *field, enum op_kind kind)
{
    return field->family == EVERY || field->family == family_of(kind);
}

cJSON *attributes_json(const struct op *op)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "compute", dtype_name(op->compute));
    for (int i = 0; i < FIELDS; i++) {
        const struct field *field = &fields[i];
        const char *at = (const char *)op + field->offset;
        if (!has(field, op->kind))
            continue;
        bool set = field->type == FIELD_BOOL && *(const bool *)(const void *)at;
        if (field->type == FIELD_INT)
            cJSON_AddNumberToObject(object, field->name, *(const int *)(const void *)at);
        else if (field->type == FIELD_DOUBLE)
            cJSON_AddNumberToObject(object, field->name, *(const double *)(const void *)at);
        else if (set)
            cJSON_AddTrueToObject(object, field->name);
    }
    return object;
}

static enum rh_status read_field(const cJSON *object, const char *where, const struct field *field,
                                 char *at)
{
    int64_t number = 0;
    if (field->type == FIELD_BOOL)
        return json_bool(object, where, field->name, (bool *)(void *)at);
    if (field->type == FIELD_DOUBLE)
        return json_number(object, where, field->name, -1e300, 1e300, (double *)(void *)at);
    RETURN_IF_FAILED(json_integer(object, where, field->name, 0, INT_MAX, &number));
    *(int *)(void *)at = (int)number;
    return RH_OK;
}

enum rh_status attributes_read(const cJSON *object, const char *where, struct op *op)
{
    const char *names[FIELDS + 1];
    const char *compute = dtype_name(DTYPE_F32);
    int count = 0;
    names[count++] = "compute";
    for (int i = 0; i < FIELDS; i++)
        if (has(&fields[i], op->kind))
            names[count++] = fields[i].name;
    RETURN_IF_FAILED(json_check_keys(object, where, names, count));
    RETURN_IF_FAILED(json_string(object, where, "compute", &compute));
    if (!dtype_parse(compute, &op->compute))
        return fail(RH_INVALID, "%s: unknown element type '%s'", where, compute);
    for (int i = 0; i < FIELDS; i++)
        if (has(&fields[i], op->kind))
            RETURN_IF_FAILED(read_field(object, where, &fields[i], (char *)op + fields[i].offset));
    return RH_OK;
}
