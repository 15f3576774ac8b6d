#include "plan/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/describe.h"
#include "plan/import_read.h"

static const int64_t MOST_BYTES = INT64_C(1) << 50;

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* An index below `count`. */
enum rh_status import_index(const cJSON *object, const char *where, const char *key, int count,
                            int *index)
{
    int64_t number = 0;
    if (count == 0)
        return fail(RH_INVALID, "%s: '%s' names one of 0", where, key);
    RETURN_IF_FAILED(json_integer_required(object, where, key, 0, count - 1, &number));
    *index = (int)number;
    return RH_OK;
}

enum rh_status import_array(const cJSON *object, const char *where, const char *key,
                            const cJSON **array)
{
    *array = get(object, key);
    return cJSON_IsArray(*array) ? RH_OK : fail(RH_INVALID, "%s: '%s' is no list", where, key);
}

static enum rh_status read_numbers(const cJSON *array, const char *where, const char *key, int most,
                                   int64_t *numbers, int *count)
{
    *count = 0;
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) > most)
        return fail(RH_INVALID, "%s: '%s' is no list of at most %d numbers", where, key, most);
    for (const cJSON *item = array->child; item; item = item->next) {
        double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (!(value >= 0 && value <= (double)MOST_BYTES))
            return fail(RH_INVALID, "%s: '%s' has %g, 0 to %g is expected", where, key, value,
                        (double)MOST_BYTES);
        numbers[(*count)++] = (int64_t)value;
    }
    return RH_OK;
}

enum rh_status import_type(const cJSON *object, const char *where, struct tensor_type *type)
{
    const char *name = NULL;
    double bytes = 0;
    *type = (struct tensor_type){0};
    RETURN_IF_FAILED(json_string_required(object, where, "dtype", &name));
    if (!dtype_parse(name, &type->dtype))
        return fail(RH_INVALID, "%s: unknown element type '%s'", where, name);
    RETURN_IF_FAILED(read_numbers(get(object, "shape"), where, "shape", MAX_RANK, type->shape.dim,
                                  &type->shape.rank));
    RETURN_IF_FAILED(json_bool(object, where, "channels_last", &type->channels_last));
    bytes = (double)dtype_bytes(type->dtype);
    for (int i = 0; i < type->shape.rank; i++)
        bytes *= (double)type->shape.dim[i];
    return bytes <= (double)MOST_BYTES ? RH_OK
                                       : fail(RH_INVALID, "%s: a tensor of %g bytes", where, bytes);
}

/* Strides as the type lies, unless they are given. */
enum rh_status import_view(const cJSON *object, const char *where, const struct role *role,
                           struct view *view)
{
    int buffer = 0;
    int count = 0;
    int64_t offset = 0;
    struct tensor_type type;
    const cJSON *strides = get(object, "strides");
    RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "buffer", "offset", "dtype", "shape",
                                     "channels_last", "strides"));
    RETURN_IF_FAILED(import_index(object, where, "buffer", role->buffer_count, &buffer));
    RETURN_IF_FAILED(json_integer(object, where, "offset", 0, MOST_BYTES, &offset));
    RETURN_IF_FAILED(import_type(object, where, &type));
    *view = view_dense(buffer, offset, &type);
    if (!strides)
        return RH_OK;
    RETURN_IF_FAILED(read_numbers(strides, where, "strides", MAX_RANK, view->stride, &count));
    return count == type.shape.rank
               ? RH_OK
               : fail(RH_INVALID, "%s: %d strides of %d dimensions", where, count, type.shape.rank);
}

/* ---- buffers ---- */
static enum rh_status read_samples(const cJSON *object, const char *where, const struct plan *plan,
                                   struct samples *samples)
{
    int64_t axis = -1;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "axis", "samples_per_pass",
                                     "samples_per_coordinate", "first", "count"));
    RETURN_IF_FAILED(json_integer(object, where, "axis", -1, plan->mesh.axis_count - 1, &axis));
    samples->axis = (int)axis;
    RETURN_IF_FAILED(
        json_integer(object, where, "samples_per_pass", 0, MOST_BYTES, &samples->samples_per_pass));
    RETURN_IF_FAILED(json_integer(object, where, "samples_per_coordinate", 0, MOST_BYTES,
                                  &samples->samples_per_coordinate));
    RETURN_IF_FAILED(json_integer(object, where, "first", 0, MOST_BYTES, &samples->first));
    return json_integer_required(object, where, "count", 1, MOST_BYTES, &samples->count);
}

