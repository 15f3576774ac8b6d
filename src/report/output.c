#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static enum rh_status cannot_write(const char *path)
{
    return fail(RH_INVALID, "cannot write '%s': %s", path, strerror(errno));
}

static void forget(struct output *output)
{
    free(output->path);
    free(output->temporary);
    *output = (struct output){0};
}

/* A new file beside `path`, with the rights that the umask gives (mkstemp would give fewer). */
static int create_beside(const char *path, char **name)
{
    for (int i = 0; i < 100; i++) {
        *name = text_format("%s.%ld-%d.part", path, (long)getpid(), i);
        int descriptor = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor;
        free(*name);
        *name = NULL;
    }
    return -1;
}

enum rh_status output_open(const char *path, struct output *output)
{
    struct stat info;
    *output = (struct output){0};
    if (strcmp(path, "-") == 0) {
        output->file = stdout;
        return RH_OK;
    }
    bool exists = stat(path, &info) == 0;
    char *real = exists ? realpath(path, NULL) : NULL; /* a link stays, its target is replaced */
    output->path = real ? real : text_copy(path);
    if (exists && !S_ISREG(info.st_mode)) {
        output->file = fopen(path, "we");
    } else {
        int descriptor = create_beside(output->path, &output->temporary);
        output->file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    }
    if (!output->file) {
        enum rh_status status = cannot_write(path);
        forget(output);
        return status;
    }
    return RH_OK;
}

enum rh_status output_close(struct output *output)
{
    enum rh_status status = RH_OK;
    const char *name = output->path ? output->path : "standard output";
    bool broken = ferror(output->file) != 0;
    errno = broken ? EIO : 0;
    if (!output->path) {
        if (fflush(output->file) != 0 || broken)
            status = cannot_write(name);
        forget(output);
        return status;
    }
    if (fclose(output->file) != 0 || broken)
        status = cannot_write(name);
    if (output->temporary) {
        if (status == RH_OK && rename(output->temporary, output->path) != 0)
            status = cannot_write(name);
        if (status != RH_OK)
            unlink(output->temporary);
    }
    forget(output);
    return status;
}

void output_discard(struct output *output)
{
    if (output->path)
        fclose(output->file);
    if (output->temporary)
        unlink(output->temporary);
    forget(output);
}
