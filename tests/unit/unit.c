#include "unit.h"

#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *source_folder(void)
{
    const char *folder = getenv("srcdir");
    return folder && *folder ? folder : ".";
}

const char *unit_source(const char *path)
{
    static char buffers[8][4096];
    static int next;
    char *buffer = buffers[next++ % 8];
    snprintf(buffer, sizeof buffers[0], "%s/%s", source_folder(), path);
    return buffer;
}

const char *unit_shared(void)
{
    static char folder[4096];
    const char *given = getenv("REHEARSE_SHARED");
    snprintf(folder, sizeof folder, "%s", given && *given ? given : unit_source("../shared"));
    return access(folder, R_OK) == 0 ? folder : NULL;
}

const char *unit_needs_shared(void)
{
    return unit_shared() ? NULL : "../shared is not here";
}

int unit_near(double a, double b, double relative)
{
    double larger = fmax(fabs(a), fabs(b));
    if (fabs(a - b) <= relative * larger + 1e-300)
        return 1;
    fprintf(stderr, "    %.10g and %.10g differ by %.3g relative, more than %.3g\n", a, b,
            fabs(a - b) / larger, relative);
    return 0;
}

static void report_failures(const char *suite)
{
    for (CU_pFailureRecord record = CU_get_failure_list(); record; record = record->pNext)
        fprintf(stderr, "FAILED %s/%s: %s:%u: %s\n", suite,
                record->pTest ? record->pTest->pName : "?", record->strFileName,
                record->uiLineNumber, record->strCondition);
}

int unit_main(const char *suite, const struct unit_test *tests, int count)
{
    int skipped = 0;
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite registered = CU_add_suite(suite, NULL, NULL);
    CU_set_fail_on_inactive(CU_FALSE);
    for (int i = 0; registered && i < count; i++) {
        CU_pTest test = CU_add_test(registered, tests[i].name, tests[i].run);
        const char *reason = tests[i].skip ? tests[i].skip() : NULL;
        if (!test)
            return 1;
        if (reason) {
            printf("skipped %s/%s: %s\n", suite, tests[i].name, reason);
            CU_set_test_active(test, CU_FALSE);
            skipped++;
        }
    }
    fflush(stdout);
    CU_basic_set_mode(CU_BRM_SILENT);
    CU_basic_run_tests();
    report_failures(suite);
    int failed = (int)CU_get_number_of_tests_failed();
    int ran = (int)CU_get_number_of_tests_run();
    printf("%s: %d passed, %d failed, %d skipped\n", suite, ran - failed, failed, skipped);
    CU_cleanup_registry();
    return failed != 0 || ran + skipped != count;
}
