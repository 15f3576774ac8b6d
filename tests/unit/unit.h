/* What every unit-test program shares: a table of tests, run by CUnit, closed by a line
 * "SUITE: N passed, N failed, N skipped" that tests/summary adds up. */
#ifndef REHEARSE_TESTS_UNIT_H
#define REHEARSE_TESTS_UNIT_H

#include <CUnit/CUnit.h>

struct unit_test {
    const char *name;
    void (*run)(void);
    const char *(*skip)(void); /* NULL, or gives the reason to skip, NULL to run */
};

int unit_main(const char *suite, const struct unit_test *tests, int count);
#define UNIT_MAIN(suite, tests) unit_main(suite, tests, (int)(sizeof(tests) / sizeof *(tests)))

/* The folder of published reference data ($REHEARSE_SHARED or SRCDIR/../shared), or NULL. */
const char *unit_shared(void);
/* A skip function: "../shared is not here" where unit_shared() is NULL. */
const char *unit_needs_shared(void);
/* A file of the source tree ("platforms/devices/v100-32gb.json"); $srcdir respected. Static buffers,
 * eight in turn. */
const char *unit_source(const char *path);

/* Fails the test with both strings printed. */
#define UNIT_ASSERT_CONTAINS(text, part)                                                           \
    do {                                                                                           \
        if (!strstr((text), (part)))                                                               \
            fprintf(stderr, "    \"%s\" does not contain \"%s\"\n", (text), (part));               \
        CU_ASSERT_TRUE(strstr((text), (part)) != NULL);                                            \
    } while (0)
/* Fails unless |a - b| <= relative * max(|a|, |b|) + tiny; prints both. */
#define UNIT_ASSERT_NEAR(a, b, relative) CU_ASSERT_TRUE(unit_near((a), (b), (relative)))
int unit_near(double a, double b, double relative);

#endif
