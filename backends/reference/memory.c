#include "backends/reference/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const double GIB = 1073741824;

static double available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    double kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib > 0 ? kib * 1024 : 1e18; /* a system that does not say is asked by malloc */
}

static double total_bytes(const struct plan *plan, int workers)
{
    double bytes = 0;
    for (int w = 0; w < workers; w++) {
        const struct role *role = &plan->roles[plan_role_of(plan, w)];
        for (int d = 0; d <= role->gpus; d++)
            bytes += (double)role->persistent_bytes[d] + (double)role->arena_bytes[d];
    }
    return bytes;
}

static enum rh_status allocate(char **area, size_t bytes)
{
    *area = calloc(1, bytes ? bytes : 1);
    if (!*area)
        return fail(RH_OUT_OF_MEMORY, "numbers need %.1f GiB more of host memory",
                    (double)bytes / GIB);
    return RH_OK;
}

enum rh_status areas_new(const struct plan *plan, struct areas *areas)
{
    int workers = mesh_workers(&plan->mesh);
    double needed = total_bytes(plan, workers);
    double available = available_bytes();
    *areas = (struct areas){.plan = plan, .workers = workers};
    if (needed > available)
        return fail(RH_OUT_OF_MEMORY, "numbers need %.1f GiB of host memory, %.1f GiB available",
                    needed / GIB, available / GIB);
    areas->persistent = memory_new_array((size_t)workers, sizeof *areas->persistent);
    areas->arena = memory_new_array((size_t)workers, sizeof *areas->arena);
    enum rh_status status = RH_OK;
    for (int w = 0; w < workers && status == RH_OK; w++) {
        const struct role *role = &plan->roles[plan_role_of(plan, w)];
        size_t devices = (size_t)role->gpus + 1;
        areas->persistent[w] = memory_new_array(devices, sizeof(char *));
        areas->arena[w] = memory_new_array(devices, sizeof(char *));
        for (size_t d = 0; d < devices && status == RH_OK; d++) {
            status = allocate(&areas->persistent[w][d], role->persistent_bytes[d]);
            if (status == RH_OK)
                status = allocate(&areas->arena[w][d], role->arena_bytes[d]);
        }
    }
    if (status != RH_OK)
        areas_free(areas);
    return status;
}

void areas_free(struct areas *areas)
{
    for (int w = 0; areas->persistent && w < areas->workers; w++) {
        int gpus = areas->plan->roles[plan_role_of(areas->plan, w)].gpus;
        for (int d = 0; areas->persistent[w] && d <= gpus; d++) {
            free(areas->persistent[w][d]);
            free(areas->arena[w][d]);
        }
        free(areas->persistent[w]);
        free(areas->arena[w]);
    }
    free(areas->persistent);
    free(areas->arena);
    areas->persistent = areas->arena = NULL;
}

void areas_poison(struct areas *areas)
{
    for (int w = 0; w < areas->workers; w++) {
        const struct role *role = &areas->plan->roles[plan_role_of(areas->plan, w)];
        for (int d = 0; d <= role->gpus; d++)
            memset(areas->arena[w][d], 0xff, role->arena_bytes[d]);
    }
}

char *areas_buffer(const struct areas *areas, int worker, int buffer)
{
    const struct buffer *b = &areas->plan->roles[plan_role_of(areas->plan, worker)].buffers[buffer];
    char ***area = b->lifetime == LIFETIME_PERSISTENT ? areas->persistent : areas->arena;
    return area[worker][b->device] + b->offset;
}

char *areas_view(const struct areas *areas, int worker, const struct view *view)
{
    return areas_buffer(areas, worker, view->buffer) + view->offset;
}

/* Walks the view row-major; `into` says which side is written. */
static void walk(const struct view *view, char *memory, char *dense, bool into)
{
    size_t size = dtype_bytes(view->type.dtype);
    int64_t elements = shape_elements(&view->type.shape);
    int64_t index[MAX_RANK] = {0};
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = 0;
        for (int d = 0; d < view->type.shape.rank; d++)
            at += index[d] * view->stride[d];
        char *there = memory + at * (int64_t)size;
        memcpy(into ? there : dense, into ? dense : there, size);
        dense += size;
        for (int d = view->type.shape.rank - 1; d >= 0; d--) {
            if (++index[d] < view->type.shape.dim[d])
                break;
            index[d] = 0;
        }
    }
}

void view_gather(const struct view *view, const char *memory, char *dense)
{
    if (view_is_row_major(view))
        memcpy(dense, memory, type_bytes(&view->type));
    else
        walk(view, (char *)(uintptr_t)memory, dense, false);
}

void view_scatter(const struct view *view, char *memory, const char *dense)
{
    if (view_is_row_major(view))
        memmove(memory, dense, type_bytes(&view->type));
    else
        walk(view, memory, (char *)(uintptr_t)dense, true);
}
