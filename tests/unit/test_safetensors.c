/* Safetensors files: round trip, and files that are cut off, lie or are no such files. */
#include "unit.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/safetensors.h"

/* A folder of its own for the files of one test; ended by remove_folder. */
static char *new_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *folder = text_format("%s/rehearse-XXXXXX", base && *base ? base : "/tmp");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    return folder;
}

static void remove_folder(char *folder, char *path)
{
    unlink(path);
    CU_ASSERT_EQUAL(rmdir(folder), 0); /* and nothing else was left in it */
    free(path);
    free(folder);
}

static void write_bytes(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* A file of `header` and `data_bytes` zeros, whose prefix says `says` bytes of header. */
static void write_file(const char *path, const char *header, uint64_t says, size_t data_bytes)
{
    size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + data_bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(says >> (8 * i));
    memcpy(bytes + 8, header, length);
    write_bytes(path, bytes, 8 + length + data_bytes);
    free(bytes);
}

/* The message of a file with this header and that many data bytes, which must be refused. */
static const char *refused(const char *path, const char *header, size_t data_bytes)
{
    struct safetensors file;
    write_file(path, header, strlen(header), data_bytes);
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_INVALID);
    CU_ASSERT_PTR_NULL(file.tensors);
    CU_ASSERT_PTR_NULL(file.memory);
    safetensors_free(&file);
    UNIT_ASSERT_CONTAINS(fail_message(), path);
    return fail_message();
}

static float weights[6] = {1, -2, 3.5f, 0, 1e-30f, 6};
static int64_t count_value = INT64_C(1) << 40;
static int64_t labels[3] = {7, -8, 9};

static const struct named_tensor saved[] = {
    {"layer.weight", {DTYPE_F32, {2, {2, 3}}}, weights},
    {"count", {DTYPE_I64, {0, {0}}}, &count_value},
    {"empty", {DTYPE_F32, {2, {0, 3}}}, NULL},
    {"labels", {DTYPE_I64, {1, {3}}}, labels},
};
enum { SAVED = sizeof saved / sizeof *saved };

static void test_round_trip(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    struct safetensors file;
    CU_ASSERT_EQUAL(safetensors_write(path, saved, SAVED), RH_OK);
    CU_ASSERT_EQUAL_FATAL(safetensors_read(path, &file), RH_OK);
    CU_ASSERT_EQUAL(file.count, SAVED);
    for (int i = 0; i < SAVED; i++) {
        const struct named_tensor *t = safetensors_find(&file, saved[i].name);
        CU_ASSERT_PTR_NOT_NULL_FATAL(t);
        CU_ASSERT_EQUAL(t->type.dtype, saved[i].type.dtype);
        CU_ASSERT_TRUE(shape_equal(&t->type.shape, &saved[i].type.shape));
        if (saved[i].data)
            CU_ASSERT_EQUAL(memcmp(t->data, saved[i].data, type_bytes(&t->type)), 0);
    }
    CU_ASSERT_PTR_NULL(safetensors_find(&file, "layer"));
    safetensors_free(&file);
    remove_folder(folder, path);
}

static void test_no_tensors(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    struct safetensors file;
    CU_ASSERT_EQUAL(safetensors_write(path, saved, 0), RH_OK);
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_OK);
    CU_ASSERT_EQUAL(file.count, 0);
    safetensors_free(&file);
    remove_folder(folder, path);
}

/* What other programs write: metadata, any order, half types. */
static void test_foreign_file(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    const char *header =
        "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_"
        "offsets\":[4,8]},\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}   ";
    struct safetensors file;
    write_file(path, header, strlen(header), 8);
    CU_ASSERT_EQUAL_FATAL(safetensors_read(path, &file), RH_OK);
    CU_ASSERT_EQUAL(file.count, 2);
    CU_ASSERT_EQUAL(safetensors_find(&file, "b")->type.dtype, DTYPE_BF16);
    CU_ASSERT_PTR_EQUAL((char *)safetensors_find(&file, "b")->data,
                        (char *)safetensors_find(&file, "a")->data + 4);
    safetensors_free(&file);
    remove_folder(folder, path);
}

