/* Host memory that stands for the devices of all workers while numbers are computed. */
#ifndef REHEARSE_BACKENDS_REFERENCE_MEMORY_H
#define REHEARSE_BACKENDS_REFERENCE_MEMORY_H

#include "plan/plan.h"

/* Per worker and local device: the persistent area and the arena, as plan_place sized them. */
struct areas {
    const struct plan *plan;
    int workers;
    char ***persistent, ***arena; /* [worker][device] */
};

/* RH_OUT_OF_MEMORY, with both numbers, before anything is allocated that the host does not have. */
enum rh_status areas_new(const struct plan *plan, struct areas *areas);
void areas_free(struct areas *areas);
/* Bytes that say "never written": quiet NaNs as fp32. */
void areas_poison(struct areas *areas);

char *areas_buffer(const struct areas *areas, int worker, int buffer);
/* The first element of a view of the worker's role. */
char *areas_view(const struct areas *areas, int worker, const struct view *view);

/* Between a strided view and dense memory. */
void view_gather(const struct view *view, const char *memory, char *dense);
void view_scatter(const struct view *view, char *memory, const char *dense);

#endif
