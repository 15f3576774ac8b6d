/* C1 … C17: broadcast. */
#include "cases/cases.h"

static struct rh_tensor *one_two_three(int device)
{
    return case_tensor(device, DIMS(3), VALUES(1, 2, 3));
}

CASE(C1, "[1, 2, 3] to three GPUs: all of it everywhere; the first is the source itself")
{
    struct rh_tensor *x = one_two_three(0);
    struct rh_tensor *out[3];
    CHECK_OK(rh_broadcast(x, DEVICES(0, 1, 2), out, NULL));
    case_keep_all(out, 3);
    CHECK(rh_tensor_same(out[0], x));
    for (int i = 0; i < 3; i++) {
        CHECK(rh_tensor_device(out[i]) == i);
        CHECK_VALUES(out[i], 1, 2, 3);
    }
}

CASE(C2, "from the host: a copy for each GPU, 12 bytes each")
{
    struct rh_tensor *x = one_two_three(RH_HOST);
    struct rh_tensor *out[2];
    CHECK_OK(rh_broadcast(x, DEVICES(0, 1), out, NULL));
    case_keep_all(out, 2);
    for (int i = 0; i < 2; i++) {
        CHECK(!rh_tensor_same(out[i], x));
        CHECK_VALUES(out[i], 1, 2, 3);
    }
    CHECK(case_traffic().copies == 2 && case_traffic().copy_bytes == 24);
}

CASE(C3, "a source that is not in the list is not in the result")
{
    struct rh_tensor *x = one_two_three(2);
    struct rh_tensor *out[2];
    CHECK_OK(rh_broadcast(x, DEVICES(0, 1), out, NULL));
    case_keep_all(out, 2);
    for (int i = 0; i < 2; i++) {
        CHECK(rh_tensor_device(out[i]) == i);
        CHECK_VALUES(out[i], 1, 2, 3);
    }
}

CASE(C4, "results in the order of the list")
{
    struct rh_tensor *x = one_two_three(0);
    struct rh_tensor *out[2];
    CHECK_OK(rh_broadcast(x, DEVICES(1, 0), out, NULL));
    case_keep_all(out, 2);
    CHECK(rh_tensor_device(out[0]) == 1 && !rh_tensor_same(out[0], x));
    CHECK(rh_tensor_same(out[1], x));
}

CASE(C5, "the source's device listed twice: the source twice")
{
    struct rh_tensor *x = one_two_three(0);
    struct rh_tensor *out[2];
    CHECK_OK(rh_broadcast(x, DEVICES(0, 0), out, NULL));
    case_keep_all(out, 2);
    CHECK(rh_tensor_same(out[0], x) && rh_tensor_same(out[1], x));
}

CASE(C6, "another device listed twice: two copies, each with memory of its own")
{
    struct rh_tensor *x = one_two_three(0);
    struct rh_tensor *out[2];
    CHECK_OK(rh_broadcast(x, DEVICES(1, 1), out, NULL));
    case_keep_all(out, 2);
    CHECK(!rh_tensor_same(out[0], out[1]));
    CHECK_OK(rh_tensor_write(out[0], VALUES(0, 0, 0), 12));
    CHECK_VALUES(out[1], 1, 2, 3);
}

CASE(C7, "a scalar")
{
    struct rh_tensor *x = case_tensor(0, SCALAR, VALUES(5));
    struct rh_tensor *out[2];
    CHECK_OK(rh_broadcast(x, DEVICES(0, 1), out, NULL));
    case_keep_all(out, 2);
    CHECK(rh_tensor_rank(out[0]) == 0 && rh_tensor_rank(out[1]) == 0);
    CHECK_VALUES(out[0], 5);
    CHECK_VALUES(out[1], 5);
}

CASE(C8, "zero size keeps its shape")
{
    struct rh_tensor *x = case_tensor(0, DIMS(0, 3), NULL);
    struct rh_tensor *out[2];
    CHECK_OK(rh_broadcast(x, DEVICES(0, 1), out, NULL));
    case_keep_all(out, 2);
    CHECK_SHAPE(out[0], 0, 3);
    CHECK_SHAPE(out[1], 0, 3);
}