/* Whatever is missing at the end, it is an error and no read past it. */
static void test_cut_off_at_every_length(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    struct safetensors file;
    CU_ASSERT_EQUAL(safetensors_write(path, saved, SAVED), RH_OK);
    struct stat stat_of;
    CU_ASSERT_EQUAL_FATAL(stat(path, &stat_of), 0);
    size_t whole = (size_t)stat_of.st_size;
    char *bytes = malloc(whole);
    FILE *in = fopen(path, "rb");
    CU_ASSERT_EQUAL_FATAL(fread(bytes, 1, whole, in), whole);
    fclose(in);
    for (size_t length = 0; length < whole; length++) {
        write_bytes(path, bytes, length);
        if (safetensors_read(path, &file) != RH_INVALID) {
            fprintf(stderr, "    %zu of %zu bytes are accepted\n", length, whole);
            CU_FAIL("a file that is cut off is accepted");
            safetensors_free(&file);
        }
    }
    free(bytes);
    remove_folder(folder, path);
}

static void test_not_such_a_file(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    struct safetensors file;
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "cannot read");
    write_bytes(path, "PK\3\4", 4);
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "4 bytes, at least 8 expected");
    write_file(path, "{}", UINT64_MAX, 10);
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "header of 18446744073709551615 bytes, 12 are there");
    write_file(path, "{}", 13, 10);
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "header of 13 bytes, 12 are there");
    UNIT_ASSERT_CONTAINS(refused(path, "[]", 0), "not an object");
    UNIT_ASSERT_CONTAINS(refused(path, "{\"a\":", 0), "is not JSON");
    remove_folder(folder, path);
}

#define ENTRY(name, dtype, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_lying_header(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[3]", "[0,12]") "}", 11),
                         "tensor 'w' lies at 0 to 12 of 11 data bytes");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[3]", "[0,8]") "}", 12),
                         "tensor 'w' has 8 bytes; its shape needs 12");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[3]", "[-4,8]") "}", 12),
                         "lies at -4 to 8 of 12");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[1]", "[8,4]") "}", 12),
                         "lies at 8 to 4");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[-1]", "[0,4]") "}", 12),
                         "dimension 0 is not a size");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[2.5]", "[0,10]") "}", 10),
                         "dimension 0 is not a size");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[\"3\"]", "[0,12]") "}", 12),
                         "dimension 0 is not a size");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[3]", "[0]") "}", 12),
                         "no data_offsets");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "3", "[0,12]") "}", 12), "'w'");
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F32", "[1,1,1,1,1,1]", "[0,4]") "}", 4),
                         "tensor 'w' has 6 dimensions; at most 5");
    UNIT_ASSERT_CONTAINS(
        refused(path,
                "{" ENTRY("w", "F32", "[1099511627776,1099511627776,1099511627776]", "[0,0]") "}",
                0),
        "its shape needs");
    UNIT_ASSERT_CONTAINS(refused(path, "{\"w\":7}", 0), "tensor 'w'");
    UNIT_ASSERT_CONTAINS(
        refused(path,
                "{" ENTRY("w", "F32", "[1]", "[0,4]") "," ENTRY("w", "F32", "[1]", "[4,8]") "}", 8),
        "key 'w' is given twice");
    remove_folder(folder, path);
}

/* A header ends where its length says, not at a NUL that hides what comes after. */
static void test_nul_in_header(void)
{
    static const char header[] = "{}\0{\"w\":7}    ";
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    unsigned char bytes[8 + sizeof header - 1] = {sizeof header - 1};
    struct safetensors file;
    memcpy(bytes + 8, header, sizeof header - 1);
    write_bytes(path, bytes, sizeof bytes);
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "NUL byte at 2 of its 14");
    safetensors_free(&file);
    remove_folder(folder, path);
}

