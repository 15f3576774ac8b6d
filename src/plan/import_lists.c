/* The instructions of a plan in JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/attributes.h"
#include "plan/describe.h"
#include "plan/import_read.h"

/* Where instructions go. */
struct reader {
    struct plan *plan;
    int role, list;
};

static struct role *role_of(const struct reader *r)
{
    return &r->plan->roles[r->role];
}

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static enum rh_status read_view(const struct reader *r, const cJSON *object, const char *where,
                                struct view *view)
{
    return import_view(object, where, role_of(r), view);
}

struct views {
    struct view *at;
    int count, capacity;
};

static enum rh_status read_views(const struct reader *r, const cJSON *object, const char *where,
                                 const char *key, struct views *views)
{
    const cJSON *array = NULL;
    struct view view;
    RETURN_IF_FAILED(import_array(object, where, key, &array));
    for (const cJSON *item = array->child; item; item = item->next) {
        RETURN_IF_FAILED(read_view(r, item, where, &view));
        *ARRAY_ADD(views->at, views->count, views->capacity) = view;
    }
    return RH_OK;
}

static enum rh_status read_compute(const struct reader *r, struct writer *w, const cJSON *object,
                                   const char *where, int stream, const char *name)
{
    struct op op = {0};
    struct views views = {0};
    struct view workspace;
    const cJSON *extra = get(object, "workspace");
    READ_NAME(object, where, "op", op_name, enum op_kind, OP_COUNT, op.kind);
    RETURN_IF_FAILED(attributes_read(get(object, "attributes"), where, &op));
    enum rh_status status = read_views(r, object, where, "reads", &views);
    int reads = views.count;
    if (status == RH_OK)
        status = read_views(r, object, where, "writes", &views);
    if (status == RH_OK && extra)
        status = read_view(r, extra, where, &workspace);
    if (status == RH_OK)
        write_compute(w, stream, name, &op, views.at, reads, views.at + reads, views.count - reads);
    if (status == RH_OK && extra) {
        struct role *role = role_of(r);
        struct list *list = &role->lists[r->list];
        *ARRAY_ADD(role->views, role->view_count, role->view_capacity) = workspace;
        list->instructions[list->count - 1].compute.workspace = role->view_count - 1;
    }
    free(views.at);
    return status;
}

static enum rh_status read_copy(const struct reader *r, struct writer *w, const cJSON *object,
                                const char *where, int stream, const char *name)
{
    struct view from;
    struct view to;
    RETURN_IF_FAILED(read_view(r, get(object, "from"), where, &from));
    RETURN_IF_FAILED(read_view(r, get(object, "to"), where, &to));
    write_copy(w, stream, name, from, to);
    return RH_OK;
}

/* Views of the parts: send and receive of part i at 2 i and 2 i + 1. */
static enum rh_status read_parts(const struct reader *r, const cJSON *array, const char *where,
                                 struct collect_part *parts, struct view *views)
{
    int i = 0;
    for (const cJSON *item = array->child; item; item = item->next, i++) {
        const cJSON *send = get(item, "send");
        const cJSON *receive = get(item, "receive");
        RETURN_IF_FAILED(
            import_index(item, where, "stream", role_of(r)->stream_count, &parts[i].stream));
        parts[i].send = cJSON_IsObject(send) ? &views[2 * i] : NULL;
        parts[i].receive = cJSON_IsObject(receive) ? &views[2 * i + 1] : NULL;
        if (parts[i].send)
            RETURN_IF_FAILED(read_view(r, send, where, &views[2 * i]));
        if (parts[i].receive)
            RETURN_IF_FAILED(read_view(r, receive, where, &views[2 * i + 1]));
    }
    return RH_OK;
}

static enum rh_status read_collect(const struct reader *r, struct writer *w, const cJSON *object,
                                   const char *where, const char *name)
{
    enum collective_kind kind;
    enum reduce_op reduce;
    const cJSON *array = NULL;
    int group = 0;
    int64_t root_coordinate = 0;
    int64_t root_part = 0;
    READ_NAME(object, where, "collective", collective_name, enum collective_kind,
              COLLECTIVE_KIND_COUNT, kind);
    READ_NAME(object, where, "reduce", reduce_name, enum reduce_op, REDUCE_MIN + 1, reduce);
    RETURN_IF_FAILED(import_index(object, where, "group", r->plan->group_count, &group));
    RETURN_IF_FAILED(json_integer(object, where, "root_coordinate", 0, 1 << 30, &root_coordinate));
    RETURN_IF_FAILED(json_integer(object, where, "root_part", 0, 1 << 30, &root_part));
    RETURN_IF_FAILED(import_array(object, where, "parts", &array));
    int count = cJSON_GetArraySize(array);
    if (count == 0)
        return fail(RH_INVALID, "%s: a collective of 0 parts", where);
    struct collect_part *parts = memory_new_array((size_t)count, sizeof *parts);
    struct view *views = memory_new_array((size_t)count * 2, sizeof *views);
    enum rh_status status = read_parts(r, array, where, parts, views);
    if (status == RH_OK)
        write_collect(w, name, kind, reduce, group, (int)root_coordinate, (int)root_part, parts,
                      count);
    free(parts);
    free(views);
    return status;
}

