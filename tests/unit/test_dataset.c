/* Batches: a function of (seed, column, sample) alone, the same however they are split; or from a
 * file, checked against what the model wants. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/dataset.h"

static const struct dataset_column columns[DATASET_COLUMNS] = {
    {{2, {2, 3}}, DTYPE_F32, 0},
    {{0, {0}}, DTYPE_I64, 10},
};

static struct dataset *synthetic(uint64_t seed)
{
    struct dataset *d = NULL;
    CU_ASSERT_EQUAL(dataset_synthetic(seed, columns, &d), RH_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(d);
    return d;
}

static void test_splits_see_the_same_batch(void)
{
    struct dataset *d = synthetic(5);
    float whole[12][6];
    float part[12][6];
    int64_t whole_labels[12];
    int64_t part_labels[12];
    CU_ASSERT_EQUAL(dataset_rows(d, DATASET_INPUT, 3, 12, 0, 12, whole), RH_OK);
    CU_ASSERT_EQUAL(dataset_rows(d, DATASET_TARGET, 3, 12, 0, 12, whole_labels), RH_OK);
    for (int64_t pieces = 1; pieces <= 12; pieces++) {
        for (int64_t first = 0; first < 12; first += pieces) {
            int64_t count = first + pieces > 12 ? 12 - first : pieces;
            CU_ASSERT_EQUAL(dataset_rows(d, DATASET_INPUT, 3, 12, first, count, part[first]),
                            RH_OK);
            CU_ASSERT_EQUAL(
                dataset_rows(d, DATASET_TARGET, 3, 12, first, count, &part_labels[first]), RH_OK);
        }
        CU_ASSERT_EQUAL(memcmp(whole, part, sizeof whole), 0);
        CU_ASSERT_EQUAL(memcmp(whole_labels, part_labels, sizeof whole_labels), 0);
    }
    dataset_free(d);
}

static void test_steps_and_seeds_differ(void)
{
    struct dataset *d = synthetic(5);
    struct dataset *same = synthetic(5);
    struct dataset *other = synthetic(6);
    float a[24];
    float b[24];
    dataset_rows(d, DATASET_INPUT, 0, 4, 0, 4, a);
    dataset_rows(same, DATASET_INPUT, 0, 4, 0, 4, b);
    CU_ASSERT_EQUAL(memcmp(a, b, sizeof a), 0);
    dataset_rows(d, DATASET_INPUT, 1, 4, 0, 4, b);
    CU_ASSERT_NOT_EQUAL(memcmp(a, b, sizeof a), 0);
    dataset_rows(other, DATASET_INPUT, 0, 4, 0, 4, b);
    CU_ASSERT_NOT_EQUAL(memcmp(a, b, sizeof a), 0);
    /* rows of one batch are different samples */
    CU_ASSERT_NOT_EQUAL(memcmp(&a[0], &a[6], 6 * sizeof *a), 0);
    /* step 1 goes on where step 0 ended: 2 steps of 4 are 1 of 8 */
    float long_batch[48];
    dataset_rows(d, DATASET_INPUT, 1, 4, 0, 4, b);
    dataset_rows(d, DATASET_INPUT, 0, 8, 0, 8, long_batch);
    CU_ASSERT_EQUAL(memcmp(&long_batch[24], b, sizeof b), 0);
    dataset_free(d);
    dataset_free(same);
    dataset_free(other);
}

