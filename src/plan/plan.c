#include "plan/plan.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

/* Names repeat (a layer's name stands in every microbatch), so a plan keeps each text once, in
 * blocks that never move. */
enum { TEXT_BLOCK_BYTES = 64 * 1024 };

struct text_block {
    struct text_block *next;
    size_t used, capacity;
    char data[];
};

struct text_slot {
    uint64_t hash;
    const char *text; /* NULL: free */
};

struct plan_texts {
    struct text_block *blocks;
    struct text_slot *slots;
    size_t slot_count, used; /* slot_count is a power of two */
};

static char *texts_room(struct plan_texts *texts, size_t bytes)
{
    struct text_block *block = texts->blocks;
    if (!block || block->capacity - block->used < bytes) {
        size_t capacity = bytes > TEXT_BLOCK_BYTES ? bytes : TEXT_BLOCK_BYTES;
        block = memory_new(sizeof *block + capacity);
        block->capacity = capacity;
        block->next = texts->blocks;
        texts->blocks = block;
    }
    char *room = block->data + block->used;
    block->used += bytes;
    return room;
}

static struct text_slot *texts_slot(struct plan_texts *texts, uint64_t hash, const char *text)
{
    size_t mask = texts->slot_count - 1;
    size_t i = (size_t)hash & mask;
    while (texts->slots[i].text &&
           (texts->slots[i].hash != hash || strcmp(texts->slots[i].text, text) != 0))
        i = (i + 1) & mask;
    return &texts->slots[i];
}

static void texts_grow(struct plan_texts *texts)
{
    struct text_slot *old = texts->slots;
    size_t old_count = texts->slot_count;
    texts->slot_count = old_count ? old_count * 2 : 256;
    texts->slots = memory_new_array(texts->slot_count, sizeof *texts->slots);
    for (size_t i = 0; i < old_count; i++)
        if (old[i].text)
            *texts_slot(texts, old[i].hash, old[i].text) = old[i];
    free(old);
}

static const char *texts_intern(struct plan_texts *texts, const char *text, size_t length)
{
    if (texts->used * 2 >= texts->slot_count)
        texts_grow(texts);
    uint64_t hash = text_hash(text, length);
    struct text_slot *slot = texts_slot(texts, hash, text);
    if (!slot->text) {
        char *copy = texts_room(texts, length + 1);
        memcpy(copy, text, length + 1);
        *slot = (struct text_slot){hash, copy};
        texts->used++;
    }
    return slot->text;
}

static void texts_free(struct plan_texts *texts)
{
    while (texts->blocks) {
        struct text_block *next = texts->blocks->next;
        free(texts->blocks);
        texts->blocks = next;
    }
    free(texts->slots);
    free(texts);
}

const char *plan_text(struct plan *plan, const char *format, ...)
{
    char small[256];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    assert(length >= 0);
    const char *text;
    if ((size_t)length < sizeof small) {
        text = texts_intern(plan->texts, small, (size_t)length);
    } else {
        char *large = memory_new((size_t)length + 1);
        vsnprintf(large, (size_t)length + 1, format, again);
        text = texts_intern(plan->texts, large, (size_t)length);
        free(large);
    }
    va_end(again);
    return text;
}

int mesh_workers(const struct mesh *mesh)
{
    int workers = 1;
    for (int i = 0; i < mesh->axis_count; i++)
        workers *= mesh->size[i];
    return workers;
}

int mesh_axis(const struct mesh *mesh, const char *name)
{
    for (int i = 0; i < mesh->axis_count; i++)
        if (!strcmp(mesh->axis[i], name))
            return i;
    return -1;
}

void mesh_coordinate(const struct mesh *mesh, int worker, int coordinate[MESH_MAX_AXES])
{
    for (int i = MESH_MAX_AXES - 1; i >= 0; i--) {
        int size = i < mesh->axis_count ? mesh->size[i] : 1;
        coordinate[i] = worker % size;
        worker /= size;
    }
    assert(worker == 0);
}

int mesh_worker(const struct mesh *mesh, const int coordinate[MESH_MAX_AXES])
{
    int worker = 0;
    for (int i = 0; i < mesh->axis_count; i++) {
        assert(coordinate[i] >= 0 && coordinate[i] < mesh->size[i]);
        worker = worker * mesh->size[i] + coordinate[i];
    }
    return worker;
}

const char *purpose_name(enum purpose purpose)
{
    static const char *const names[PURPOSE_COUNT] = {
        "parameters",  "gradients", "optimizer",     "inputs",
        "activations", "workspace", "communication", "runtime",
    };
    assert((unsigned)purpose < PURPOSE_COUNT);
    return names[purpose];
}

const char *instruction_kind_name(enum instruction_kind kind)
{
    static const char *const names[] = {
        "compute", "copy", "collect", "exchange", "record", "wait", "sync", "begin", "end",
    };
    assert((unsigned)kind <= INSTRUCTION_END);
    return names[kind];
}

