/* What a run gave: times, memory, bytes, losses, and the timeline. Filled by a backend, printed by
 * report/. All seconds are the backend's own (simulated or measured). */
#ifndef REHEARSE_PLAN_RESULT_H
#define REHEARSE_PLAN_RESULT_H

#include "plan/plan.h"

/* One stretch of work on a stream (consecutive kernels may be one span unless traced). */
struct span {
    int device;         /* global device number of the cluster */
    const char *stream; /* owned by the plan */
    const char *name;   /* owned by the plan */
    enum work work;
    int step, microbatch;
    double start_seconds, end_seconds;
    bool communication; /* copy, collect, exchange */
    bool mark;          /* a named range (begin/end), not work */
};

struct device_result {
    int device; /* global number */
    double peak_bytes[PURPOSE_COUNT];
    double capacity_bytes;
    /* of the last steady step: */
    double busy_seconds;          /* computing */
    double communication_seconds; /* a transfer or collective of this device was running */
    double exposed_seconds;       /* communicating while it computed nothing */
    double idle_seconds;          /* neither */
    double work_seconds[WORK_OTHER + 1]; /* compute by kind of work */
};

/* A GPU's memory as it was, beside what the plan said; all 0: not measured. What else runs there counts
 * as runtime. */
struct memory_result {
    double planned_bytes;  /* placed by the plan: of all its devices that share the GPU */
    double runtime_bytes;  /* taken before these: context, libraries, communicators, engines */
    double measured_bytes; /* taken at the peak; predicted is the sum of the two above */
    double capacity_bytes;
    int devices; /* of the plan, on that GPU */
};

struct result {
    double *step_seconds; /* step_count, the first included */
    int step_count;
    double median_step_seconds; /* without the first (of one step: that one) */
    struct device_result *devices;
    int device_count;
    double exposed_communication_seconds; /* mean over the devices that compute */
    double bubble_fraction;               /* mean over these of idle / step */
    int waited_for;                       /* global number of the device that the others wait for; -1 */
    double link_class_bytes[LINK_CLASS_COUNT]; /* of one steady step, on the wire */
    double *losses; /* step_count, mean over data-parallel workers; NULL without numbers */
    bool scaled; /* gradients were scaled or clipped, and the next three are known */
    double loss_scale; /* after the last step; 0: losses are not scaled */
    int skipped_steps; /* for inf or NaN, since training began */
    double gradient_norm; /* of the last step, before clipping */
    struct memory_result memory;
    bool folded;
    const char *network_settings; /* what the simulator was told, for the report; or NULL */
    struct span *spans;
    int span_count, span_capacity;
};

void result_free(struct result *result); /* the members, not the struct */
/* Fills the median, the devices' busy/exposed/idle/work seconds and the means from spans of the step
 * [start, end). */
void result_account(struct result *result, double step_start_seconds, double step_end_seconds);

#endif