static void test_distributions(void)
{
    struct dataset *d = synthetic(1);
    enum { ROWS = 2000 };
    float *values = malloc(ROWS * 6 * sizeof *values);
    int64_t *labels = malloc(ROWS * sizeof *labels);
    int seen[10] = {0};
    double sum = 0;
    double squares = 0;
    dataset_rows(d, DATASET_INPUT, 0, ROWS, 0, ROWS, values);
    dataset_rows(d, DATASET_TARGET, 0, ROWS, 0, ROWS, labels);
    for (int i = 0; i < ROWS * 6; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    CU_ASSERT_TRUE(fabs(sum / (ROWS * 6)) < 0.04);
    CU_ASSERT_TRUE(fabs(squares / (ROWS * 6) - 1) < 0.06);
    for (int i = 0; i < ROWS; i++) {
        CU_ASSERT_TRUE_FATAL(labels[i] >= 0 && labels[i] < 10);
        seen[labels[i]]++;
    }
    for (int i = 0; i < 10; i++)
        CU_ASSERT_TRUE(seen[i] > 140 && seen[i] < 260);
    free(values);
    free(labels);
    dataset_free(d);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes the tensors to a file of its own and opens it; removes it at once. */
static enum rh_status open_file(const struct named_tensor *tensors, int count,
                                struct dataset **dataset)
{
    const char *base = getenv("TMPDIR");
    char *path = text_format("%s/rehearse-dataset-%ld.safetensors", base && *base ? base : "/tmp",
                             (long)getpid());
    CU_ASSERT_EQUAL_FATAL(safetensors_write(path, tensors, count), RH_OK);
    enum rh_status status = dataset_from_file(path, columns, dataset);
    unlink(path);
    free(path);
    return status;
}

static float input[2][24];
static int64_t target[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};

#define INPUT(i, rows)                                                                             \
    {                                                                                              \
        "input." #i, {DTYPE_F32, {3, {rows, 2, 3}}}, input[i]                                      \
    }
#define TARGET(i, rows)                                                                            \
    {                                                                                              \
        "target." #i, {DTYPE_I64, {1, {rows}}}, target[i]                                          \
    }

static void test_file_batches_in_turn(void)
{
    const struct named_tensor tensors[] = {INPUT(0, 4), TARGET(0, 4), INPUT(1, 4), TARGET(1, 4)};
    struct dataset *d = NULL;
    float rows[12];
    int64_t labels[2];
    for (int i = 0; i < 48; i++)
        input[i / 24][i % 24] = (float)i;
    CU_ASSERT_EQUAL_FATAL(open_file(tensors, 4, &d), RH_OK);
    for (int step = 0; step < 5; step++) {
        CU_ASSERT_EQUAL(dataset_rows(d, DATASET_INPUT, step, 4, 1, 2, rows), RH_OK);
        CU_ASSERT_EQUAL(memcmp(rows, &input[step % 2][6], sizeof rows), 0);
        CU_ASSERT_EQUAL(dataset_rows(d, DATASET_TARGET, step, 4, 2, 2, labels), RH_OK);
        CU_ASSERT_EQUAL(memcmp(labels, &target[step % 2][2], sizeof labels), 0);
    }
    CU_ASSERT_EQUAL(dataset_rows(d, DATASET_INPUT, 0, 5, 0, 2, rows), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "'input.0' has 4 rows, a batch of 5 is asked for");
    dataset_free(d);
}

static void test_file_errors(void)
{
    const struct named_tensor none[] = {INPUT(1, 4), TARGET(1, 4)};
    const struct named_tensor half[] = {INPUT(0, 4)};
    const struct named_tensor shape[] = {{"input.0", {DTYPE_F32, {3, {4, 3, 2}}}, input[0]},
                                         TARGET(0, 4)};
    const struct named_tensor rank[] = {{"input.0", {DTYPE_F32, {2, {4, 6}}}, input[0]},
                                        TARGET(0, 4)};
    const struct named_tensor type[] = {INPUT(0, 4), {"target.0", {DTYPE_F32, {1, {4}}}, input[0]}};
    struct dataset *d = NULL;
    CU_ASSERT_EQUAL(open_file(none, 2, &d), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "no 'input.0'");
    CU_ASSERT_PTR_NULL(d);
    CU_ASSERT_EQUAL(open_file(half, 1, &d), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "'input.0' has no 'target.0'");
    CU_ASSERT_EQUAL(open_file(shape, 2, &d), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "samples of 'input.0' are (3, 2), the model wants (2, 3)");
    CU_ASSERT_EQUAL(open_file(rank, 2, &d), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "'input.0' is fp32 (4, 6); samples are fp32 (2, 3)");
    CU_ASSERT_EQUAL(open_file(type, 2, &d), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "'target.0' is fp32 (4); samples are int64 ()");
    CU_ASSERT_EQUAL(dataset_from_file("no/such.safetensors", columns, &d), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "no/such.safetensors");
}

/* An input and its target of different lengths do not belong together. */
static void test_file_rows_agree(void)
{
    const struct named_tensor tensors[] = {INPUT(0, 4), TARGET(0, 3)};
    struct dataset *d = NULL;
    CU_ASSERT_EQUAL(open_file(tensors, 2, &d), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "'input.0' has 4 rows, 'target.0' has 3");
    if (d)
        dataset_free(d);
}

static const struct unit_test tests[] = {
    {"splits see the same batch", test_splits_see_the_same_batch, NULL},
    {"steps and seeds differ", test_steps_and_seeds_differ, NULL},
    {"distributions", test_distributions, NULL},
    {"file batches in turn", test_file_batches_in_turn, NULL},
    {"file errors", test_file_errors, NULL},
    {"file rows agree", test_file_rows_agree, NULL},
};

int main(void)
{
    return UNIT_MAIN("dataset", tests);
}
