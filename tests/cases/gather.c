/* C70 … C86: gather. */
#include "cases/cases.h"

static struct rh_tensor *gather(struct rh_tensor *const *in, int count, int dim, int destination)
{
    struct rh_tensor *out = NULL;
    CHECK_OK(rh_gather(in, count, dim, destination, &out, NULL));
    return case_keep(out);
}

static void three(struct rh_tensor *in[3], int rank, const int64_t *dims)
{
    for (int i = 0; i < 3; i++)
        in[i] = case_tensor(i, rank, dims,
                            VALUES((float)(3 * i + 1), (float)(3 * i + 2), (float)(3 * i + 3)));
}

CASE(C70, "three vectors of 3: one of 9, never a matrix")
{
    struct rh_tensor *in[3];
    three(in, DIMS(3));
    struct rh_tensor *all = gather(in, 3, 0, 0);
    CHECK_SHAPE(all, 9);
    CHECK_VALUES(all, 1, 2, 3, 4, 5, 6, 7, 8, 9);
}

CASE(C71, "three rows of shape (1, 3): a (3, 3)")
{
    struct rh_tensor *in[3];
    three(in, DIMS(1, 3));
    struct rh_tensor *all = gather(in, 3, 0, 0);
    CHECK_SHAPE(all, 3, 3);
    CHECK_VALUES(all, 1, 2, 3, 4, 5, 6, 7, 8, 9);
}

CASE(C72, "three columns, along dimension 1 and -1")
{
    struct rh_tensor *in[3];
    for (int i = 0; i < 3; i++)
        in[i] = case_tensor(i, DIMS(2, 1), VALUES((float)(i + 1), (float)(i + 4)));
    for (int dim = -1; dim <= 1; dim += 2) {
        struct rh_tensor *all = gather(in, 3, dim, 0);
        CHECK_SHAPE(all, 2, 3);
        CHECK_VALUES(all, 1, 2, 3, 4, 5, 6);
    }
}

CASE(C73, "pieces of different sizes")
{
    struct rh_tensor *in[2] = {case_counting(0, DIMS(1, 2)), case_counting(1, DIMS(3, 2))};
    struct rh_tensor *all = gather(in, 2, 0, 0);
    CHECK_SHAPE(all, 4, 2);
    CHECK_VALUES(all, 1, 2, 1, 2, 3, 4, 5, 6);
}

CASE(C74, "to the host: there when the call returns")
{
    struct rh_tensor *in[3];
    three(in, DIMS(3));
    struct rh_tensor *all = gather(in, 3, 0, RH_HOST);
    CHECK(rh_tensor_device(all) == RH_HOST);
    CHECK_VALUES(all, 1, 2, 3, 4, 5, 6, 7, 8, 9);
}

CASE(C75, "to a device that holds no input")
{
    struct rh_tensor *in[3];
    three(in, DIMS(3));
    struct rh_tensor *all = gather(in, 2, 0, 2);
    CHECK(rh_tensor_device(all) == 2);
    CHECK_VALUES(all, 1, 2, 3, 4, 5, 6);
}

DOES_NOT_APPLY(C76, "no destination: the current device",
               "every call names its devices, there is no current one")

CASE(C77, "into a given tensor: filled, on a GPU or the host; of another shape: refused")
{
    struct rh_tensor *in[3];
    struct rh_tensor *out = case_tensor(2, DIMS(6), NULL);
    struct rh_tensor *host = case_tensor(RH_HOST, DIMS(6), NULL);
    three(in, DIMS(3));
    CHECK_OK(rh_gather_into(in, 2, 0, out, NULL));
    CHECK_VALUES(out, 1, 2, 3, 4, 5, 6);
    CHECK_OK(rh_gather_into(in, 2, 0, host, NULL));
    CHECK_VALUES(host, 1, 2, 3, 4, 5, 6);
    CHECK_REFUSED(rh_gather_into(in, 3, 0, out, NULL), "shape (6), expected (9)");
}

CASE(C78, "an input on the host: wrong place, with its index")
{
    struct rh_tensor *in[2] = {case_tensor(RH_HOST, DIMS(3), NULL), case_tensor(1, DIMS(3), NULL)};
    struct rh_tensor *out = NULL;
    CHECK_REFUSED(rh_gather(in, 2, 0, 0, &out, NULL), "input 0 is on the host");
}

