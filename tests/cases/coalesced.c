/* C18 … C32: coalesced broadcast and reduce. */
#include "cases/cases.h"

#include "comm/comm.h"
#include "model/model.h"

enum { MOST = 200 };

/* Bytes of the flat pieces that tensors of such sizes travel in. */
static int piece_bytes(const int64_t *bytes, int count, double limit, enum comm_cut cut,
                       double *pieces, int *tensors)
{
    struct view views[MOST] = {0};
    struct comm_chunk chunks[MOST] = {0};
    for (int i = 0; i < count; i++)
        views[i].type = (struct tensor_type){DTYPE_F32, {1, {bytes[i] / 4}}};
    int made = comm_chunks(views, count, limit, cut, chunks);
    for (int i = 0; i < made; i++) {
        pieces[i] = 4.0 * (double)chunks[i].elements;
        tensors[i] = chunks[i].count;
    }
    return made;
}

static void check_pieces(const int64_t *bytes, int count, double limit, enum comm_cut cut,
                         const double *expected, const int *tensors)
{
    double pieces[MOST];
    int counts[MOST];
    int made = piece_bytes(bytes, count, limit, cut, pieces, counts);
    for (int i = 0; i < made; i++) {
        if (pieces[i] != expected[i])
            fprintf(stderr, "    piece %d: %.0f bytes, expected %.0f\n", i, pieces[i], expected[i]);
        CHECK(pieces[i] == expected[i]);
        CHECK(!tensors || counts[i] == tensors[i]);
    }
    CHECK(expected[made] == 0);
}
#define BYTES(...)                                                                                 \
    (const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define PIECES(...)                                                                                \
    (const double[])                                                                               \
    {                                                                                              \
        __VA_ARGS__, 0                                                                             \
    }

static struct rh_tensor *vector(int device, int64_t elements, const float *values)
{
    return case_tensor(device, 1, &elements, values);
}

static void broadcast(struct rh_tensor *const *tensors, int count, const int *devices,
                      int device_count, size_t limit, struct rh_tensor **out)
{
    CHECK_OK(rh_broadcast_coalesced(tensors, count, devices, device_count, limit, out, NULL));
    case_keep_all(out, count * device_count);
}

static void reduce_two(struct rh_tensor *const *a, struct rh_tensor *const *b, int count,
                       size_t limit, struct rh_tensor **out)
{
    struct rh_tensor *const *lists[2] = {a, b};
    CHECK_OK(rh_reduce_add_coalesced(lists, (const int[]){count, count}, 2, 0, limit, out, NULL));
    case_keep_all(out, count);
}

CASE(C18, "three small tensors: one piece of 24 bytes; on the first device the inputs themselves")
{
    struct rh_tensor *in[3] = {vector(0, 2, VALUES(1, 2)), vector(0, 1, VALUES(3)),
                               vector(0, 3, VALUES(4, 5, 6))};
    struct rh_tensor *out[6];
    broadcast(in, 3, DEVICES(0, 1), 0, out);
    CHECK(case_traffic().collectives == 1 && case_traffic().collective_bytes == 24);
    for (int i = 0; i < 3; i++) {
        CHECK(rh_tensor_same(out[i], in[i]));
        CHECK(rh_tensor_device(out[3 + i]) == 1);
    }
    CHECK_VALUES(out[3], 1, 2);
    CHECK_VALUES(out[4], 3);
    CHECK_VALUES(out[5], 4, 5, 6);
}

CASE(C19, "broadcast, limit 100: 40 + 40 + 40 bytes are one piece")
{
    struct rh_tensor *in[3];
    struct rh_tensor *out[6];
    check_pieces(BYTES(40, 40, 40), 100, COMM_APPEND_THEN_CLOSE, PIECES(120), NULL);
    for (int i = 0; i < 3; i++)
        in[i] = case_counting(0, DIMS(10));
    broadcast(in, 3, DEVICES(0, 1), 100, out);
    CHECK(case_traffic().collectives == 1 && case_traffic().collective_bytes == 120);
}

CASE(C20, "reduce, limit 100: pieces of 80 and 40")
{
    struct rh_tensor *a[3];
    struct rh_tensor *b[3];
    struct rh_tensor *out[3];
    check_pieces(BYTES(40, 40, 40), 100, COMM_CLOSE_BEFORE, PIECES(80, 40), NULL);
    for (int i = 0; i < 3; i++) {
        a[i] = case_counting(0, DIMS(10));
        b[i] = case_counting(1, DIMS(10));
    }
    reduce_two(a, b, 3, 100, out);
    CHECK(case_traffic().collectives == 2 && case_traffic().collective_bytes == 120);
    CHECK_VALUES(out[2], 2, 4, 6, 8, 10, 12, 14, 16, 18, 20);
}

CASE(C21, "40, 80, 40 bytes, limit 80: broadcast 120 + 40, reduce 40 + 80 + 40")
{
    check_pieces(BYTES(40, 80, 40), 80, COMM_APPEND_THEN_CLOSE, PIECES(120, 40), NULL);
    check_pieces(BYTES(40, 80, 40), 80, COMM_CLOSE_BEFORE, PIECES(40, 80, 40), NULL);
}

CASE(C22, "two types: a piece each, results in the order of the inputs")
{
    struct rh_tensor *in[3] = {vector(0, 2, VALUES(1, 2)),
                               case_integers(0, 2, (const int64_t[]){3, 4}),
                               vector(0, 1, VALUES(5))};
    struct rh_tensor *out[6];
    broadcast(in, 3, DEVICES(0, 1), 0, out);
    CHECK(case_traffic().collectives == 2 && case_traffic().collective_bytes == 28);
    CHECK_VALUES(out[3], 1, 2);
    CHECK_VALUES(out[4], 3, 4);
    CHECK_VALUES(out[5], 5);
    CHECK(rh_tensor_dtype(out[4]) == RH_INT64 && rh_tensor_dtype(out[5]) == RH_FLOAT32);
}

CASE(C23, "a tensor that is not on the first device: wrong place")
{
    struct rh_tensor *in[2] = {vector(0, 1, NULL), vector(1, 1, NULL)};
    struct rh_tensor *out[4];
    CHECK_REFUSED(rh_broadcast_coalesced(in, 2, DEVICES(0, 1), 0, out, NULL),
                  "tensor 1 is on device 1, not on 0");
}

CASE(C24, "tensors on the host: wrong place")
{
    struct rh_tensor *in[1] = {vector(RH_HOST, 1, NULL)};
    struct rh_tensor *out[2];
    CHECK_REFUSED(rh_broadcast_coalesced(in, 1, DEVICES(0, 1), 0, out, NULL),
                  "tensor 0 is on device -1, not on 0");
}

DIFFERS(C25, "a zero-size tensor comes back as (0), its shape is lost", "its shape is kept")
CASE(C25, "a zero-size tensor keeps its shape")
{
    struct rh_tensor *in[2] = {case_tensor(0, DIMS(0, 3), NULL), vector(0, 2, VALUES(1, 2))};
    struct rh_tensor *out[4];
    broadcast(in, 2, DEVICES(0, 1), 0, out);
    CHECK_SHAPE(out[0], 0, 3);
    CHECK_SHAPE(out[2], 0, 3);
    CHECK(rh_tensor_device(out[2]) == 1);
    CHECK_VALUES(out[3], 1, 2);
}

CASE(C26, "a tensor above the limit is a piece of its own, sent as it lies")
{
    struct rh_tensor *x = case_tensor(0, DIMS(3 * 1048576), NULL);
    struct rh_tensor *out[2];
    broadcast(&x, 1, DEVICES(0, 1), 0, out);
    CHECK(case_traffic().collectives == 1);
    CHECK(case_traffic().collective_bytes == 12.0 * 1048576);
    CHECK(rh_tensor_same(out[0], x) && !rh_tensor_same(out[1], x));
}

static int resnet50_bytes(int64_t bytes[MOST])
{
    struct model *model = NULL;
    cJSON *json = cJSON_CreateString("resnet50");
    enum rh_status status = model_from_json(json, "resnet50", &model);
    cJSON_Delete(json);
    CHECK_OK(status);
    int count = model->parameter_count;
    for (int i = 0; i < count && i < MOST; i++)
        bytes[i] = 4 * shape_elements(&model->parameters[i].shape);
    model_free(model);
    return count;
}

CASE(C27, "ResNet-50's 161 parameters, broadcast: 9 pieces")
{
    int64_t bytes[MOST];
    int count = resnet50_bytes(bytes);
    CHECK(count == 161);
    check_pieces(bytes, count, 10 * 1048576.0, COMM_APPEND_THEN_CLOSE,
                 PIECES(11821312, 12355584, 12093440, 13639680, 12615680, 13639680, 13651968,
                        12406784, 4000),
                 (const int[]){82, 24, 24, 6, 6, 6, 6, 6, 1});
}

CASE(C28, "ResNet-50's 161 parameters, reduce: 13 pieces")
{
    int64_t bytes[MOST];
    int count = resnet50_bytes(bytes);
    check_pieces(bytes, count, 10 * 1048576.0, COMM_CLOSE_BEFORE,
                 PIECES(9724160, 9986048, 9994240, 6569984, 9441280, 4210688, 8404992, 4198400,
                        9441280, 8409088, 9441280, 4210688, 8196000),
                 NULL);
}

DIFFERS(C29,
        "a device listed twice gets an alias of the first one's tensors, or of its flat buffer",
        "each entry but the first has memory of its own")
CASE(C29, "results of one piece are tensors of their own: writing one leaves its neighbours")
{
    struct rh_tensor *in[3] = {vector(0, 2, VALUES(1, 2)), vector(0, 1, VALUES(3)),
                               vector(0, 3, VALUES(4, 5, 6))};
    struct rh_tensor *out[6];
    broadcast(in, 3, DEVICES(0, 1), 0, out);
    CHECK_OK(rh_tensor_write(out[4], VALUES(0), 4));
    CHECK_VALUES(out[3], 1, 2);
    CHECK_VALUES(out[4], 0);
    CHECK_VALUES(out[5], 4, 5, 6);
    CHECK_VALUES(in[1], 3);
    broadcast(in, 3, DEVICES(0, 0), 0, out);
    CHECK(!rh_tensor_same(out[4], in[1]));
    CHECK_OK(rh_tensor_write(out[4], VALUES(0), 4));
    CHECK_VALUES(in[1], 3);
}

CASE(C30, "([1, 2], [3]) and ([10, 20], [30]): [11, 22] and [33]")
{
    struct rh_tensor *a[2] = {vector(0, 2, VALUES(1, 2)), vector(0, 1, VALUES(3))};
    struct rh_tensor *b[2] = {vector(1, 2, VALUES(10, 20)), vector(1, 1, VALUES(30))};
    struct rh_tensor *out[2];
    reduce_two(a, b, 2, 0, out);
    CHECK_VALUES(out[0], 11, 22);
    CHECK_VALUES(out[1], 33);
    CHECK(rh_tensor_device(out[0]) == 0);
    CHECK_VALUES(a[0], 1, 2);
    struct rh_tensor *const *lists[2] = {a, b};
    CHECK_OK(rh_reduce_add_coalesced(lists, (const int[]){2, 2}, 2, 1, 0, out, NULL));
    case_keep_all(out, 2);
    CHECK_VALUES(out[0], 11, 22);
    CHECK(rh_tensor_device(out[0]) == 1);
    CHECK_REFUSED(rh_reduce_add_coalesced(lists, (const int[]){2, 2}, 2, 2, 0, out, NULL),
                  "destination 2 holds none of the 2 lists");
}

CASE(C31, "types and order are kept")
{
    struct rh_tensor *lists[2][3];
    struct rh_tensor *out[3];
    for (int d = 0; d < 2; d++) {
        lists[d][0] = vector(d, 1, VALUES(1));
        lists[d][1] = case_integers(d, 1, (const int64_t[]){2});
        lists[d][2] = vector(d, 1, VALUES(3));
    }
    reduce_two(lists[0], lists[1], 3, 0, out);
    CHECK_VALUES(out[0], 2);
    CHECK_VALUES(out[1], 4);
    CHECK_VALUES(out[2], 6);
    CHECK(rh_tensor_dtype(out[1]) == RH_INT64 && rh_tensor_dtype(out[2]) == RH_FLOAT32);
}

DIFFERS(C32, "tensors that only some devices bring are left out without a word", "refused")
CASE(C32, "lists of 3 and 2 tensors are refused")
{
    struct rh_tensor *a[3] = {vector(0, 1, NULL), vector(0, 1, NULL), vector(0, 1, NULL)};
    struct rh_tensor *b[2] = {vector(1, 1, NULL), vector(1, 1, NULL)};
    struct rh_tensor *const *lists[2] = {a, b};
    struct rh_tensor *out[3];
    CHECK_REFUSED(rh_reduce_add_coalesced(lists, (const int[]){3, 2}, 2, 0, 0, out, NULL),
                  "list 1 has 2 tensors, list 0 has 3");
}