static enum rh_status read_message(const struct reader *r, const cJSON *object, const char *where,
                                   struct exchange_message *message)
{
    const char *direction = NULL;
    const cJSON *peer = get(object, "peer");
    int64_t value = 0;
    RETURN_IF_FAILED(json_string_required(object, where, "name", &message->name));
    RETURN_IF_FAILED(json_string_required(object, where, "direction", &direction));
    message->send = strcmp(direction, "send") == 0;
    if (!message->send && strcmp(direction, "receive") != 0)
        return fail(RH_INVALID, "%s: direction '%s' is neither send nor receive", where, direction);
    RETURN_IF_FAILED(
        import_index(object, where, "stream", role_of(r)->stream_count, &message->stream));
    RETURN_IF_FAILED(JSON_CHECK_KEYS(peer, where, "relative", "value"));
    RETURN_IF_FAILED(json_bool(peer, where, "relative", &message->peer.relative));
    RETURN_IF_FAILED(json_integer_required(peer, where, "value", -(1 << 30), 1 << 30, &value));
    message->peer.value = (int)value;
    return read_view(r, get(object, "view"), where, &message->view);
}

static enum rh_status read_exchange(const struct reader *r, struct writer *w, const cJSON *object,
                                    const char *where, const char *name)
{
    const cJSON *array = NULL;
    int group = 0;
    int count = 0;
    RETURN_IF_FAILED(import_index(object, where, "group", r->plan->group_count, &group));
    RETURN_IF_FAILED(import_array(object, where, "messages", &array));
    size_t room = (size_t)cJSON_GetArraySize(array);
    if (room == 0)
        return fail(RH_INVALID, "%s: an exchange of 0 messages", where);
    struct exchange_message *messages = memory_new_array(room, sizeof *messages);
    enum rh_status status = RH_OK;
    for (const cJSON *item = array->child; item && status == RH_OK; item = item->next)
        status = read_message(r, item, where, &messages[count++]);
    if (status == RH_OK)
        write_exchange(w, name, group, messages, count);
    free(messages);
    return status;
}

static enum rh_status read_instruction(const struct reader *r, const cJSON *object,
                                       const char *where)
{
    struct writer w = {r->plan, r->role, r->list, WORK_OTHER, -1};
    enum instruction_kind kind;
    const char *name = "";
    int64_t microbatch = -1;
    int stream = 0;
    int event = 0;
    READ_NAME(object, where, "kind", instruction_kind_name, enum instruction_kind,
              INSTRUCTION_END + 1, kind);
    READ_NAME(object, where, "work", work_name, enum work, WORK_OTHER + 1, w.work);
    RETURN_IF_FAILED(json_string(object, where, "name", &name));
    RETURN_IF_FAILED(json_integer(object, where, "microbatch", 0, 1 << 30, &microbatch));
    w.microbatch = (int)microbatch;
    if (kind != INSTRUCTION_SYNC)
        RETURN_IF_FAILED(import_index(object, where, "stream", role_of(r)->stream_count, &stream));
    if (kind == INSTRUCTION_RECORD || kind == INSTRUCTION_WAIT || kind == INSTRUCTION_SYNC)
        RETURN_IF_FAILED(import_index(object, where, "event", role_of(r)->event_count, &event));
    switch (kind) {
    case INSTRUCTION_COMPUTE: return read_compute(r, &w, object, where, stream, name);
    case INSTRUCTION_COPY: return read_copy(r, &w, object, where, stream, name);
    case INSTRUCTION_COLLECT: return read_collect(r, &w, object, where, name);
    case INSTRUCTION_EXCHANGE: return read_exchange(r, &w, object, where, name);
    case INSTRUCTION_RECORD: write_record(&w, stream, event); return RH_OK;
    case INSTRUCTION_WAIT: write_wait(&w, stream, event); return RH_OK;
    case INSTRUCTION_SYNC: write_sync(&w, event); return RH_OK;
    case INSTRUCTION_BEGIN: write_begin(&w, stream, name); return RH_OK;
    case INSTRUCTION_END: write_end(&w, stream, name); return RH_OK;
    }
    return RH_OK;
}

enum rh_status import_lists(struct plan *plan, int role, const cJSON *lists, const char *where)
{
    struct reader r = {plan, role, -1};
    for (const cJSON *item = lists->child; item; item = item->next) {
        const cJSON *array = NULL;
        int number = 0;
        r.list++;
        RETURN_IF_FAILED(import_array(item, where, "instructions", &array));
        for (const cJSON *in = array->child; in; in = in->next, number++) {
            const cJSON *name = get(in, "name");
            char *place = text_format("%s: role '%s', list '%s', instruction %d ('%s')", where,
                                      role_of(&r)->name, role_of(&r)->lists[r.list].name, number,
                                      cJSON_IsString(name) ? name->valuestring : "");
            enum rh_status status = read_instruction(&r, in, place);
            free(place);
            RETURN_IF_FAILED(status);
        }
    }
    return RH_OK;
}
