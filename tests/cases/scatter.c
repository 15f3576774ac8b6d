/* C46 … C69: scatter. */
#include "cases/cases.h"

enum { MOST = 8 };

/* Row counts of `rows` rows on `count` devices, -1 after the last piece. */
static void check_rows(int64_t rows, int count, const int64_t *expected)
{
    static const int devices[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct rh_tensor *x = case_tensor(0, DIMS(rows), NULL);
    struct rh_tensor *out[MOST];
    int pieces = 0;
    CHECK_OK(rh_scatter(x, devices, count, NULL, 0, out, &pieces, NULL));
    case_keep_all(out, pieces);
    for (int i = 0; i < pieces; i++) {
        CHECK(rh_tensor_dim(out[i], 0) == expected[i]);
        CHECK(rh_tensor_device(out[i]) == i);
    }
    CHECK(expected[pieces] == -1);
}
#define CHECK_ROWS(rows, count, ...) check_rows(rows, count, (const int64_t[]){__VA_ARGS__, -1})

static int scatter(struct rh_tensor *x, const int *devices, int count, const int64_t *sizes,
                   int dim, struct rh_tensor **out)
{
    int pieces = 0;
    CHECK_OK(rh_scatter(x, devices, count, sizes, dim, out, &pieces, NULL));
    case_keep_all(out, pieces);
    return pieces;
}

static enum rh_status try_scatter(struct rh_tensor *x, int count, const int64_t *sizes, int dim)
{
    static const int devices[MOST] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct rh_tensor *out[MOST];
    int pieces = 7;
    enum rh_status status = rh_scatter(x, devices, count, sizes, dim, out, &pieces, NULL);
    CHECK(pieces == 0 || status == RH_OK);
    return status;
}

static struct rh_tensor *six(int device)
{
    return case_counting(device, DIMS(6));
}

CASE(C46, "six elements over three GPUs: two each")
{
    struct rh_tensor *out[3];
    CHECK(scatter(six(0), DEVICES(0, 1, 2), NULL, 0, out) == 3);
    CHECK_VALUES(out[0], 1, 2);
    CHECK_VALUES(out[1], 3, 4);
    CHECK_VALUES(out[2], 5, 6);
}

CASE(C47, "two rows over three GPUs: two pieces")
{
    struct rh_tensor *out[3];
    CHECK(scatter(case_counting(0, DIMS(2, 3)), DEVICES(0, 1, 2), NULL, 0, out) == 2);
    CHECK_SHAPE(out[0], 1, 3);
    CHECK_VALUES(out[0], 1, 2, 3);
    CHECK_VALUES(out[1], 4, 5, 6);
    CHECK(rh_tensor_device(out[1]) == 1);
}

static void columns(int dim)
{
    struct rh_tensor *out[3];
    CHECK(scatter(case_counting(0, DIMS(2, 3)), DEVICES(0, 1, 2), NULL, dim, out) == 3);
    CHECK_SHAPE(out[2], 2, 1);
    CHECK_VALUES(out[0], 1, 4);
    CHECK_VALUES(out[1], 2, 5);
    CHECK_VALUES(out[2], 3, 6);
}

CASE(C48, "along dimension 1: columns")
{
    columns(1);
}

CASE(C49, "along dimension -1: the last")
{
    columns(-1);
}

CASE(C50, "pieces of ceil(size / devices), the last one smaller, maybe fewer pieces")
{
    CHECK_ROWS(5, 4, 2, 2, 1);
    CHECK_ROWS(9, 4, 3, 3, 3);
    CHECK_ROWS(10, 4, 3, 3, 3, 1);
    CHECK_ROWS(36, 7, 6, 6, 6, 6, 6, 6);
    CHECK_ROWS(7, 3, 3, 3, 1);
    CHECK_ROWS(1, 4, 1);
}

CASE(C51, "no rows: an empty piece each")
{
    CHECK_ROWS(0, 3, 0, 0, 0);
}

CASE(C52, "sizes 2 and 4")
{
    struct rh_tensor *out[2];
    CHECK(scatter(six(0), DEVICES(0, 1), (const int64_t[]){2, 4}, 0, out) == 2);
    CHECK_VALUES(out[0], 1, 2);
    CHECK_VALUES(out[1], 3, 4, 5, 6);
}

CASE(C53, "sizes 0 and 6")
{
    struct rh_tensor *out[2];
    CHECK(scatter(six(0), DEVICES(0, 1), (const int64_t[]){0, 6}, 0, out) == 2);
    CHECK_SHAPE(out[0], 0);
    CHECK_VALUES(out[1], 1, 2, 3, 4, 5, 6);
}

CASE(C54, "sizes that do not add up: both numbers")
{
    CHECK_REFUSED(try_scatter(six(0), 2, (const int64_t[]){2, 3}, 0),
                  "the sizes add up to 5, the dimension is 6");
}

CASE(C55, "a negative size")
{
    CHECK_REFUSED(try_scatter(six(0), 2, (const int64_t[]){-1, 7}, 0), "size 0 is -1");
}

DOES_NOT_APPLY(C56, "three sizes for two devices: length mismatch",
               "both lists have one count in C; `rehearse comm` has the case as an error of its "
               "options (tests/golden/cases/comm-errors)")

CASE(C57, "the piece that is there is a view: writing it changes the source")
{
    struct rh_tensor *x = six(0);
    struct rh_tensor *out[3];
    scatter(x, DEVICES(0, 1, 2), NULL, 0, out);
    CHECK_OK(rh_tensor_write(out[0], VALUES(9, 9), 8));
    CHECK_VALUES(x, 9, 9, 3, 4, 5, 6);
}

CASE(C58, "a source on cuda:1: its own piece is the view")
{
    struct rh_tensor *x = six(1);
    struct rh_tensor *out[2];
    scatter(x, DEVICES(0, 1), NULL, 0, out);
    CHECK_OK(rh_tensor_write(out[1], VALUES(7, 8, 9), 12));
    CHECK_VALUES(x, 1, 2, 3, 7, 8, 9);
    CHECK_OK(rh_tensor_write(out[0], VALUES(0, 0, 0), 12));
    CHECK_VALUES(x, 1, 2, 3, 7, 8, 9);
}

CASE(C59, "a scalar cannot be cut")
{
    CHECK_REFUSED(try_scatter(case_tensor(0, SCALAR, VALUES(5)), 2, NULL, 0), "a scalar");
}

CASE(C60, "dimension 2 of a matrix: out of range [-2, 1]")
{
    struct rh_tensor *x = case_counting(0, DIMS(2, 3));
    CHECK_REFUSED(try_scatter(x, 2, NULL, 2), "dimension 2 is out of range [-2, 1]");
    CHECK_REFUSED(try_scatter(x, 2, NULL, -3), "dimension -3 is out of range [-2, 1]");
}

CASE(C61, "into given tensors of 2 and 4 elements")
{
    struct rh_tensor *out[2] = {case_tensor(0, DIMS(2), NULL), case_tensor(1, DIMS(4), NULL)};
    struct rh_tensor *x = six(0);
    CHECK_OK(rh_scatter_into(x, out, 2, 0, NULL));
    CHECK_VALUES(out[0], 1, 2);
    CHECK_VALUES(out[1], 3, 4, 5, 6);
    CHECK_OK(rh_tensor_write(out[0], VALUES(9, 9), 8)); /* a copy also where it is in place */
    CHECK_VALUES(x, 1, 2, 3, 4, 5, 6);
}

CASE(C62, "given tensors that do not add up")
{
    struct rh_tensor *out[2] = {case_tensor(0, DIMS(2), NULL), case_tensor(1, DIMS(3), NULL)};
    CHECK_REFUSED(rh_scatter_into(six(0), out, 2, 0, NULL),
                  "the outputs add up to 5, the dimension is 6");
}

CASE(C63, "no output; no device (outputs and devices, or sizes, cannot be said together)")
{
    CHECK_REFUSED(rh_scatter_into(six(0), NULL, 0, 0, NULL), "no output");
    CHECK_REFUSED(try_scatter(six(0), 0, NULL, 0), "no device");
}

CASE(C64, "a given tensor on the host: wrong place, with its index")
{
    struct rh_tensor *out[2] = {case_tensor(RH_HOST, DIMS(2), NULL), case_tensor(1, DIMS(4), NULL)};
    CHECK_REFUSED(rh_scatter_into(six(0), out, 2, 0, NULL), "output 0 is on the host");
}

CASE(C67, "two of three pieces move: 16 bytes")
{
    struct rh_tensor *out[3];
    scatter(six(0), DEVICES(0, 1, 2), NULL, 0, out);
    CHECK(case_traffic().copies == 2 && case_traffic().copy_bytes == 16);
}

CASE(C68, "from the host to one device twice: two copies")
{
    struct rh_tensor *x = six(RH_HOST);
    struct rh_tensor *out[2];
    CHECK(scatter(x, DEVICES(0, 0), NULL, 0, out) == 2);
    CHECK_OK(rh_tensor_write(out[0], VALUES(9, 9, 9), 12));
    CHECK_VALUES(x, 1, 2, 3, 4, 5, 6);
    CHECK_VALUES(out[1], 4, 5, 6);
    CHECK(case_traffic().copies == 2);
}

CASE(C69, "a transposed matrix: right values, and the piece that moves is dense")
{
    struct rh_tensor *matrix = case_counting(0, DIMS(2, 4));
    struct rh_tensor *view = NULL;
    struct rh_tensor *out[2];
    CHECK_OK(rh_tensor_view(matrix, 2, (const int64_t[]){4, 2}, (const int64_t[]){1, 4}, 0, &view));
    CHECK(scatter(case_keep(view), DEVICES(0, 1), NULL, 0, out) == 2);
    CHECK_VALUES(out[0], 1, 5, 2, 6);
    CHECK_VALUES(out[1], 3, 7, 4, 8);
    CHECK(!case_is_dense(out[0]) && case_is_dense(out[1]));
}
