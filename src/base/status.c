#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* The one mutable file-scope state of the project: an error message cannot travel in a status. */
static _Thread_local char message[1024];

enum rh_status fail(enum rh_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return status;
}

enum rh_status fail_within(enum rh_status status, const char *format, ...)
{
    char inner[sizeof message];
    memcpy(inner, message, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof message)
        snprintf(message + used, sizeof message - (size_t)used, ": %s", inner);
    return status;
}

const char *fail_message(void)
{
    return message;
}

const char *rh_error(void)
{
    return message;
}
