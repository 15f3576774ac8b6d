/* C33 … C45: reduce_add. */
#include "cases/cases.h"

static void three(struct rh_tensor *in[3])
{
    for (int i = 0; i < 3; i++)
        in[i] = case_tensor(i, DIMS(3), VALUES(1, 2, 3));
}

static void sum_on(int destination)
{
    struct rh_tensor *in[3];
    struct rh_tensor *sum = NULL;
    three(in);
    CHECK_OK(rh_reduce_add(in, 3, destination, &sum, NULL));
    CHECK_VALUES(case_keep(sum), 3, 6, 9);
    CHECK(rh_tensor_device(sum) == destination);
    for (int i = 0; i < 3; i++) {
        CHECK(!rh_tensor_same(sum, in[i]));
        CHECK_VALUES(in[i], 1, 2, 3);
    }
}

CASE(C33, "three [1, 2, 3]: [3, 6, 9] on the destination, new memory, inputs unchanged")
{
    sum_on(0);
}

CASE(C34, "the destination is any that holds an input")
{
    sum_on(1);
    sum_on(2);
}

DOES_NOT_APPLY(C35, "no destination: the current device",
               "every call names its devices, there is no current one")

CASE(C36, "a destination that holds no input")
{
    struct rh_tensor *in[3];
    struct rh_tensor *sum = NULL;
    three(in);
    CHECK_REFUSED(rh_reduce_add(in + 1, 2, 0, &sum, NULL),
                  "destination 0 holds none of the 2 inputs");
}

CASE(C37, "an input on the host: wrong place, with its index")
{
    struct rh_tensor *in[2] = {case_tensor(0, DIMS(3), NULL), case_tensor(RH_HOST, DIMS(3), NULL)};
    struct rh_tensor *sum = NULL;
    CHECK_REFUSED(rh_reduce_add(in, 2, 0, &sum, NULL), "input 1 is on the host");
}

CASE(C38, "(3) and (2): invalid size, with index, got and expected")
{
    struct rh_tensor *in[2] = {case_tensor(0, DIMS(3), NULL), case_tensor(1, DIMS(2), NULL)};
    struct rh_tensor *sum = NULL;
    CHECK_REFUSED(rh_reduce_add(in, 2, 0, &sum, NULL), "input 1 has shape (2), expected (3)");
}

CASE(C39, "one input on the destination: that very tensor")
{
    struct rh_tensor *x = case_tensor(1, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *sum = NULL;
    CHECK_OK(rh_reduce_add(&x, 1, 1, &sum, NULL));
    CHECK(rh_tensor_same(case_keep(sum), x));
}

CASE(C40, "one input elsewhere: destination holds no input")
{
    struct rh_tensor *x = case_tensor(1, DIMS(3), NULL);
    struct rh_tensor *sum = NULL;
    CHECK_REFUSED(rh_reduce_add(&x, 1, 0, &sum, NULL), "destination 0 holds none of the 1 inputs");
}

CASE(C41, "two inputs on one device")
{
    struct rh_tensor *in[2] = {case_tensor(0, DIMS(2), VALUES(1, 2)),
                               case_tensor(0, DIMS(2), VALUES(3, 4))};
    struct rh_tensor *sum = NULL;
    CHECK_OK(rh_reduce_add(in, 2, 0, &sum, NULL));
    CHECK_VALUES(case_keep(sum), 4, 6);
    CHECK(case_traffic().collectives == 0 && case_traffic().copies == 0);
}

CASE(C42, "the root first, then list order: 1e8 + 1 - 1e8 is 0 on device 0, 1 on device 2")
{
    struct rh_tensor *in[3] = {case_tensor(0, DIMS(1), VALUES(1e8f)),
                               case_tensor(1, DIMS(1), VALUES(1)),
                               case_tensor(2, DIMS(1), VALUES(-1e8f))};
    struct rh_tensor *sum = NULL;
    CHECK_OK(rh_reduce_add(in, 3, 0, &sum, NULL));
    CHECK_VALUES(case_keep(sum), 0);
    CHECK_OK(rh_reduce_add(in, 3, 2, &sum, NULL));
    CHECK_VALUES(case_keep(sum), 1);
}

CASE(C43, "zero size")
{
    struct rh_tensor *in[2] = {case_tensor(0, DIMS(0), NULL), case_tensor(1, DIMS(0), NULL)};
    struct rh_tensor *sum = NULL;
    CHECK_OK(rh_reduce_add(in, 2, 0, &sum, NULL));
    CHECK_SHAPE(case_keep(sum), 0);
}

CASE(C44, "int64: 2^40 + 2^40 is 2^41")
{
    const int64_t large = INT64_C(1) << 40;
    struct rh_tensor *in[2] = {case_integers(0, 1, &large), case_integers(1, 1, &large)};
    struct rh_tensor *sum = NULL;
    int64_t got = 0;
    CHECK_OK(rh_reduce_add(in, 2, 0, &sum, NULL));
    CHECK_OK(rh_tensor_read(case_keep(sum), &got, sizeof got));
    CHECK(got == 2 * large && rh_tensor_dtype(sum) == RH_INT64);
}

CASE(C45, "the host is no destination")
{
    struct rh_tensor *in[3];
    struct rh_tensor *sum = NULL;
    three(in);
    CHECK_REFUSED(rh_reduce_add(in, 3, RH_HOST, &sum, NULL), "the host is not allowed here");
}