static enum rh_status read_use(const cJSON *object, const char *where, const struct plan *plan,
                               struct buffer *buffer)
{
    int64_t index = -1;
    int64_t slot = 0;
    buffer->use = USE_NONE;
    buffer->index = -1;
    if (!get(object, "use"))
        return RH_OK;
    READ_NAME(object, where, "use", use_name, enum buffer_use, USE_TENSOR + 1, buffer->use);
    RETURN_IF_FAILED(json_integer(object, where, "index", -1, 1 << 30, &index));
    RETURN_IF_FAILED(json_integer(object, where, "slot", 0, 2, &slot));
    buffer->index = (int)index;
    buffer->slot = (int)slot;
    if (buffer->use == USE_INPUT || buffer->use == USE_TARGET)
        return read_samples(get(object, "samples"), where, plan, &buffer->samples);
    return RH_OK;
}

static enum rh_status read_buffer(const cJSON *object, const char *where, struct plan *plan,
                                  int role)
{
    struct buffer buffer = {.list = -1};
    const char *lifetime = NULL;
    RETURN_IF_FAILED(JSON_CHECK_KEYS(object, where, "name", "device", "dtype", "shape",
                                     "channels_last", "bytes", "purpose", "lifetime", "offset",
                                     "list", "use", "index", "slot", "samples"));
    RETURN_IF_FAILED(json_string_required(object, where, "name", &buffer.name));
    RETURN_IF_FAILED(
        import_index(object, where, "device", plan->roles[role].gpus + 1, &buffer.device));
    RETURN_IF_FAILED(import_type(object, where, &buffer.type));
    READ_NAME(object, where, "purpose", purpose_name, enum purpose, PURPOSE_RUNTIME,
              buffer.purpose);
    RETURN_IF_FAILED(json_string_required(object, where, "lifetime", &lifetime));
    bool transient = strcmp(lifetime, "transient") == 0;
    if (!transient && strcmp(lifetime, "persistent") != 0)
        return fail(RH_INVALID, "%s: lifetime '%s' is neither persistent nor transient", where,
                    lifetime);
    buffer.lifetime = transient ? LIFETIME_TRANSIENT : LIFETIME_PERSISTENT;
    if (transient)
        RETURN_IF_FAILED(
            import_index(object, where, "list", plan->roles[role].list_count, &buffer.list));
    RETURN_IF_FAILED(read_use(object, where, plan, &buffer));
    role_add_buffer(plan, role, buffer);
    return RH_OK;
}

/* ---- roles ---- */
static enum rh_status read_streams(const cJSON *object, const char *where, struct plan *plan,
                                   int role)
{
    const cJSON *array = NULL;
    RETURN_IF_FAILED(import_array(object, where, "streams", &array));
    for (const cJSON *item = array->child; item; item = item->next) {
        const char *name = NULL;
        int device = 0;
        RETURN_IF_FAILED(json_string_required(item, where, "name", &name));
        RETURN_IF_FAILED(import_index(item, where, "device", plan->roles[role].gpus + 1, &device));
        role_add_stream(plan, role, name, device);
    }
    RETURN_IF_FAILED(import_array(object, where, "events", &array));
    for (const cJSON *item = array->child; item; item = item->next) {
        if (!cJSON_IsString(item))
            return fail(RH_INVALID, "%s: an event's name is no string", where);
        role_add_event(plan, role, item->valuestring);
    }
    return RH_OK;
}

static enum rh_status read_contents(const cJSON *object, const char *where, struct plan *plan,
                                    int role)
{
    const cJSON *array = NULL;
    const cJSON *lists = NULL;
    int number = 0;
    RETURN_IF_FAILED(read_streams(object, where, plan, role));
    RETURN_IF_FAILED(import_array(object, where, "lists", &lists));
    for (const cJSON *item = lists->child; item; item = item->next) {
        const char *name = NULL;
        RETURN_IF_FAILED(json_string_required(item, where, "name", &name));
        role_add_list(plan, role, name);
    }
    RETURN_IF_FAILED(import_array(object, where, "buffers", &array));
    for (const cJSON *item = array->child; item; item = item->next, number++) {
        char *place =
            text_format("%s: role '%s', buffer %d", where, plan->roles[role].name, number);
        enum rh_status status = read_buffer(item, place, plan, role);
        free(place);
        RETURN_IF_FAILED(status);
    }
    return import_lists(plan, role, lists, where);
}

