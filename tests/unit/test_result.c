#include <stdlib.h>

#include "base/memory.h"
#include "plan/result.h"
#include "tests/unit/unit.h"

static struct result with_devices(int count)
{
    struct result result = {.device_count = count};
    result.devices = memory_new_array((size_t)count, sizeof *result.devices);
    for (int i = 0; i < count; i++)
        result.devices[i].device = 10 * i; /* global numbers need not be dense */
    return result;
}

static void add(struct result *result, int device, enum work work, double start, double end)
{
    *ARRAY_ADD(result->spans, result->span_count, result->span_capacity) =
        (struct span){.device = device,
                      .work = work,
                      .start_seconds = start,
                      .end_seconds = end,
                      .communication = work == WORK_COMMUNICATION};
}

/* Step [100, 110): compute 100..104 twice over and 106..108, communication 103..107. */
static void test_account(void)
{
    struct result result = with_devices(1);
    add(&result, 0, WORK_BACKWARD, 106, 108);
    add(&result, 0, WORK_FORWARD, 100, 104);
    add(&result, 0, WORK_FORWARD, 101, 103); /* on another stream */
    add(&result, 0, WORK_COMMUNICATION, 103, 107);
    add(&result, 0, WORK_FORWARD, 90, 100);    /* of the step before */
    add(&result, 0, WORK_OPTIMIZER, 109, 120); /* cut at the step's end */
    add(&result, 0, WORK_OTHER, 100, 110);
    result.spans[result.span_count - 1].mark = true; /* a range is no work */
    result_account(&result, 100, 110);
    const struct device_result *device = &result.devices[0];
    UNIT_ASSERT_NEAR(device->busy_seconds, 7, 1e-12);
    UNIT_ASSERT_NEAR(device->communication_seconds, 4, 1e-12);
    UNIT_ASSERT_NEAR(device->exposed_seconds, 2, 1e-12); /* 104..106 */
    UNIT_ASSERT_NEAR(device->idle_seconds, 1, 1e-12);    /* 108..109 */
    UNIT_ASSERT_NEAR(device->work_seconds[WORK_FORWARD], 4, 1e-12);
    UNIT_ASSERT_NEAR(device->work_seconds[WORK_BACKWARD], 2, 1e-12);
    UNIT_ASSERT_NEAR(device->work_seconds[WORK_OPTIMIZER], 1, 1e-12);
    CU_ASSERT_EQUAL(device->work_seconds[WORK_OTHER], 0);
    UNIT_ASSERT_NEAR(result.exposed_communication_seconds, 2, 1e-12);
    UNIT_ASSERT_NEAR(result.bubble_fraction, 0.1, 1e-12);
    CU_ASSERT_EQUAL(result.waited_for, -1);
    result_free(&result);
    CU_ASSERT_PTR_NULL(result.spans);
}

static void test_waited_for(void)
{
    struct result result = with_devices(5);
    for (int i = 0; i < 4; i++)
        add(&result, 10 * i, WORK_FORWARD, 0, i == 2 ? 4.04 : 4);
    add(&result, 40, WORK_COMMUNICATION, 0, 8); /* computes nothing: in no mean */
    result_account(&result, 0, 8);
    CU_ASSERT_EQUAL(result.waited_for, -1); /* 1 % more is not enough */
    CU_ASSERT_EQUAL(result.exposed_communication_seconds, 0);
    UNIT_ASSERT_NEAR(result.devices[4].exposed_seconds, 8, 1e-12);
    UNIT_ASSERT_NEAR(result.bubble_fraction, (3 * 0.5 + 3.96 / 8) / 4, 1e-12);
    result.spans[2].end_seconds = 5;
    result_account(&result, 0, 8);
    CU_ASSERT_EQUAL(result.waited_for, 20);
    result_free(&result);
}

static void test_median(void)
{
    static const double steps[] = {9, 3, 1, 2};
    static const double medians[] = {0, 9, 3, 2, 2}; /* by the number of steps */
    for (int count = 0; count <= 4; count++) {
        struct result result = with_devices(0);
        result.step_count = count;
        result.step_seconds = memory_new_array((size_t)count, sizeof *result.step_seconds);
        for (int i = 0; i < count; i++)
            result.step_seconds[i] = steps[i];
        result_account(&result, 0, 1);
        CU_ASSERT_EQUAL(result.median_step_seconds, medians[count]);
        CU_ASSERT_EQUAL(result.waited_for, -1);
        result_free(&result);
    }
}

static const struct unit_test tests[] = {
    {"accounting of a step", test_account, NULL},
    {"the device that others wait for", test_waited_for, NULL},
    {"median", test_median, NULL},
};

int main(void)
{
    return UNIT_MAIN("result", tests);
}