/* tf32 is a way to compute: such numbers are stored, and come back, as fp32. */
static void test_tf32_is_stored_as_fp32(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    const struct named_tensor tensor = {"w", {DTYPE_TF32, {1, {6}}}, weights};
    struct safetensors file;
    CU_ASSERT_EQUAL(safetensors_write(path, &tensor, 1), RH_OK);
    CU_ASSERT_EQUAL(safetensors_read(path, &file), RH_OK);
    CU_ASSERT_EQUAL(file.count, 1);
    if (file.count == 1)
        CU_ASSERT_EQUAL(file.tensors[0].type.dtype, DTYPE_F32);
    safetensors_free(&file);
    remove_folder(folder, path);
}

static void test_overlap(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    const char *message = refused(
        path, "{" ENTRY("b", "F32", "[2]", "[8,16]") "," ENTRY("a", "F32", "[3]", "[0,12]") "}",
        16);
    UNIT_ASSERT_CONTAINS(message, "tensors 'a' and 'b' overlap by 4 bytes");
    remove_folder(folder, path);
}

/* Bytes that no tensor names: between two, and behind the last. */
static void test_missing_range(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    const char *hole = refused(
        path, "{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[8,12]") "}", 12);
    UNIT_ASSERT_CONTAINS(hole, "tensor 'b' starts at 8; the data before it ends at 4");
    const char *rest = refused(path, "{" ENTRY("a", "F32", "[1]", "[0,4]") "}", 12);
    UNIT_ASSERT_CONTAINS(rest, "12 data bytes; the tensors take 4");
    remove_folder(folder, path);
}

static void test_unknown_type(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    UNIT_ASSERT_CONTAINS(refused(path, "{" ENTRY("w", "F8_E4M3", "[4]", "[0,4]") "}", 4),
                         "tensor 'w' has element type 'F8_E4M3'");
    UNIT_ASSERT_CONTAINS(refused(path, "{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4),
                         "element type '(none)'");
    remove_folder(folder, path);
}

/* What cannot be written leaves the old file and no half a new one. */
static void test_write_is_whole_or_not_at_all(void)
{
    char *folder = new_folder();
    char *path = text_format("%s/a.safetensors", folder);
    char *nowhere = text_format("%s/no/a.safetensors", folder);
    CU_ASSERT_EQUAL(safetensors_write(nowhere, saved, SAVED), RH_FAILED);
    UNIT_ASSERT_CONTAINS(fail_message(), "cannot write");
    UNIT_ASSERT_CONTAINS(fail_message(), nowhere);
    free(nowhere);
    /* the target is a folder: all is written, but cannot take its place */
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    CU_ASSERT_EQUAL(safetensors_write(path, saved, SAVED), RH_FAILED);
    CU_ASSERT_EQUAL(rmdir(path), 0);
    /* a second write replaces the first */
    struct safetensors file;
    CU_ASSERT_EQUAL(safetensors_write(path, saved, SAVED), RH_OK);
    CU_ASSERT_EQUAL(safetensors_write(path, &saved[3], 1), RH_OK);
    CU_ASSERT_EQUAL_FATAL(safetensors_read(path, &file), RH_OK);
    CU_ASSERT_EQUAL(file.count, 1);
    safetensors_free(&file);
    remove_folder(folder, path);
}

static const struct unit_test tests[] = {
    {"round trip", test_round_trip, NULL},
    {"no tensors", test_no_tensors, NULL},
    {"foreign file", test_foreign_file, NULL},
    {"cut off at every length", test_cut_off_at_every_length, NULL},
    {"not such a file", test_not_such_a_file, NULL},
    {"lying header", test_lying_header, NULL},
    {"NUL in header", test_nul_in_header, NULL},
    {"tf32 is stored as fp32", test_tf32_is_stored_as_fp32, NULL},
    {"overlap", test_overlap, NULL},
    {"missing range", test_missing_range, NULL},
    {"unknown type", test_unknown_type, NULL},
    {"write is whole or not at all", test_write_is_whole_or_not_at_all, NULL},
};

int main(void)
{
    return UNIT_MAIN("safetensors", tests);
}
