#include "plan/placement.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/packing.h"
#include "plan/uses.h"

static size_t aligned(size_t bytes)
{
    return (bytes + PLACEMENT_ALIGNMENT - 1) / PLACEMENT_ALIGNMENT * PLACEMENT_ALIGNMENT;
}

static enum rh_status place_persistent(struct role *role)
{
    for (int i = 0; i < role->buffer_count; i++) {
        struct buffer *buffer = &role->buffers[i];
        RETURN_IF_FAILED(packing_check_bytes(role, buffer));
        buffer->offset = 0;
        if (buffer->lifetime != LIFETIME_PERSISTENT)
            continue;
        buffer->offset = role->persistent_bytes[buffer->device];
        role->persistent_bytes[buffer->device] += aligned(buffer->bytes);
    }
    return RH_OK;
}

/* Unused buffers and empty ones take no bytes. */
static void place_on_device(struct role *role, const struct uses *uses, int device,
                            struct packing_item *items)
{
    int count = 0;
    for (int i = 0; i < role->buffer_count; i++)
        if (role->buffers[i].device == device && uses->first[i] >= 0 && role->buffers[i].bytes > 0)
            items[count++] = (struct packing_item){i, aligned(role->buffers[i].bytes), 0};
    size_t top = packing_run(items, count, uses);
    for (int i = 0; i < count; i++)
        role->buffers[items[i].buffer].offset = items[i].offset;
    if (top > role->arena_bytes[device])
        role->arena_bytes[device] = top;
}

/* Lists run one after another, so each has the arena to itself. */
static enum rh_status place_list(const struct plan *plan, int r, int list)
{
    struct role *role = &plan->roles[r];
    struct order *order;
    struct uses uses;
    RETURN_IF_FAILED(order_new(plan, r, list, &order));
    uses_init(&uses, role, list, order);
    struct packing_item *items = memory_new_array((size_t)role->buffer_count, sizeof *items);
    for (int device = 0; device <= role->gpus; device++)
        place_on_device(role, &uses, device, items);
    free(items);
    uses_clear(&uses);
    order_free(order);
    return RH_OK;
}

enum rh_status plan_place(struct plan *plan)
{
    for (int r = 0; r < plan->role_count; r++) {
        struct role *role = &plan->roles[r];
        for (int device = 0; device <= role->gpus; device++)
            role->persistent_bytes[device] = role->arena_bytes[device] = 0;
        RETURN_IF_FAILED(place_persistent(role));
        for (int list = 0; list < role->list_count; list++)
            RETURN_IF_FAILED(place_list(plan, r, list));
    }
    return RH_OK;
}
