/* The CUDA backend as the program sees it: every call goes to the module, which is opened at the
 * first. */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cuda/load.h"
#include "base/memory.h"

/* What the program's session is: the module and its own session. */
struct session {
    const struct backend *module;
    struct session *inner;
};

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

static enum rh_status open_module(const struct backend **module)
{
    const char *given = getenv("REHEARSE_CUDA_MODULE");
    void *handle = given ? dlopen(given, RTLD_NOW) : open_beside_program();
    if (!handle && !given)
        handle = dlopen(PKGLIBDIR "/rehearse-cuda.so", RTLD_NOW);
    if (!handle)
        return fail(RH_FAILED, "cannot load the cuda backend: %s", dlerror());
    *module = dlsym(handle, "backend_cuda_module");
    return *module ? RH_OK : fail(RH_FAILED, "the cuda module has no backend: %s", dlerror());
}

static enum rh_status probe(char version[128])
{
    const struct backend *module = NULL;
    RETURN_IF_FAILED(open_module(&module));
    return module->probe(version);
}

static enum rh_status open_session(const struct backend_options *options, struct session **session)
{
    struct session *s = memory_new(sizeof *s);
    enum rh_status status = open_module(&s->module);
    if (status == RH_OK)
        status = s->module->open(options, &s->inner);
    if (status != RH_OK) {
        free(s);
        s = NULL;
    }
    *session = s;
    return status;
}

static enum rh_status describe(struct session *s, int device, struct device_description *out)
{
    return s->module->describe(s->inner, device, out);
}

static enum rh_status load(struct session *s, const struct plan *plan)
{
    return s->module->load(s->inner, plan);
}

static enum rh_status run(struct session *s, const struct run_order *order,
                          const struct backend_feed *feed, struct result *result)
{
    return s->module->run(s->inner, order, feed, result);
}

static enum rh_status write_values(struct session *s, int worker, int buffer, const void *data,
                                   size_t bytes)
{
    return s->module->write(s->inner, worker, buffer, data, bytes);
}

static enum rh_status read_values(struct session *s, int worker, int buffer, void *data,
                                  size_t bytes)
{
    return s->module->read(s->inner, worker, buffer, data, bytes);
}

static void unload(struct session *s)
{
    s->module->unload(s->inner);
}

static void close_session(struct session *s)
{
    s->module->close(s->inner);
    free(s);
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
