/* The CUDA backend. It is a shared object of its own (rehearse-cuda.so), so that nothing of CUDA is
 * loaded unless `--backend cuda` asks for it; load.c opens it. */
#ifndef REHEARSE_BACKENDS_CUDA_H
#define REHEARSE_BACKENDS_CUDA_H

#include "backends/backend.h"

/* In the module. */
extern const struct backend backend_cuda_module;

#endif
