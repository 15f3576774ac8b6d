/* One status and one message for everything that can go wrong, from the library to the exit code.
 */
#ifndef REHEARSE_BASE_STATUS_H
#define REHEARSE_BASE_STATUS_H

#include <stdarg.h>

#include "rehearse.h"

/* Records the message (thread-local, replaced by the next fail) and returns `status`, so that a
 * function can end with `return fail(RH_INVALID, "unknown key '%s'", key)`. Words: lower case,
 * fault first, subject quoted, both numbers. */
enum rh_status fail(enum rh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the recorded message: where an error below gets its place ("node 'dgx1v':
 * …"). Returns the status that was recorded with the message. */
enum rh_status fail_within(enum rh_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The recorded message, "" when nothing failed. Owned by the thread, valid until the next fail. */
const char *fail_message(void);

#define RETURN_IF_FAILED(expression)                                                               \
    do {                                                                                           \
        enum rh_status status_ = (expression);                                                     \
        if (status_ != RH_OK)                                                                      \
            return status_;                                                                        \
    } while (0)

#endif