const char *work_name(enum work work)
{
    static const char *const names[] = {
        "forward", "backward", "optimizer", "input", "communication", "other",
    };
    assert((unsigned)work <= WORK_OTHER);
    return names[work];
}

struct plan *plan_new(const char *name, const struct mesh *mesh, int role_axis)
{
    assert(mesh->axis_count >= 0 && mesh->axis_count <= MESH_MAX_AXES);
    assert(role_axis >= -1 && role_axis < mesh->axis_count);
    for (int i = 0; i < mesh->axis_count; i++)
        assert(mesh->size[i] > 0);
    struct plan *plan = memory_new(sizeof *plan);
    plan->texts = memory_new(sizeof *plan->texts);
    plan->name = plan_text(plan, "%s", name);
    plan->mesh = *mesh;
    plan->role_axis = role_axis;
    plan->role_count = role_axis < 0 ? 1 : mesh->size[role_axis];
    plan->roles = memory_new_array((size_t)plan->role_count, sizeof *plan->roles);
    return plan;
}

static void role_clear(struct role *role)
{
    for (int i = 0; i < role->list_count; i++)
        free(role->lists[i].instructions);
    free(role->buffers);
    free(role->views);
    free(role->parts);
    free(role->messages);
    free(role->streams);
    free(role->events);
    free(role->lists);
    free(role->persistent_bytes);
    free(role->arena_bytes);
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->role_count; i++)
        role_clear(&plan->roles[i]);
    free(plan->roles);
    free(plan->groups);
    texts_free(plan->texts);
    free(plan);
}

int plan_role_of(const struct plan *plan, int worker)
{
    int coordinate[MESH_MAX_AXES];
    if (plan->role_axis < 0)
        return 0;
    mesh_coordinate(&plan->mesh, worker, coordinate);
    return coordinate[plan->role_axis];
}

/* A group that is there already is not added again, so that each role may name it while it is
 * written and all mean the same. */
int plan_add_group(struct plan *plan, const char *name, unsigned axes, int coordinate_count,
                   const int *coordinates)
{
    struct group group = {plan_text(plan, "%s", name), axes, coordinate_count, {0}};
    assert(axes < 1u << plan->mesh.axis_count);
    assert(coordinate_count >= 0 &&
           coordinate_count <= (int)(sizeof group.coordinates / sizeof *group.coordinates));
    for (int i = 0; i < coordinate_count; i++)
        group.coordinates[i] = coordinates[i];
    for (int i = 0; i < plan->group_count; i++) {
        const struct group *old = &plan->groups[i];
        if (old->name == group.name && old->axes == axes &&
            old->coordinate_count == coordinate_count &&
            !memcmp(old->coordinates, group.coordinates, sizeof group.coordinates))
            return i;
    }
    *ARRAY_ADD(plan->groups, plan->group_count, plan->group_capacity) = group;
    return plan->group_count - 1;
}

void role_init(struct plan *plan, int role, const char *name, int gpus)
{
    struct role *r = &plan->roles[role];
    assert(role >= 0 && role < plan->role_count && !r->name && gpus >= 0);
    r->name = plan_text(plan, "%s", name);
    r->gpus = gpus;
    r->persistent_bytes = memory_new_array((size_t)gpus + 1, sizeof *r->persistent_bytes);
    r->arena_bytes = memory_new_array((size_t)gpus + 1, sizeof *r->arena_bytes);
}

int role_add_stream(struct plan *plan, int role, const char *name, int device)
{
    struct role *r = &plan->roles[role];
    struct stream *stream = ARRAY_ADD(r->streams, r->stream_count, r->stream_capacity);
    assert(device >= 0 && device <= r->gpus);
    *stream = (struct stream){plan_text(plan, "%s", name), device};
    return r->stream_count - 1;
}

int role_add_event(struct plan *plan, int role, const char *name)
{
    struct role *r = &plan->roles[role];
    *ARRAY_ADD(r->events, r->event_count, r->event_capacity) = plan_text(plan, "%s", name);
    return r->event_count - 1;
}

int role_add_list(struct plan *plan, int role, const char *name)
{
    struct role *r = &plan->roles[role];
    ARRAY_ADD(r->lists, r->list_count, r->list_capacity)->name = plan_text(plan, "%s", name);
    return r->list_count - 1;
}

int role_add_buffer(struct plan *plan, int role, struct buffer buffer)
{
    struct role *r = &plan->roles[role];
    assert(buffer.device >= 0 && buffer.device <= r->gpus);
    assert(buffer.lifetime == LIFETIME_PERSISTENT || buffer.list >= 0);
    buffer.name = plan_text(plan, "%s", buffer.name);
    buffer.bytes = type_bytes(&buffer.type);
    buffer.offset = 0;
    if (buffer.lifetime == LIFETIME_PERSISTENT)
        buffer.list = -1;
    *ARRAY_ADD(r->buffers, r->buffer_count, r->buffer_capacity) = buffer;
    return r->buffer_count - 1;
}