static enum rh_status read_roles(const cJSON *json, const char *where, struct plan *plan)
{
    const cJSON *array = NULL;
    int role = 0;
    RETURN_IF_FAILED(import_array(json, where, "roles", &array));
    if (cJSON_GetArraySize(array) != plan->role_count)
        return fail(RH_INVALID, "%s: %d roles, its mesh has %d", where, cJSON_GetArraySize(array),
                    plan->role_count);
    for (const cJSON *item = array->child; item; item = item->next, role++) {
        const char *name = NULL;
        int64_t gpus = 1;
        RETURN_IF_FAILED(json_string_required(item, where, "name", &name));
        RETURN_IF_FAILED(json_integer_required(item, where, "gpus", 1, 1 << 16, &gpus));
        role_init(plan, role, name, (int)gpus);
        RETURN_IF_FAILED(read_contents(item, where, plan, role));
    }
    return RH_OK;
}

/* ---- mesh and groups ---- */
static enum rh_status read_mesh(const cJSON *json, const char *where, struct mesh *mesh,
                                int *role_axis)
{
    const cJSON *object = get(json, "mesh");
    const char *axis = NULL;
    *mesh = (struct mesh){0};
    for (const cJSON *item = object ? object->child : NULL; item; item = item->next) {
        int64_t size = 1;
        if (mesh->axis_count == MESH_MAX_AXES || strlen(item->string) >= sizeof mesh->axis[0])
            return fail(RH_INVALID, "%s: axis '%s' is one too many, or its name is too long", where,
                        item->string);
        RETURN_IF_FAILED(json_integer_required(object, where, item->string, 1, 1 << 20, &size));
        snprintf(mesh->axis[mesh->axis_count], sizeof mesh->axis[0], "%s", item->string);
        mesh->size[mesh->axis_count++] = (int)size;
    }
    *role_axis = -1;
    RETURN_IF_FAILED(json_string(json, where, "role_axis", &axis));
    if (axis && (*role_axis = mesh_axis(mesh, axis)) < 0)
        return fail(RH_INVALID, "%s: role_axis '%s' is no axis of the mesh", where, axis);
    return RH_OK;
}

static enum rh_status read_group(const cJSON *object, const char *where, struct plan *plan)
{
    const cJSON *axes = NULL;
    const char *name = NULL;
    int64_t numbers[8];
    int coordinates[8];
    int count = 0;
    unsigned bits = 0;
    RETURN_IF_FAILED(json_string_required(object, where, "name", &name));
    RETURN_IF_FAILED(import_array(object, where, "axes", &axes));
    for (const cJSON *item = axes->child; item; item = item->next) {
        int axis = cJSON_IsString(item) ? mesh_axis(&plan->mesh, item->valuestring) : -1;
        if (axis < 0)
            return fail(RH_INVALID, "%s: group '%s' has an axis that the mesh lacks", where, name);
        bits |= 1u << axis;
    }
    if (get(object, "coordinates"))
        RETURN_IF_FAILED(
            read_numbers(get(object, "coordinates"), where, "coordinates", 8, numbers, &count));
    for (int i = 0; i < count; i++)
        coordinates[i] = (int)numbers[i];
    plan_add_group(plan, name, bits, count, coordinates);
    return RH_OK;
}

enum rh_status plan_from_json(const cJSON *json, const char *where, struct plan **out)
{
    struct mesh mesh;
    const cJSON *groups = NULL;
    const char *name = NULL;
    int role_axis = -1;
    *out = NULL;
    RETURN_IF_FAILED(json_string_required(json, where, "name", &name));
    RETURN_IF_FAILED(read_mesh(json, where, &mesh, &role_axis));
    RETURN_IF_FAILED(import_array(json, where, "groups", &groups));
    struct plan *plan = plan_new(name, &mesh, role_axis);
    enum rh_status status = RH_OK;
    for (const cJSON *item = groups->child; item && status == RH_OK; item = item->next)
        status = read_group(item, where, plan);
    if (status == RH_OK)
        status = read_roles(json, where, plan);
    if (status == RH_OK)
        *out = plan;
    else
        plan_free(plan);
    return status;
}
