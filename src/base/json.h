/* Reading JSON with errors that name the place, the key and the nearest key that exists.
 * `where` is how an error calls the object ("device 'v100'", "experiment 'x.json': train"). */
#ifndef REHEARSE_BASE_JSON_H
#define REHEARSE_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/status.h"

/* Reads a file that holds exactly one JSON value. The caller ends it with cJSON_Delete.
 * Errors: unreadable, not JSON (with its line), a key given twice in one object. */
enum rh_status json_read_file(const char *path, cJSON **root);
enum rh_status json_read_text(const char *name, const char *text, cJSON **root);

/* Fails unless `object` is an object whose every key is one of `keys` (count of them). */
enum rh_status json_check_keys(const cJSON *object, const char *where, const char *const *keys,
                               int count);
#define JSON_CHECK_KEYS(object, where, ...)                                                        \
    json_check_keys(object, where, (const char *const[]){__VA_ARGS__},                             \
                    (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

/* Each takes `key` of `object`. An absent key leaves *value as it is (so set the default first) and
 * is RH_OK; the _required forms refuse it. Numbers outside [least, most] and wrong types fail.
 * Strings point into the JSON tree. */
enum rh_status json_number(const cJSON *object, const char *where, const char *key, double least,
                           double most, double *value);
enum rh_status json_integer(const cJSON *object, const char *where, const char *key, int64_t least,
                            int64_t most, int64_t *value);
enum rh_status json_bool(const cJSON *object, const char *where, const char *key, bool *value);
enum rh_status json_string(const cJSON *object, const char *where, const char *key,
                           const char **value);
enum rh_status json_number_required(const cJSON *object, const char *where, const char *key,
                                    double least, double most, double *value);
enum rh_status json_integer_required(const cJSON *object, const char *where, const char *key,
                                     int64_t least, int64_t most, int64_t *value);
enum rh_status json_string_required(const cJSON *object, const char *where, const char *key,
                                    const char **value);

/* The index of `word` in `names`, or an error that lists the nearest: "unknown strategy 'dpp'; did
 * you mean 'ddp'?". `what` is the noun. */
enum rh_status json_choice(const char *what, const char *word, const char *const *names, int count,
                           int *index);

#endif
