#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "backends/backend.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

const char *rh_version(void)
{
    return PACKAGE_VERSION;
}

/* What configure found, or "without …" in its own words. */
static void print_libraries(FILE *out)
{
#ifdef FOUND_SIMGRID
    static const struct {
        const char *name, *version;
    } libraries[] = {
        {"SimGrid", FOUND_SIMGRID}, {"cJSON", FOUND_CJSON},  {"libxml2", FOUND_XML},
        {"OpenBLAS", FOUND_BLAS},   {"CUDA", FOUND_TOOLKIT}, {"cuBLASLt", FOUND_CUBLASLT},
        {"cuDNN", FOUND_CUDNN},     {"NCCL", FOUND_NCCL},    {"NVTX", FOUND_NVTX},
        {"MPI", FOUND_MPI},
    };
    const char *before = "built with ";
    for (int without = 0; without < 2; without++) {
        for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
            if ((strncmp(libraries[i].version, "without", 7) == 0) != without)
                continue;
            fprintf(out, "%s%s", before, libraries[i].name);
            if (!without)
                fprintf(out, " %s", libraries[i].version);
            before = ", ";
        }
        before = "; without ";
    }
    fprintf(out, "\n");
#else
    (void)out;
#endif
}

void api_print_version(FILE *out)
{
    int count = 0;
    const struct backend *const *backends = backend_all(&count);
    fprintf(out, "rehearse %s\n", PACKAGE_VERSION);
    for (int i = 0; i < count; i++) {
        char version[128] = "";
        if (backends[i]->probe(version) == RH_OK)
            fprintf(out, "  %-10s %s\n", backends[i]->name, version);
        else
            fprintf(out, "  %-10s not available: %s\n", backends[i]->name, fail_message());
    }
    print_libraries(out);
}