CASE(C9, "a transposed view arrives contiguous")
{
    struct rh_tensor *matrix = case_counting(0, DIMS(2, 3));
    struct rh_tensor *view = NULL;
    struct rh_tensor *out[2];
    CHECK_OK(rh_tensor_view(matrix, 2, (const int64_t[]){3, 2}, (const int64_t[]){1, 3}, 0, &view));
    CHECK_OK(rh_broadcast(case_keep(view), DEVICES(0, 1), out, NULL));
    case_keep_all(out, 2);
    CHECK_SHAPE(out[1], 3, 2);
    CHECK_VALUES(out[1], 1, 4, 2, 5, 3, 6);
    CHECK(case_is_dense(out[1]) && !case_is_dense(out[0]));
}

DOES_NOT_APPLY(C10, "neither devices nor outputs; both: argument conflict",
               "two functions, `rh_broadcast` and `rh_broadcast_into`: there is no call that says "
               "both or neither")

CASE(C11, "into given tensors, the source's device among them: filled, by copies")
{
    struct rh_tensor *x = one_two_three(0);
    struct rh_tensor *out[2] = {case_tensor(0, DIMS(3), NULL), case_tensor(1, DIMS(3), NULL)};
    CHECK_OK(rh_broadcast_into(x, out, 2, NULL));
    CHECK_VALUES(out[0], 1, 2, 3);
    CHECK_VALUES(out[1], 1, 2, 3);
    CHECK(!rh_tensor_same(out[0], x));
    CHECK(case_traffic().collectives == 0 && case_traffic().copy_bytes == 12);
}

CASE(C12, "a given tensor on the host: wrong place, with its index")
{
    struct rh_tensor *x = one_two_three(0);
    struct rh_tensor *out[2] = {case_tensor(1, DIMS(3), NULL), case_tensor(RH_HOST, DIMS(3), NULL)};
    CHECK_REFUSED(rh_broadcast_into(x, out, 2, NULL), "output 1 is on the host");
    CHECK_VALUES(out[0], 0, 0, 0);
}

DIFFERS(C13, "another element type is converted where copies are used, and fails with NCCL",
        "broadcast into tensors of another type is refused")
CASE(C13, "a given tensor of another shape: wrong shape, with its index")
{
    struct rh_tensor *x = one_two_three(0);
    struct rh_tensor *out[2] = {case_tensor(1, DIMS(3), NULL), case_tensor(2, DIMS(1, 3), NULL)};
    CHECK_REFUSED(rh_broadcast_into(x, out, 2, NULL), "output 1 has shape (1, 3), expected (3)");
    out[1] = case_integers(2, 3, (const int64_t[]){0, 0, 0});
    CHECK_REFUSED(rh_broadcast_into(x, out, 2, NULL), "output 1 is int64, the source fp32");
}

DIFFERS(C14,
        "negative devices are refused, but a host tensor scattered to -1 gives a view of itself",
        "refused everywhere, but for the host as destination of `to`, `copy` and gather")
CASE(C14, "to device -1: refused")
{
    struct rh_tensor *out[1];
    int pieces = 0;
    CHECK_REFUSED(rh_scatter(one_two_three(RH_HOST), DEVICES(-1), NULL, 0, out, &pieces, NULL),
                  "device -1");
    CHECK_REFUSED(rh_broadcast(one_two_three(0), DEVICES(-1), out, NULL), "device -1");
    CHECK_REFUSED(rh_broadcast(one_two_three(0), DEVICES(-2), out, NULL), "device -2");
    CHECK(out[0] == NULL);
}

CASE(C15, "to no device: no result, no error")
{
    CHECK_OK(rh_broadcast(one_two_three(0), NULL, 0, NULL, NULL));
    CHECK_OK(rh_broadcast_into(one_two_three(0), NULL, 0, NULL));
    CHECK(case_traffic().copies == 0);
}

DOES_NOT_APPLY(C16, "a complex tensor becomes its real view",
               "there are no complex tensors; a (…, 2) tensor is what PyTorch makes of them")

CASE(C17, "4000 bytes to three others: a broadcast of 4000, or three copies of 4000")
{
    struct rh_tensor *x = case_counting(0, DIMS(1000));
    struct rh_tensor *out[4];
    CHECK_OK(rh_broadcast(x, DEVICES(0, 1, 2, 3), out, NULL));
    case_keep_all(out, 4);
    CHECK(case_traffic().collectives == 1 && case_traffic().collective_bytes == 4000);
    CHECK(case_traffic().copies == 0);
    /* two on one device: no collective */
    CHECK_OK(rh_broadcast(x, DEVICES(1, 1, 2), out, NULL));
    case_keep_all(out, 3);
    CHECK(case_traffic().collectives == 0 && case_traffic().copies == 3);
    CHECK(case_traffic().copy_bytes == 12000);
}
