/* The CUDA backend's entry in the table; its module is loaded when it is first used. */
#ifndef REHEARSE_BACKENDS_CUDA_LOAD_H
#define REHEARSE_BACKENDS_CUDA_LOAD_H

#include "backends/backend.h"

extern const struct backend backend_cuda;

#endif
