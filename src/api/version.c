#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdio.h>

#include "api/api.h"
#include "backends/backend.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

const char *rh_version(void)
{
    return PACKAGE_VERSION;
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
}
