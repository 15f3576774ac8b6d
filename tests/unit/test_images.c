/* Labelled images: every record once an epoch, each epoch in an order of its own, pixels scaled and
 * normalized, CIFAR-10's rows taken apart. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/dataset.h"

enum { ROW = 3073, ROWS = 7, BATCH = 2, STEPS = ROWS / BATCH };

static const struct dataset_column columns[DATASET_COLUMNS] = {
    {{3, {3, 32, 32}}, DTYPE_F32, 0},
    {{0, {0}}, DTYPE_I64, 10},
};

/* Record i: label i, red 10 i, green 100, blue 255. */
static void write_rows(char path[64], size_t bytes)
{
    unsigned char *rows = memory_new(ROWS * ROW);
    for (int i = 0; i < ROWS; i++) {
        memset(rows + i * ROW + 1, 10 * i, 1024);
        memset(rows + i * ROW + 1025, 100, 1024);
        memset(rows + i * ROW + 2049, 255, 1024);
        rows[i * ROW] = (unsigned char)i;
    }
    snprintf(path, 64, "/tmp/rehearse-images-%ld", (long)getpid());
    FILE *file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(rows, 1, bytes, file), bytes);
    fclose(file);
    free(rows);
}

static struct dataset *open_rows(bool shuffle, uint64_t seed)
{
    char path[64];
    char *files[] = {path};
    struct dataset *d = NULL;
    struct data_source source = {.kind = DATA_CIFAR10,
                                 .files = files,
                                 .file_count = 1,
                                 .shuffle = shuffle,
                                 .channels = 3,
                                 .mean = {0, 0, 0.5},
                                 .deviation = {1, 1, 0.25}};
    write_rows(path, ROWS * ROW);
    CU_ASSERT_EQUAL(dataset_open(&source, seed, columns, BATCH, &d), RH_OK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(d);
    unlink(path);
    return d;
}

static void read_labels(const struct dataset *d, int64_t epoch, int64_t labels[STEPS * BATCH])
{
    for (int64_t step = 0; step < STEPS; step++)
        CU_ASSERT_EQUAL(dataset_rows(d, DATASET_TARGET, epoch * STEPS + step, BATCH, 0, BATCH,
                                     &labels[step * BATCH]),
                        RH_OK);
}

static void test_an_epoch_has_every_record_once(void)
{
    struct dataset *d = open_rows(true, 3);
    struct dataset *again = open_rows(true, 3);
    int64_t labels[2][STEPS * BATCH];
    int64_t same[STEPS * BATCH];
    for (int epoch = 0; epoch < 2; epoch++) {
        unsigned seen = 0;
        read_labels(d, epoch, labels[epoch]);
        for (int i = 0; i < STEPS * BATCH; i++)
            seen |= 1u << labels[epoch][i];
        CU_ASSERT_EQUAL(__builtin_popcount(seen), STEPS * BATCH);
    }
    CU_ASSERT_NOT_EQUAL(memcmp(labels[0], labels[1], sizeof same), 0);
    read_labels(again, 1, same); /* as a resumed training does: no epoch before */
    CU_ASSERT_EQUAL(memcmp(labels[1], same, sizeof same), 0);
    dataset_free(d);
    dataset_free(again);
}

static void test_files_in_order(void)
{
    struct dataset *d = open_rows(false, 3);
    int64_t labels[STEPS * BATCH];
    float *rows = memory_new_array(2 * 3072, sizeof *rows);
    read_labels(d, 1, labels);
    for (int i = 0; i < STEPS * BATCH; i++)
        CU_ASSERT_EQUAL(labels[i], i);
    CU_ASSERT_EQUAL(dataset_rows(d, DATASET_INPUT, 1, BATCH, 0, 2, rows), RH_OK);
    UNIT_ASSERT_NEAR(rows[0], 20 / 255.0, 1e-6);
    UNIT_ASSERT_NEAR(rows[3072 + 1023], 30 / 255.0, 1e-6);
    UNIT_ASSERT_NEAR(rows[3072 + 1024], 100 / 255.0, 1e-6);
    UNIT_ASSERT_NEAR(rows[2 * 3072 - 1], 2, 1e-6);
    free(rows);
    dataset_free(d);
}

static const struct unit_test tests[] = {
    {"an epoch has every record once", test_an_epoch_has_every_record_once, NULL},
    {"files in order, normalized", test_files_in_order, NULL},
};

int main(void)
{
    return UNIT_MAIN("images", tests);
}
