/* The reference backend: a plan's numbers on the host, one thread, no time. */
#ifndef REHEARSE_BACKENDS_REFERENCE_H
#define REHEARSE_BACKENDS_REFERENCE_H

#include "backends/backend.h"

extern const struct backend backend_reference;

#endif
