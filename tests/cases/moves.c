/* T1 … T13: tensors that move. */
#include "cases/cases.h"

CASE(T1, "to the device where it is: the tensor itself")
{
    struct rh_tensor *x = case_tensor(0, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *same = NULL;
    double seconds = -1;
    CHECK_OK(rh_to(x, 0, &same, &seconds));
    CHECK(rh_tensor_same(case_keep(same), x));
    CHECK(seconds == 0 && case_traffic().copies == 0);
}

CASE(T2, "a forced copy: new memory, equal values")
{
    struct rh_tensor *x = case_tensor(0, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *copy = NULL;
    CHECK_OK(rh_copy(x, 0, RH_FLOAT32, &copy, NULL));
    CHECK(!rh_tensor_same(case_keep(copy), x));
    CHECK_VALUES(copy, 1, 2, 3);
    CHECK_OK(rh_tensor_write(copy, VALUES(9, 9, 9), 12));
    CHECK_VALUES(x, 1, 2, 3);
}

DOES_NOT_APPLY(T3, "`cuda()` goes to the current device",
               "every call names its devices, there is no current one")

/* [[1, 2, 3], [4, 5, 6]], read as (3, 2). */
static struct rh_tensor *transposed(int device)
{
    struct rh_tensor *matrix = case_counting(device, DIMS(2, 3));
    struct rh_tensor *view = NULL;
    CHECK_OK(rh_tensor_view(matrix, 2, (const int64_t[]){3, 2}, (const int64_t[]){1, 3}, 0, &view));
    return case_keep(view);
}

CASE(T4, "a transposed matrix keeps its strides")
{
    struct rh_tensor *there = NULL;
    CHECK_OK(rh_to(transposed(0), 1, &there, NULL));
    case_keep(there);
    CHECK(rh_tensor_device(there) == 1);
    CHECK_SHAPE(there, 3, 2);
    CHECK_VALUES(there, 1, 4, 2, 5, 3, 6);
    CHECK(rh_tensor_stride(there, 0) == 1 && rh_tensor_stride(there, 1) == 3);
}

CASE(T5, "every second column arrives dense")
{
    struct rh_tensor *matrix = case_counting(0, DIMS(2, 4));
    struct rh_tensor *columns = NULL;
    struct rh_tensor *there = NULL;
    CHECK_OK(
        rh_tensor_view(matrix, 2, (const int64_t[]){2, 2}, (const int64_t[]){4, 2}, 0, &columns));
    case_keep(columns);
    CHECK(!case_is_dense(columns));
    CHECK_OK(rh_to(columns, 1, &there, NULL));
    case_keep(there);
    CHECK_SHAPE(there, 2, 2);
    CHECK_VALUES(there, 1, 3, 5, 7);
    CHECK(case_is_dense(there));
}

CASE(T6, "fp32 to int64 on the way: towards zero")
{
    struct rh_tensor *x = case_tensor(0, DIMS(2), VALUES(1.5f, -2.7f));
    struct rh_tensor *whole = NULL;
    CHECK_OK(rh_copy(x, 1, RH_INT64, &whole, NULL));
    case_keep(whole);
    CHECK(rh_tensor_dtype(whole) == RH_INT64 && rh_tensor_device(whole) == 1);
    CHECK_VALUES(whole, 1, -2);
    CHECK(case_traffic().copy_bytes == 16);
}

CASE(T8, "1000 fp32 to another GPU: 4000 bytes, once")
{
    struct rh_tensor *x = case_counting(0, DIMS(1000));
    struct rh_tensor *there = NULL;
    CHECK_OK(rh_to(x, 1, &there, NULL));
    case_keep(there);
    struct rh_traffic traffic = case_traffic();
    CHECK(traffic.copies == 1 && traffic.copy_bytes == 4000);
    CHECK(traffic.collectives == 0 && traffic.collective_bytes == 0);
}

CASE(T13, "to device 8 of 8: no such device")
{
    struct rh_tensor *x = case_tensor(0, DIMS(1), VALUES(1));
    struct rh_tensor *there = NULL;
    CHECK_REFUSED(rh_to(x, 8, &there, NULL), "to: device 8; the cluster has devices 0 to 7");
    CHECK(there == NULL);
}
