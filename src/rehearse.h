/* Rehearse: one experiment, simulated on SimGrid and run on CUDA. The public C API. */
#ifndef REHEARSE_H
#define REHEARSE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every call that can fail returns one of these; the value is also the command's exit code. */
enum rh_status {
    RH_OK = 0,
    RH_FAILED = 1,        /* the run failed, or the hardware is not there */
    RH_INVALID = 2,       /* bad input or usage */
    RH_OUT_OF_MEMORY = 3, /* it does not fit in a device's or the host's memory */
};

/* What went wrong in this thread's last failed call; "" if nothing did. */
const char *rh_error(void);

#ifdef __cplusplus
}
#endif

#endif
