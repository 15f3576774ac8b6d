/* The numbered cases of PyTorch's behaviour (T1 … O19), one block each: what happens, checked, and
 * printed as "case C12 ok". The backend is $REHEARSE_CASES_BACKEND ("cuda" on a GPU), else SimGrid
 * with numbers, else the reference. doc/torch-cases.md is written by a run with --table. */
#ifndef REHEARSE_TESTS_CASES_H
#define REHEARSE_TESTS_CASES_H

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"
#include "rehearse.h"

struct case_entry {
    const char *id, *words; /* "C12", what happens */
    void (*run)(void);      /* NULL: not run, for `reason` */
    const char *reason;
    bool applies; /* without `run`: still to come */
    const char *file;
    struct case_entry *next;
};
void case_add(struct case_entry *entry);

#define CASE_ADD(id, ...)                                                                          \
    static struct case_entry entry_##id = {#id, __VA_ARGS__};                                      \
    __attribute__((constructor)) static void add_##id(void)                                        \
    {                                                                                              \
        case_add(&entry_##id);                                                                     \
    }
/* CASE(C12, "…") { CHECK(…); } */
#define CASE(id, words)                                                                            \
    static void case_##id(void);                                                                   \
    CASE_ADD(id, words, case_##id, NULL, true, __FILE__, NULL)                                     \
    static void case_##id(void)
/* There is nothing like it here, and why; or it is still to be written, and what it waits for. */
#define DOES_NOT_APPLY(id, words, why) CASE_ADD(id, words, NULL, why, false, __FILE__, NULL)
#define NOT_YET(id, words, why) CASE_ADD(id, words, NULL, why, true, __FILE__, NULL)

/* Where we do something else on purpose: a row of the second table. */
struct case_difference {
    const char *id, *torch, *ours;
    struct case_difference *next;
};
void case_add_difference(struct case_difference *difference);
#define DIFFERS(id, torch, ours)                                                                   \
    static struct case_difference difference_##id = {#id, torch, ours, NULL};                      \
    __attribute__((constructor)) static void add_difference_##id(void)                             \
    {                                                                                              \
        case_add_difference(&difference_##id);                                                     \
    }

/* A failed check marks the case; a failed CHECK_OK also ends it. */
void case_check(bool passed, const char *what, const char *file, int line);
void case_require(bool passed, const char *what, const char *file, int line);
#define CHECK(condition) case_check((condition), #condition, __FILE__, __LINE__)
#define CHECK_OK(call) case_require((call) == RH_OK, #call, __FILE__, __LINE__)
/* The call is refused as bad input, in words that hold `part`. */
#define CHECK_REFUSED(call, part) case_check_refused((call), (part), #call, __FILE__, __LINE__)
void case_check_refused(enum rh_status status, const char *part, const char *what, const char *file,
                        int line);
#define CHECK_NEAR(got, expected, relative)                                                        \
    case_check_near((got), (expected), (relative), #got, __FILE__, __LINE__)
void case_check_near(double got, double expected, double relative, const char *what,
                     const char *file, int line);
/* Ends the case as skipped. */
void case_skip(const char *why);

const char *case_backend(void);
bool case_has_times(void); /* simulated ones, that a case may count on */
/* Eight GPUs of one node, open for all cases. */
struct rh_cluster *case_cluster(void);
/* Freed when the case ends. */
struct rh_tensor *case_keep(struct rh_tensor *tensor);
void case_keep_all(struct rh_tensor *const *tensors, int count);
struct rh_tensor *case_tensor(int device, int rank, const int64_t *dims, const float *values);
struct rh_tensor *case_integers(int device, int64_t count, const int64_t *values);
/* Bytes that the last call moved from one device to another, and by collectives. */
struct rh_traffic case_traffic(void);

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define SCALAR 0, NULL
#define VALUES(...)                                                                                \
    (const float[])                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define DEVICES(...) (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define CHECK_VALUES(tensor, ...)                                                                  \
    case_check_values((tensor), (const float[]){__VA_ARGS__},                                      \
                      (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), __FILE__, __LINE__)
void case_check_values(const struct rh_tensor *tensor, const float *expected, int count,
                       const char *file, int line);
#define CHECK_SHAPE(tensor, ...) case_check_shape((tensor), DIMS(__VA_ARGS__), __FILE__, __LINE__)
void case_check_shape(const struct rh_tensor *tensor, int rank, const int64_t *dims,
                      const char *file, int line);
/* 1, 2, 3 … row by row. */
struct rh_tensor *case_counting(int device, int rank, const int64_t *dims);
bool case_is_dense(const struct rh_tensor *tensor);

#endif
