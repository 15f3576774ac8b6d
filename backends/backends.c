/* All backends, built or not, in one array: the only place that knows what configure found. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "backends/backend.h"
#include "backends/reference/reference.h"
#include "base/json.h"
#ifdef HAVE_CUDA
#include "backends/cuda/load.h"
#endif
#ifdef HAVE_SIMGRID
#include "backends/simgrid/simgrid.h"
#endif

/* Stands in the table for a backend that this build does not have. */
#define NOT_BUILT(identifier, label, reason)                                                       \
    static enum rh_status probe_##identifier(char version[128])                                    \
    {                                                                                              \
        version[0] = '\0';                                                                         \
        return fail(RH_INVALID, "backend '%s' was not built: %s", label, reason);                  \
    }                                                                                              \
    static enum rh_status open_##identifier(const struct backend_options *options,                 \
                                            struct session **session)                              \
    {                                                                                              \
        char version[128];                                                                         \
        (void)options;                                                                             \
        *session = NULL;                                                                           \
        return probe_##identifier(version);                                                        \
    }                                                                                              \
    static const struct backend backend_##identifier = {                                           \
        .name = label, .description = reason, .probe = probe_##identifier,                         \
        .open = open_##identifier}

#ifndef HAVE_CUDA
NOT_BUILT(cuda, "cuda", CUDA_MISSING);
#endif
#ifndef HAVE_SIMGRID
NOT_BUILT(simgrid, "simgrid", "configure was given --without-simgrid");
#endif

static const struct backend *const backends[] = {
    &backend_simgrid,
    &backend_reference,
    &backend_cuda,
};
enum { BACKEND_COUNT = sizeof backends / sizeof *backends };

const struct backend *const *backend_all(int *count)
{
    *count = BACKEND_COUNT;
    return backends;
}

enum rh_status backend_find(const char *name, const struct backend **backend)
{
    const char *names[BACKEND_COUNT];
    int index = 0;
    for (int i = 0; i < BACKEND_COUNT; i++)
        names[i] = backends[i]->name;
    RETURN_IF_FAILED(json_choice("backend", name, names, BACKEND_COUNT, &index));
    *backend = backends[index];
    return RH_OK;
}
