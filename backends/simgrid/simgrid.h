/* The SimGrid backend: plans timed on a model of the cluster; with numbers, the values come from
 * the reference backend's engine on the same plan. */
#ifndef REHEARSE_BACKENDS_SIMGRID_H
#define REHEARSE_BACKENDS_SIMGRID_H

#include "backends/backend.h"

extern const struct backend backend_simgrid;

#endif
