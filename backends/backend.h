/* The seam: a backend is an interpreter of plans. Everything that knows SimGrid, or CUDA and NCCL,
 * stands behind this table; all backends are in backends.c, in one array. */
#ifndef REHEARSE_BACKENDS_BACKEND_H
#define REHEARSE_BACKENDS_BACKEND_H

#include "plan/plan.h"
#include "plan/result.h"
#include "plan/run.h"
#include "platform/platform.h"

enum launch { LAUNCH_EAGER, LAUNCH_GRAPH };
enum fidelity { FIDELITY_FLOWS, FIDELITY_MESSAGES };

/* How a cluster is opened. Pointers are borrowed until close. */
struct backend_options {
    struct cluster *cluster;
    const int *devices; /* global device numbers in worker order: worker w of a plan with g GPUs per
                           role has devices[w*g] … devices[w*g+g-1], and the host of the first's node */
    int device_count;
    enum launch launch;
    enum fidelity fidelity;
    bool numbers; /* compute values too (simulated backends; a real one always does) */
    bool trace;   /* keep every span of every step, not only what accounting needs */
    bool fold;    /* simulate equal nodes once where that is exact */
    bool unchecked_memory; /* a test's own switch: load lets the device refuse what does not fit */
    double compute_scale; /* factor on all compute seconds: an experiment's anchor; 1 */
    double bucket_tensor_seconds; /* added to each OP_bucket_copy, not scaled; < 0: the device model's own */
};

/* What a device has. runtime_bytes: what is taken of it beside a plan's areas; with a plan loaded, that
 * includes its communicators and the engines found for it. */
struct device_description {
    double capacity_bytes, runtime_bytes;
    char name[64];
};

/* Fills one fed buffer (USE_INPUT, USE_TARGET, USE_CONTROL) of a worker before a list runs; `data` is
 * dense memory of the buffer's type. */
struct backend_feed {
    void *context;
    enum rh_status (*fill)(void *context, int worker, int step, int pass,
                           const struct buffer *buffer, const int coordinate[MESH_MAX_AXES],
                           void *data);
};

struct session;

struct backend {
    const char *name; /* "simgrid", "reference", "cuda" */
    const char *description;
    bool real; /* hardware: values are computed, and times measured, always */
    /* RH_OK, or RH_INVALID (not built) or RH_FAILED (hardware missing) with the reason recorded.
     * Version text of what it stands on in `version`. */
    enum rh_status (*probe)(char version[128]);
    enum rh_status (*open)(const struct backend_options *options, struct session **session);
    enum rh_status (*describe)(struct session *session, int device,
                               struct device_description *description);
    /* The plan is checked and placed by the caller; persistent buffers are made here (zeroed). One
     * plan is loaded at a time; it is borrowed until unload. RH_OUT_OF_MEMORY where hardware has less
     * room than the plan's areas need. */
    enum rh_status (*load)(struct session *session, const struct plan *plan);
    enum rh_status (*run)(struct session *session, const struct run_order *order,
                          const struct backend_feed *feed, struct result *result);
    /* Dense values of a persistent buffer of a worker; `bytes` must be the buffer's. Only with numbers.
     * Of several ranks all make the same calls: a write is done by the rank that owns the worker, and
     * a read gives its values to all. */
    enum rh_status (*write)(struct session *session, int worker, int buffer, const void *data,
                            size_t bytes);
    enum rh_status (*read)(struct session *session, int worker, int buffer, void *data,
                           size_t bytes);
    void (*unload)(struct session *session);
    void (*close)(struct session *session);
};

/* All backends built or not, in a fixed order; backend_find fails (RH_INVALID) for unknown names. */
const struct backend *const *backend_all(int *count);
enum rh_status backend_find(const char *name, const struct backend **backend);

#endif