CASE(C79, "two scalars: no dimension to join along")
{
    struct rh_tensor *in[2] = {case_tensor(0, SCALAR, VALUES(1)),
                               case_tensor(1, SCALAR, VALUES(2))};
    struct rh_tensor *out = NULL;
    CHECK_REFUSED(rh_gather(in, 2, 0, 0, &out, NULL), "dimension 0 is out of range");
}

CASE(C80, "(2, 5) and (2, 4) along 0: invalid shape, with the index")
{
    struct rh_tensor *in[2] = {case_counting(0, DIMS(2, 5)), case_counting(1, DIMS(2, 4))};
    struct rh_tensor *out = NULL;
    CHECK_REFUSED(rh_gather(in, 2, 0, 0, &out, NULL), "input 1 has shape (2, 4), expected (2, 5)");
    CHECK_OK(rh_gather(in, 2, 1, 0, &out, NULL));
    CHECK_SHAPE(case_keep(out), 2, 9);
}

CASE(C81, "(2, 5) and (1, 2, 5): different number of dimensions, with the index")
{
    struct rh_tensor *in[2] = {case_counting(0, DIMS(2, 5)), case_counting(1, DIMS(1, 2, 5))};
    struct rh_tensor *out = NULL;
    CHECK_REFUSED(rh_gather(in, 2, 0, 0, &out, NULL), "input 1 has 3 dimensions, expected 2");
}

CASE(C82, "fp32 and int64: the first one's type")
{
    struct rh_tensor *in[2] = {case_tensor(0, DIMS(1), VALUES(1.5f)),
                               case_integers(1, 1, (const int64_t[]){2})};
    struct rh_tensor *all = gather(in, 2, 0, 0);
    CHECK(rh_tensor_dtype(all) == RH_FLOAT32);
    CHECK_VALUES(all, 1.5f, 2);
}

CASE(C83, "an empty input contributes nothing")
{
    struct rh_tensor *in[2] = {case_tensor(0, DIMS(0, 3), NULL), case_counting(1, DIMS(2, 3))};
    struct rh_tensor *all = gather(in, 2, 0, 0);
    CHECK_SHAPE(all, 2, 3);
    CHECK_VALUES(all, 1, 2, 3, 4, 5, 6);
}

CASE(C84, "one tensor that is there already: a copy")
{
    struct rh_tensor *x = case_counting(0, DIMS(3));
    struct rh_tensor *all = gather(&x, 1, 0, 0);
    CHECK(!rh_tensor_same(all, x));
    CHECK_OK(rh_tensor_write(all, VALUES(9, 9, 9), 12));
    CHECK_VALUES(x, 1, 2, 3);
}

CASE(C85, "gather of scatter gives the tensor back: 1 to 17 rows, 1 to 5 devices")
{
    static const int devices[5] = {0, 1, 2, 3, 4};
    for (int64_t rows = 1; rows <= 17; rows++)
        for (int count = 1; count <= 5; count++) {
            struct rh_tensor *x = case_counting(0, DIMS(rows, 2));
            struct rh_tensor *pieces[5];
            struct rh_tensor *all = NULL;
            float values[2][34];
            int got = 0;
            CHECK_OK(rh_scatter(x, devices, count, NULL, 0, pieces, &got, NULL));
            enum rh_status status = rh_gather(pieces, got, 0, 0, &all, NULL);
            for (int i = 0; i < got; i++)
                rh_tensor_free(pieces[i]);
            CHECK_OK(status);
            size_t bytes = rh_tensor_bytes(x);
            CHECK(rh_tensor_bytes(all) == bytes);
            CHECK_OK(rh_tensor_read(x, values[0], bytes));
            CHECK_OK(rh_tensor_read(all, values[1], bytes));
            CHECK(memcmp(values[0], values[1], bytes) == 0);
            rh_tensor_free(all);
        }
}

CASE(C86, "nothing to gather")
{
    struct rh_tensor *out = NULL;
    CHECK_REFUSED(rh_gather(NULL, 0, 0, 0, &out, NULL), "no input");
}
