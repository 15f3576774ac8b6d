/* The CUDA backend as the program sees it: every call goes to the module, which is opened at the
 * first. */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/cuda/load.h"

/* The module's backend, whose sessions the program gets; it stays open. */
static const struct backend *module;

static void *open_beside_program(void)
{
    char path[PATH_MAX];
    char file[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        return NULL;
    path[length] = '\0';
    snprintf(file, sizeof file, "%s/rehearse-cuda.so", dirname(path));
    return dlopen(file, RTLD_NOW);
}

static enum rh_status open_module(void)
{
    if (module)
        return RH_OK;
    const char *given = getenv("REHEARSE_CUDA_MODULE");
    void *handle = given ? dlopen(given, RTLD_NOW) : open_beside_program();
    if (!handle && !given)
        handle = dlopen(PKGLIBDIR "/rehearse-cuda.so", RTLD_NOW);
    if (!handle)
        return fail(RH_FAILED, "cannot load the cuda backend: %s", dlerror());
    module = dlsym(handle, "backend_cuda_module");
    return module ? RH_OK : fail(RH_FAILED, "the cuda module has no backend: %s", dlerror());
}

static enum rh_status probe(char version[128])
{
    RETURN_IF_FAILED(open_module());
    return module->probe(version);
}

static enum rh_status open_session(const struct backend_options *options, struct session **session)
{
    *session = NULL;
    RETURN_IF_FAILED(open_module());
    return module->open(options, session);
}

static enum rh_status describe(struct session *s, int device, struct device_description *out)
{
    return module->describe(s, device, out);
}

static enum rh_status load(struct session *s, const struct plan *plan)
{
    return module->load(s, plan);
}

static enum rh_status run(struct session *s, const struct run_order *order,
                          const struct backend_feed *feed, struct result *result)
{
    return module->run(s, order, feed, result);
}

static enum rh_status write_values(struct session *s, int worker, int buffer, const void *data,
                                   size_t bytes)
{
    return module->write(s, worker, buffer, data, bytes);
}

static enum rh_status read_values(struct session *s, int worker, int buffer, void *data,
                                  size_t bytes)
{
    return module->read(s, worker, buffer, data, bytes);
}

static void unload(struct session *s)
{
    module->unload(s);
}

static void close_session(struct session *s)
{
    module->close(s);
}

const struct backend backend_cuda = {
    .name = "cuda",
    .description = "a real GPU; devices of the plan share it",
    .real = true,
    .probe = probe,
    .open = open_session,
    .describe = describe,
    .load = load,
    .run = run,
    .write = write_values,
    .read = read_values,
    .unload = unload,
    .close = close_session,
};
