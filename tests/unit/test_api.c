/* The public API: torch.cuda.comm on tensors (the cases of PyTorch's behaviour that it can say),
 * models layer by layer, and an experiment. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rehearse.h"

enum { DEVICES = 4, MOST = 64 };

#ifdef __SANITIZE_ADDRESS__
/* A tensor that no memory holds must be refused by us, not by the sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}
#endif

static struct rh_cluster *open_cluster(void)
{
    struct rh_cluster *cluster = NULL;
    if (rh_cluster_open("dgx-1v", DEVICES, "reference", &cluster) != RH_OK)
        fprintf(stderr, "    %s\n", rh_error());
    CU_ASSERT_PTR_NOT_NULL_FATAL(cluster);
    return cluster;
}

static struct rh_tensor *tensor_of(struct rh_cluster *cluster, int device, int rank,
                                   const int64_t *dims, const float *values)
{
    struct rh_tensor *tensor = NULL;
    if (rh_tensor_new(cluster, device, RH_FLOAT32, rank, dims, &tensor) != RH_OK)
        fprintf(stderr, "    %s\n", rh_error());
    CU_ASSERT_PTR_NOT_NULL_FATAL(tensor);
    if (values)
        CU_ASSERT_EQUAL(rh_tensor_write(tensor, values, rh_tensor_bytes(tensor)), RH_OK);
    return tensor;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define VALUES(...)                                                                                \
    (const float[])                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void assert_values(const struct rh_tensor *tensor, const float *expected, int count)
{
    float values[MOST] = {0};
    CU_ASSERT_EQUAL_FATAL(rh_tensor_bytes(tensor), (size_t)count * sizeof *values);
    CU_ASSERT_EQUAL(rh_tensor_read(tensor, values, rh_tensor_bytes(tensor)), RH_OK);
    for (int i = 0; i < count; i++) {
        if (values[i] != expected[i])
            fprintf(stderr, "    element %d is %g, not %g\n", i, values[i], expected[i]);
        CU_ASSERT_EQUAL(values[i], expected[i]);
    }
}
#define ASSERT_VALUES(tensor, ...)                                                                 \
    assert_values(tensor, VALUES(__VA_ARGS__),                                                     \
                  (int)(sizeof((const float[]){__VA_ARGS__}) / sizeof(float)))

static void free_tensors(struct rh_tensor **tensors, int count)
{
    for (int i = 0; i < count; i++)
        rh_tensor_free(tensors[i]);
}

/* ---- clusters and tensors -------------------------------------------------------------------- */

static void test_open_errors(void)
{
    struct rh_cluster *cluster = NULL;
    CU_ASSERT_EQUAL(rh_cluster_open("dgx-1", 4, NULL, &cluster), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "dgx-1v");
    CU_ASSERT_PTR_NULL(cluster);
    CU_ASSERT_EQUAL(rh_cluster_open("dgx-1v-32gb", 4, "simgird", &cluster), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "did you mean 'simgrid'?");
    CU_ASSERT_EQUAL(rh_cluster_open("dgx-1v", 0, "reference", &cluster), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "0 are asked for");
    CU_ASSERT_EQUAL(
        rh_cluster_open("{\"node\":\"dgx-1v-32gb\",\"nodes\":1}", 9, "reference", &cluster),
        RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "9 devices are asked for; cluster 'dgx-1v-32gb' has 8");
    CU_ASSERT_EQUAL(rh_cluster_open("{\"node\":", 1, "reference", &cluster), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "is not JSON");
    CU_ASSERT_EQUAL(rh_cluster_open("dgx-1v", 12, "reference", &cluster), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "device 8 is on another node; a process has the 8 GPUs");
    rh_cluster_close(NULL);
    CU_ASSERT_TRUE(strlen(rh_version()) > 0);
}

static void test_tensor(void)
{
    struct rh_cluster *cluster = open_cluster();
    CU_ASSERT_EQUAL(rh_cluster_devices(cluster), DEVICES);
    struct rh_tensor *t = tensor_of(cluster, 1, DIMS(2, 3), NULL);
    ASSERT_VALUES(t, 0, 0, 0, 0, 0, 0);
    CU_ASSERT_EQUAL(rh_tensor_device(t), 1);
    CU_ASSERT_EQUAL(rh_tensor_dtype(t), RH_FLOAT32);
    CU_ASSERT_EQUAL(rh_tensor_rank(t), 2);
    CU_ASSERT_EQUAL(rh_tensor_dim(t, 1), 3);
    CU_ASSERT_EQUAL(rh_tensor_bytes(t), 24);
    float values[7] = {0};
    CU_ASSERT_EQUAL(rh_tensor_write(t, values, 28), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "28 bytes given; the tensor has 24");
    CU_ASSERT_EQUAL(rh_tensor_read(t, values, 4), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "4 bytes given; the tensor has 24");
    rh_tensor_free(t);
    rh_tensor_free(NULL);
    CU_ASSERT_EQUAL(rh_tensor_new(cluster, DEVICES, RH_FLOAT32, DIMS(1), &t), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "device 4; the cluster has devices 0 to 3");
    CU_ASSERT_PTR_NULL(t);
    CU_ASSERT_EQUAL(rh_tensor_new(cluster, -2, RH_FLOAT32, DIMS(1), &t), RH_INVALID);
    CU_ASSERT_EQUAL(rh_tensor_new(cluster, 0, RH_FLOAT32, DIMS(3, -1), &t), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "dimension 1 is -1");
    CU_ASSERT_EQUAL(rh_tensor_new(cluster, 0, RH_FLOAT32, DIMS(1, 1, 1, 1, 1, 1), &t), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "rank 6; at most 5");
    CU_ASSERT_EQUAL(
        rh_tensor_new(cluster, 0, RH_FLOAT32, DIMS(INT64_C(1) << 40, INT64_C(1) << 40), &t),
        RH_OUT_OF_MEMORY);
    rh_cluster_close(cluster);
}

/* T1, T8, T13 and the way through the host. */
static void test_to(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *t = tensor_of(cluster, 0, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *same = NULL;
    struct rh_tensor *there = NULL;
    struct rh_tensor *host = NULL;
    double seconds = -1;
    CU_ASSERT_EQUAL(rh_to(t, 0, &same, &seconds), RH_OK);
    CU_ASSERT_TRUE(rh_tensor_same(t, same));
    CU_ASSERT_EQUAL(seconds, 0);
    CU_ASSERT_EQUAL(rh_to(t, 3, &there, NULL), RH_OK);
    CU_ASSERT_FALSE(rh_tensor_same(t, there));
    CU_ASSERT_EQUAL(rh_tensor_device(there), 3);
    ASSERT_VALUES(there, 1, 2, 3);
    CU_ASSERT_EQUAL(rh_to(there, RH_HOST, &host, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_device(host), RH_HOST);
    ASSERT_VALUES(host, 1, 2, 3);
    /* the alias outlives the tensor */
    rh_tensor_free(t);
    ASSERT_VALUES(same, 1, 2, 3);
    rh_tensor_free(same);
    rh_tensor_free(host);
    CU_ASSERT_EQUAL(rh_to(there, 8, &same, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "device 8; the cluster has devices 0 to 3");
    CU_ASSERT_PTR_NULL(same);
    rh_tensor_free(there);
    rh_cluster_close(cluster);
}

/* Windows lie in the memory of their tensor, or are refused. */
static void test_view(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *t = tensor_of(cluster, 0, DIMS(2, 3), VALUES(1, 2, 3, 4, 5, 6));
    struct rh_tensor *column = NULL;
    struct rh_tensor *view = NULL;
    const int64_t two[1] = {2};
    const int64_t three[1] = {3};
    const int64_t huge[1] = {INT64_MAX};
    CU_ASSERT_EQUAL_FATAL(rh_tensor_view(t, 1, two, three, 1, &column), RH_OK);
    ASSERT_VALUES(column, 2, 5);
    CU_ASSERT_EQUAL(rh_tensor_stride(column, 0), 3);
    CU_ASSERT_EQUAL(rh_tensor_stride(column, 1), 0);
    CU_ASSERT_EQUAL(rh_tensor_write(column, VALUES(8, 9), 8), RH_OK);
    ASSERT_VALUES(t, 1, 8, 3, 4, 9, 6);
    CU_ASSERT_EQUAL(rh_tensor_view(column, 0, NULL, NULL, 3, &view), RH_OK);
    ASSERT_VALUES(view, 9);
    rh_tensor_free(view);
    CU_ASSERT_EQUAL(rh_tensor_view(t, 1, (const int64_t[]){0}, three, 99, &view), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_bytes(view), 0);
    rh_tensor_free(view);
    CU_ASSERT_EQUAL(rh_tensor_view(t, 1, two, three, 3, &view), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "from element 3 it leaves the memory of 6 elements");
    CU_ASSERT_PTR_NULL(view);
    CU_ASSERT_EQUAL(rh_tensor_view(t, 1, two, three, -1, &view), RH_INVALID);
    CU_ASSERT_EQUAL(rh_tensor_view(column, 1, two, three, 3, &view), RH_INVALID);
    CU_ASSERT_EQUAL(rh_tensor_view(t, 1, two, huge, 0, &view), RH_INVALID);
    CU_ASSERT_EQUAL(rh_tensor_view(t, 1, huge, two, 0, &view), RH_INVALID);
    CU_ASSERT_EQUAL(rh_tensor_view(t, 1, two, two, INT64_MAX, &view), RH_INVALID);
    CU_ASSERT_EQUAL(rh_tensor_view(t, 1, two, (const int64_t[]){-1}, 1, &view), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "dimension 0 is 2 with stride -1");
    CU_ASSERT_EQUAL(rh_tensor_view(t, 6, two, two, 0, &view), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "rank 6; at most 5");
    rh_tensor_free(t); /* the window keeps the memory */
    ASSERT_VALUES(column, 8, 9);
    rh_tensor_free(column);
    rh_cluster_close(cluster);
}

/* float to int64 and back: what no int64 holds becomes the nearest that is one. */
static void test_copy(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *t = tensor_of(cluster, 0, DIMS(4), VALUES(1.9f, -1.9f, 1e30f, NAN));
    struct rh_tensor *whole = NULL;
    struct rh_tensor *back = NULL;
    int64_t values[4];
    CU_ASSERT_EQUAL_FATAL(rh_copy(t, 2, RH_INT64, &whole, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_read(whole, values, sizeof values), RH_OK);
    CU_ASSERT_TRUE(values[0] == 1 && values[1] == -1 && values[2] == INT64_MAX && values[3] == 0);
    CU_ASSERT_EQUAL_FATAL(rh_copy(whole, RH_HOST, RH_FLOAT32, &back, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_device(back), RH_HOST);
    ASSERT_VALUES(back, 1, -1, 9223372036854775807.f, 0);
    rh_tensor_free(back);
    CU_ASSERT_EQUAL(rh_copy(t, 4, RH_INT64, &back, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "copy: device 4; the cluster has devices 0 to 3");
    rh_tensor_free(t);
    rh_tensor_free(whole);
    rh_cluster_close(cluster);
}

/* ---- broadcast ------------------------------------------------------------------------------- */

/* The seed article, C1. */
static void test_broadcast(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *t = tensor_of(cluster, 0, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *out[3];
    CU_ASSERT_EQUAL(rh_broadcast(t, (const int[]){0, 1, 2}, 3, out, NULL), RH_OK);
    CU_ASSERT_TRUE(rh_tensor_same(out[0], t));
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(rh_tensor_device(out[i]), i);
        ASSERT_VALUES(out[i], 1, 2, 3);
    }
    CU_ASSERT_EQUAL(rh_tensor_write(out[0], VALUES(9, 9, 9), 12), RH_OK);
    ASSERT_VALUES(t, 9, 9, 9);
    ASSERT_VALUES(out[1], 1, 2, 3);
    free_tensors(out, 3);
    rh_tensor_free(t);
    rh_cluster_close(cluster);
}

/* C2 to C8, C14, C15. */
static void test_broadcast_places(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *host = tensor_of(cluster, RH_HOST, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *second = tensor_of(cluster, 2, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *first = tensor_of(cluster, 0, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *out[2];
    CU_ASSERT_EQUAL(rh_broadcast(host, (const int[]){0, 1}, 2, out, NULL), RH_OK);
    CU_ASSERT_FALSE(rh_tensor_same(out[0], host));
    ASSERT_VALUES(out[0], 1, 2, 3);
    ASSERT_VALUES(out[1], 1, 2, 3);
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_broadcast(second, (const int[]){0, 1}, 2, out, NULL), RH_OK);
    ASSERT_VALUES(out[0], 1, 2, 3);
    ASSERT_VALUES(out[1], 1, 2, 3);
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_broadcast(first, (const int[]){1, 0}, 2, out, NULL), RH_OK);
    CU_ASSERT_FALSE(rh_tensor_same(out[0], first));
    CU_ASSERT_TRUE(rh_tensor_same(out[1], first));
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_broadcast(first, (const int[]){0, 0}, 2, out, NULL), RH_OK);
    CU_ASSERT_TRUE(rh_tensor_same(out[0], first) && rh_tensor_same(out[1], first));
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_broadcast(first, (const int[]){1, 1}, 2, out, NULL), RH_OK);
    CU_ASSERT_FALSE(rh_tensor_same(out[0], out[1]));
    ASSERT_VALUES(out[1], 1, 2, 3);
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_broadcast(first, (const int[]){1, RH_HOST}, 2, out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "device -1");
    CU_ASSERT_PTR_NULL(out[0]);
    CU_ASSERT_EQUAL(rh_broadcast(first, (const int[]){1, 4}, 2, out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "device 4; the cluster has devices 0 to 3");
    CU_ASSERT_EQUAL(rh_broadcast(first, NULL, 0, NULL, NULL), RH_OK);
    rh_tensor_free(host);
    rh_tensor_free(first);
    rh_tensor_free(second);
    rh_cluster_close(cluster);
}

static void test_broadcast_shapes(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *scalar = tensor_of(cluster, 0, 0, NULL, VALUES(5));
    struct rh_tensor *empty = tensor_of(cluster, 0, DIMS(0, 3), NULL);
    struct rh_tensor *out[2];
    CU_ASSERT_EQUAL(rh_broadcast(scalar, (const int[]){0, 1}, 2, out, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_rank(out[1]), 0);
    ASSERT_VALUES(out[1], 5);
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_broadcast(empty, (const int[]){0, 1}, 2, out, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_dim(out[1], 0), 0);
    CU_ASSERT_EQUAL(rh_tensor_dim(out[1], 1), 3);
    free_tensors(out, 2);
    rh_tensor_free(scalar);
    rh_tensor_free(empty);
    rh_cluster_close(cluster);
}

/* ---- reduce_add ------------------------------------------------------------------------------ */

/* The seed article, C33 and C34. */
static void test_reduce_add(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *in[3];
    struct rh_tensor *sum = NULL;
    for (int i = 0; i < 3; i++)
        in[i] = tensor_of(cluster, i, DIMS(3), VALUES(1, 2, 3));
    for (int destination = 0; destination < 2; destination++) {
        CU_ASSERT_EQUAL(rh_reduce_add(in, 3, destination, &sum, NULL), RH_OK);
        ASSERT_VALUES(sum, 3, 6, 9);
        CU_ASSERT_EQUAL(rh_tensor_device(sum), destination);
        for (int i = 0; i < 3; i++) {
            CU_ASSERT_FALSE(rh_tensor_same(sum, in[i]));
            ASSERT_VALUES(in[i], 1, 2, 3);
        }
        rh_tensor_free(sum);
    }
    free_tensors(in, 3);
    rh_cluster_close(cluster);
}

/* C36 to C41, C43, C45. */
static void test_reduce_add_places(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *a = tensor_of(cluster, 1, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *b = tensor_of(cluster, 2, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *host = tensor_of(cluster, RH_HOST, DIMS(3), NULL);
    struct rh_tensor *two = tensor_of(cluster, 2, DIMS(2), VALUES(3, 4));
    struct rh_tensor *twin = tensor_of(cluster, 2, DIMS(2), VALUES(1, 2));
    struct rh_tensor *sum = NULL;
    struct rh_tensor *pair[2] = {a, b};
    CU_ASSERT_EQUAL(rh_reduce_add(pair, 2, 0, &sum, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "destination 0 holds none of the 2 inputs");
    CU_ASSERT_PTR_NULL(sum);
    CU_ASSERT_EQUAL(rh_reduce_add(pair, 2, RH_HOST, &sum, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "the host is not allowed here");
    CU_ASSERT_EQUAL(rh_reduce_add(pair, 0, 0, &sum, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "no input");
    pair[1] = host;
    CU_ASSERT_EQUAL(rh_reduce_add(pair, 2, 1, &sum, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "input 1 is on the host");
    pair[1] = two;
    CU_ASSERT_EQUAL(rh_reduce_add(pair, 2, 1, &sum, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "input 1 has shape (2), expected (3)");
    CU_ASSERT_EQUAL(rh_reduce_add(&a, 1, 1, &sum, NULL), RH_OK);
    CU_ASSERT_TRUE(rh_tensor_same(sum, a));
    rh_tensor_free(sum);
    CU_ASSERT_EQUAL(rh_reduce_add(&a, 1, 2, &sum, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "destination 2 holds none of the 1 inputs");
    pair[0] = two;
    pair[1] = twin;
    CU_ASSERT_EQUAL(rh_reduce_add(pair, 2, 2, &sum, NULL), RH_OK);
    ASSERT_VALUES(sum, 4, 6);
    rh_tensor_free(sum);
    rh_tensor_free(a);
    rh_tensor_free(b);
    rh_tensor_free(host);
    rh_tensor_free(two);
    rh_tensor_free(twin);
    rh_cluster_close(cluster);
}

/* C42 (root first, then in list order), C43, C44. */
static void test_reduce_add_numbers(void)
{
    struct rh_cluster *cluster = open_cluster();
    const float large[3] = {1e8f, 1, -1e8f};
    struct rh_tensor *in[3];
    struct rh_tensor *sum = NULL;
    for (int i = 0; i < 3; i++)
        in[i] = tensor_of(cluster, i, DIMS(1), &large[i]);
    CU_ASSERT_EQUAL(rh_reduce_add(in, 3, 0, &sum, NULL), RH_OK);
    ASSERT_VALUES(sum, 0);
    rh_tensor_free(sum);
    CU_ASSERT_EQUAL(rh_reduce_add(in, 3, 2, &sum, NULL), RH_OK);
    ASSERT_VALUES(sum, 1);
    rh_tensor_free(sum);
    free_tensors(in, 3);
    for (int i = 0; i < 2; i++)
        in[i] = tensor_of(cluster, i, DIMS(0), NULL);
    CU_ASSERT_EQUAL(rh_reduce_add(in, 2, 0, &sum, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_dim(sum, 0), 0);
    rh_tensor_free(sum);
    free_tensors(in, 2);
    int64_t number = INT64_C(1) << 40;
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(rh_tensor_new(cluster, i, RH_INT64, DIMS(1), &in[i]), RH_OK);
        rh_tensor_write(in[i], &number, 8);
    }
    if (rh_reduce_add(in, 2, 0, &sum, NULL) == RH_OK) {
        CU_ASSERT_EQUAL(rh_tensor_read(sum, &number, 8), RH_OK);
        CU_ASSERT_EQUAL(number, INT64_C(1) << 41);
        rh_tensor_free(sum);
    } else {
        fprintf(stderr, "    %s\n", rh_error());
        CU_FAIL("int64 is not added");
    }
    free_tensors(in, 2);
    rh_cluster_close(cluster);
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* The seed article: two pieces for three devices. C46 to C49, C57, C58. */
static void test_scatter(void)
{
    struct rh_cluster *cluster = open_cluster();
    static const int devices[3] = {0, 1, 2};
    struct rh_tensor *m = tensor_of(cluster, 0, DIMS(2, 3), VALUES(1, 2, 3, 4, 5, 6));
    struct rh_tensor *v = tensor_of(cluster, 0, DIMS(6), VALUES(1, 2, 3, 4, 5, 6));
    struct rh_tensor *out[3];
    int pieces = 0;
    CU_ASSERT_EQUAL(rh_scatter(m, devices, 3, NULL, 0, out, &pieces, NULL), RH_OK);
    CU_ASSERT_EQUAL(pieces, 2);
    ASSERT_VALUES(out[0], 1, 2, 3);
    ASSERT_VALUES(out[1], 4, 5, 6);
    CU_ASSERT_EQUAL(rh_tensor_dim(out[1], 0), 1);
    CU_ASSERT_EQUAL(rh_tensor_device(out[1]), 1);
    CU_ASSERT_TRUE(rh_tensor_same(out[0], m));
    CU_ASSERT_PTR_NULL(out[2]);
    free_tensors(out, 3);
    for (int dim = -1; dim < 2; dim += 2) {
        CU_ASSERT_EQUAL(rh_scatter(m, devices, 3, NULL, dim, out, &pieces, NULL), RH_OK);
        CU_ASSERT_EQUAL(pieces, 3);
        ASSERT_VALUES(out[0], 1, 4);
        ASSERT_VALUES(out[1], 2, 5);
        ASSERT_VALUES(out[2], 3, 6);
        free_tensors(out, 3);
    }
    CU_ASSERT_EQUAL(rh_scatter(v, devices, 3, NULL, 0, out, &pieces, NULL), RH_OK);
    ASSERT_VALUES(out[2], 5, 6);
    CU_ASSERT_EQUAL(rh_tensor_write(out[0], VALUES(9, 9), 8), RH_OK);
    ASSERT_VALUES(v, 9, 9, 3, 4, 5, 6);
    CU_ASSERT_EQUAL(rh_tensor_write(out[1], VALUES(8, 8), 8), RH_OK);
    ASSERT_VALUES(v, 9, 9, 3, 4, 5, 6);
    free_tensors(out, 3);
    rh_tensor_free(m);
    rh_tensor_free(v);
    v = tensor_of(cluster, 1, DIMS(4), VALUES(1, 2, 3, 4));
    CU_ASSERT_EQUAL(rh_scatter(v, devices, 2, NULL, 0, out, &pieces, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_write(out[1], VALUES(7, 7), 8), RH_OK);
    ASSERT_VALUES(v, 1, 2, 7, 7);
    free_tensors(out, 2);
    rh_tensor_free(v);
    rh_cluster_close(cluster);
}

/* C50 to C53, C68. */
static void test_scatter_sizes(void)
{
    struct rh_cluster *cluster = open_cluster();
    static const int devices[DEVICES] = {0, 1, 2, 3};
    static const struct {
        int64_t rows;
        int devices, pieces;
        int64_t sizes[DEVICES];
    } cases[] = {{5, 4, 3, {2, 2, 1}},    {9, 4, 3, {3, 3, 3}}, {10, 4, 4, {3, 3, 3, 1}},
                 {7, 3, 3, {3, 3, 1}},    {1, 4, 1, {1}},       {0, 3, 3, {0, 0, 0}},
                 {36, 4, 4, {9, 9, 9, 9}}};
    struct rh_tensor *out[DEVICES];
    int pieces = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rh_tensor *t = tensor_of(cluster, 0, DIMS(cases[i].rows), NULL);
        CU_ASSERT_EQUAL(rh_scatter(t, devices, cases[i].devices, NULL, 0, out, &pieces, NULL),
                        RH_OK);
        CU_ASSERT_EQUAL_FATAL(pieces, cases[i].pieces);
        for (int k = 0; k < pieces; k++)
            CU_ASSERT_EQUAL(rh_tensor_dim(out[k], 0), cases[i].sizes[k]);
        free_tensors(out, pieces);
        rh_tensor_free(t);
    }
    struct rh_tensor *six = tensor_of(cluster, RH_HOST, DIMS(6), VALUES(1, 2, 3, 4, 5, 6));
    CU_ASSERT_EQUAL(rh_scatter(six, devices, 2, (const int64_t[]){2, 4}, 0, out, &pieces, NULL),
                    RH_OK);
    ASSERT_VALUES(out[0], 1, 2);
    ASSERT_VALUES(out[1], 3, 4, 5, 6);
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_scatter(six, devices, 2, (const int64_t[]){0, 6}, 0, out, &pieces, NULL),
                    RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_dim(out[0], 0), 0);
    ASSERT_VALUES(out[1], 1, 2, 3, 4, 5, 6);
    free_tensors(out, 2);
    CU_ASSERT_EQUAL(rh_scatter(six, (const int[]){0, 0}, 2, NULL, 0, out, &pieces, NULL), RH_OK);
    CU_ASSERT_FALSE(rh_tensor_same(out[0], out[1]));
    ASSERT_VALUES(out[1], 4, 5, 6);
    free_tensors(out, 2);
    rh_tensor_free(six);
    rh_cluster_close(cluster);
}

/* C54, C55, C59, C60, no device. */
static void test_scatter_errors(void)
{
    struct rh_cluster *cluster = open_cluster();
    static const int devices[2] = {0, 1};
    struct rh_tensor *six = tensor_of(cluster, 0, DIMS(6), NULL);
    struct rh_tensor *matrix = tensor_of(cluster, 0, DIMS(2, 3), NULL);
    struct rh_tensor *scalar = tensor_of(cluster, 0, 0, NULL, NULL);
    struct rh_tensor *out[2];
    int pieces = 7;
    CU_ASSERT_EQUAL(rh_scatter(six, devices, 2, (const int64_t[]){2, 3}, 0, out, &pieces, NULL),
                    RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "the sizes add up to 5, the dimension is 6");
    CU_ASSERT_EQUAL(pieces, 0);
    CU_ASSERT_EQUAL(rh_scatter(six, devices, 2, (const int64_t[]){-1, 7}, 0, out, &pieces, NULL),
                    RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "size 0 is -1");
    CU_ASSERT_EQUAL(rh_scatter(scalar, devices, 2, NULL, 0, out, &pieces, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "a scalar cannot be cut into 2 pieces");
    for (int dim = -3; dim <= 2; dim += 5) {
        CU_ASSERT_EQUAL(rh_scatter(matrix, devices, 2, NULL, dim, out, &pieces, NULL), RH_INVALID);
        UNIT_ASSERT_CONTAINS(rh_error(), dim < 0 ? "dimension -3 is out of range [-2, 1]"
                                                 : "dimension 2 is out of range [-2, 1]");
    }
    CU_ASSERT_EQUAL(rh_scatter(six, devices, 0, NULL, 0, out, &pieces, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "no device");
    CU_ASSERT_EQUAL(rh_scatter(six, (const int[]){1, 5}, 2, NULL, 0, out, &pieces, NULL),
                    RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "device 5; the cluster has devices 0 to 3");
    CU_ASSERT_PTR_NULL(out[0]);
    rh_tensor_free(six);
    rh_tensor_free(matrix);
    rh_tensor_free(scalar);
    rh_cluster_close(cluster);
}

/* A column is a view with strides: moved on, it is dense and right (C69, T5). */
static void test_views_move(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *m = tensor_of(cluster, 0, DIMS(2, 4), VALUES(1, 2, 3, 4, 5, 6, 7, 8));
    struct rh_tensor *halves[2];
    struct rh_tensor *copies[2];
    struct rh_tensor *there = NULL;
    int pieces = 0;
    CU_ASSERT_EQUAL(rh_scatter(m, (const int[]){0, 0}, 2, NULL, 1, halves, &pieces, NULL), RH_OK);
    ASSERT_VALUES(halves[1], 3, 4, 7, 8);
    CU_ASSERT_EQUAL(rh_to(halves[1], 3, &there, NULL), RH_OK);
    ASSERT_VALUES(there, 3, 4, 7, 8);
    rh_tensor_free(there);
    CU_ASSERT_EQUAL(rh_broadcast(halves[1], (const int[]){1, 2}, 2, copies, NULL), RH_OK);
    ASSERT_VALUES(copies[1], 3, 4, 7, 8);
    struct rh_tensor *sum = NULL;
    struct rh_tensor *pair[2] = {halves[1], copies[0]};
    CU_ASSERT_EQUAL(rh_reduce_add(pair, 2, 0, &sum, NULL), RH_OK);
    ASSERT_VALUES(sum, 6, 8, 14, 16);
    CU_ASSERT_EQUAL(rh_all_reduce(pair, 2, NULL), RH_OK);
    ASSERT_VALUES(m, 1, 2, 6, 8, 5, 6, 14, 16);
    ASSERT_VALUES(copies[0], 6, 8, 14, 16);
    rh_tensor_free(sum);
    free_tensors(copies, 2);
    rh_tensor_free(m); /* the views keep the memory */
    ASSERT_VALUES(halves[0], 1, 2, 5, 6);
    free_tensors(halves, 2);
    rh_cluster_close(cluster);
}

/* ---- gather ---------------------------------------------------------------------------------- */

/* The seed article, C70 to C76, C83, C84. */
static void test_gather(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *in[3];
    struct rh_tensor *rows[3];
    struct rh_tensor *columns[3];
    struct rh_tensor *out = NULL;
    for (int i = 0; i < 3; i++) {
        const float values[3] = {(float)(3 * i + 1), (float)(3 * i + 2), (float)(3 * i + 3)};
        in[i] = tensor_of(cluster, i, DIMS(3), values);
        rows[i] = tensor_of(cluster, i, DIMS(1, 3), values);
        columns[i] = tensor_of(cluster, i, DIMS(2, 1), values);
    }
    static const int destinations[] = {0, 3, RH_HOST};
    for (int d = 0; d < 3; d++) {
        CU_ASSERT_EQUAL(rh_gather(in, 3, 0, destinations[d], &out, NULL), RH_OK);
        CU_ASSERT_EQUAL(rh_tensor_device(out), destinations[d]);
        CU_ASSERT_EQUAL(rh_tensor_dim(out, 0), 9);
        ASSERT_VALUES(out, 1, 2, 3, 4, 5, 6, 7, 8, 9);
        rh_tensor_free(out);
    }
    CU_ASSERT_EQUAL(rh_gather(rows, 3, 0, 0, &out, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_tensor_dim(out, 0), 3);
    ASSERT_VALUES(out, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    rh_tensor_free(out);
    for (int dim = -1; dim < 2; dim += 2) {
        CU_ASSERT_EQUAL(rh_gather(columns, 3, dim, 0, &out, NULL), RH_OK);
        CU_ASSERT_EQUAL(rh_tensor_dim(out, 1), 3);
        ASSERT_VALUES(out, 1, 4, 7, 2, 5, 8);
        rh_tensor_free(out);
    }
    CU_ASSERT_EQUAL(rh_gather(in, 1, 0, 0, &out, NULL), RH_OK);
    CU_ASSERT_FALSE(rh_tensor_same(out, in[0]));
    ASSERT_VALUES(out, 1, 2, 3);
    rh_tensor_free(out);
    struct rh_tensor *some[2] = {tensor_of(cluster, 0, DIMS(0, 3), NULL), rows[1]};
    CU_ASSERT_EQUAL(rh_gather(some, 2, 0, 0, &out, NULL), RH_OK);
    ASSERT_VALUES(out, 4, 5, 6);
    rh_tensor_free(out);
    rh_tensor_free(some[0]);
    free_tensors(in, 3);
    free_tensors(rows, 3);
    free_tensors(columns, 3);
    rh_cluster_close(cluster);
}

/* C78 to C81, C86; other element types are refused, not converted. */
static void test_gather_errors(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *wide = tensor_of(cluster, 0, DIMS(2, 5), NULL);
    struct rh_tensor *narrow = tensor_of(cluster, 1, DIMS(2, 4), NULL);
    struct rh_tensor *deep = tensor_of(cluster, 1, DIMS(1, 2, 5), NULL);
    struct rh_tensor *host = tensor_of(cluster, RH_HOST, DIMS(2, 5), NULL);
    struct rh_tensor *scalar = tensor_of(cluster, 0, 0, NULL, NULL);
    struct rh_tensor *integers = NULL;
    struct rh_tensor *out = NULL;
    CU_ASSERT_EQUAL_FATAL(rh_tensor_new(cluster, 1, RH_INT64, DIMS(2, 5), &integers), RH_OK);
    struct rh_tensor *pair[2] = {wide, narrow};
    CU_ASSERT_EQUAL(rh_gather(pair, 2, 0, 0, &out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(),
                         "input 1 has shape (2, 4), expected (2, 5) but for dimension 0");
    CU_ASSERT_PTR_NULL(out);
    pair[1] = deep;
    CU_ASSERT_EQUAL(rh_gather(pair, 2, 0, 0, &out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "input 1 has 3 dimensions, expected 2");
    pair[1] = integers;
    CU_ASSERT_EQUAL(rh_gather(pair, 2, 0, 0, &out, NULL), RH_OK); /* converted to the first's */
    CU_ASSERT_EQUAL(rh_tensor_dtype(out), RH_FLOAT32);
    rh_tensor_free(out);
    pair[0] = host;
    pair[1] = wide;
    CU_ASSERT_EQUAL(rh_gather(pair, 2, 0, 0, &out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "input 0 is on the host");
    pair[0] = pair[1] = scalar;
    CU_ASSERT_EQUAL(rh_gather(pair, 2, 0, 0, &out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "dimension 0");
    CU_ASSERT_EQUAL(rh_gather(pair, 0, 0, 0, &out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "no input");
    CU_ASSERT_EQUAL(rh_gather(&wide, 1, 2, 0, &out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "dimension 2 is out of range [-2, 1]");
    CU_ASSERT_EQUAL(rh_gather(&wide, 1, 0, 4, &out, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "device 4; the cluster has devices 0 to 3");
    rh_tensor_free(wide);
    rh_tensor_free(narrow);
    rh_tensor_free(deep);
    rh_tensor_free(host);
    rh_tensor_free(scalar);
    rh_tensor_free(integers);
    rh_cluster_close(cluster);
}

/* C85. */
static void test_gather_of_scatter(void)
{
    struct rh_cluster *cluster = open_cluster();
    static const int devices[DEVICES] = {0, 1, 2, 3};
    for (int64_t rows = 1; rows <= 17; rows++)
        for (int count = 1; count <= DEVICES; count++) {
            struct rh_tensor *out[DEVICES];
            struct rh_tensor *back = NULL;
            float values[34];
            int pieces = 0;
            for (int i = 0; i < 34; i++)
                values[i] = (float)i;
            struct rh_tensor *t = tensor_of(cluster, 0, DIMS(rows, 2), values);
            CU_ASSERT_EQUAL_FATAL(rh_scatter(t, devices, count, NULL, 0, out, &pieces, NULL),
                                  RH_OK);
            CU_ASSERT_EQUAL_FATAL(rh_gather(out, pieces, 0, 1, &back, NULL), RH_OK);
            assert_values(back, values, (int)(2 * rows));
            free_tensors(out, pieces);
            rh_tensor_free(back);
            rh_tensor_free(t);
        }
    rh_cluster_close(cluster);
}

/* ---- all_reduce ------------------------------------------------------------------------------ */

static void test_all_reduce(void)
{
    struct rh_cluster *cluster = open_cluster();
    struct rh_tensor *in[DEVICES];
    for (int i = 0; i < DEVICES; i++)
        in[i] = tensor_of(cluster, i, DIMS(2), VALUES((float)i, 1));
    CU_ASSERT_EQUAL(rh_all_reduce(in, DEVICES, NULL), RH_OK);
    for (int i = 0; i < DEVICES; i++)
        ASSERT_VALUES(in[i], 6, 4);
    struct rh_tensor *other = tensor_of(cluster, 1, DIMS(3), NULL);
    struct rh_tensor *twin = tensor_of(cluster, 0, DIMS(2), NULL);
    struct rh_tensor *host = tensor_of(cluster, RH_HOST, DIMS(2), NULL);
    struct rh_tensor *integers = NULL;
    CU_ASSERT_EQUAL_FATAL(rh_tensor_new(cluster, 1, RH_INT64, DIMS(2), &integers), RH_OK);
    struct rh_tensor *pair[2] = {in[0], other};
    CU_ASSERT_EQUAL(rh_all_reduce(pair, 2, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "tensor 1");
    pair[1] = twin;
    CU_ASSERT_EQUAL(rh_all_reduce(pair, 2, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "tensors 0 and 1 are both on device 0");
    pair[1] = host;
    CU_ASSERT_EQUAL(rh_all_reduce(pair, 2, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "tensor 1 is on the host");
    pair[1] = integers;
    CU_ASSERT_EQUAL(rh_all_reduce(pair, 2, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "tensor 1 is int64, tensor 0 fp32");
    CU_ASSERT_EQUAL(rh_all_reduce(pair, 0, NULL), RH_INVALID);
    ASSERT_VALUES(in[0], 6, 4);
    free_tensors(in, DEVICES);
    rh_tensor_free(other);
    rh_tensor_free(twin);
    rh_tensor_free(host);
    rh_tensor_free(integers);
    rh_cluster_close(cluster);
}

/* On SimGrid a move costs time, more of it for more bytes, and the values are the same. */
static void test_seconds(void)
{
    struct rh_cluster *cluster = NULL;
    if (rh_cluster_open("dgx-1v", 4, NULL, &cluster) != RH_OK) {
        UNIT_ASSERT_CONTAINS(rh_error(), "simgrid");
        return; /* not built */
    }
    struct rh_tensor *small = tensor_of(cluster, 0, DIMS(3), VALUES(1, 2, 3));
    struct rh_tensor *large = tensor_of(cluster, 0, DIMS(1 << 20), NULL);
    struct rh_tensor *out[3];
    double few = 0;
    double many = 0;
    CU_ASSERT_EQUAL(rh_broadcast(small, (const int[]){1, 2, 3}, 3, out, &few), RH_OK);
    ASSERT_VALUES(out[2], 1, 2, 3);
    free_tensors(out, 3);
    CU_ASSERT_EQUAL(rh_broadcast(large, (const int[]){1, 2, 3}, 3, out, &many), RH_OK);
    free_tensors(out, 3);
    CU_ASSERT_TRUE(few > 0);
    CU_ASSERT_TRUE(many > few);
    rh_tensor_free(small);
    rh_tensor_free(large);
    rh_cluster_close(cluster);
}

/* ---- models and experiments ------------------------------------------------------------------ */

static const char layers_json[] =
    "{\"name\":\"net\",\"input\":[3,8,8],\"layers\":["
    "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1,\"bias\":false},"
    "{\"name\":\"n1\",\"op\":\"batch_norm2d\"},{\"name\":\"r1\",\"op\":\"relu\"},"
    "{\"name\":\"c2\",\"op\":\"conv2d\",\"input\":\"input\",\"out\":4,\"kernel\":1},"
    "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"r1\",\"c2\"]},"
    "{\"name\":\"m\",\"op\":\"max_pool2d\",\"kernel\":2},"
    "{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1},{\"name\":\"f\",\"op\":\"flatten\"},"
    "{\"name\":\"fc\",\"op\":\"linear\",\"out\":5}]}";

static struct rh_model *layer_by_layer(void)
{
    struct rh_model *m = NULL;
    int r1 = -9;
    int c2 = -9;
    CU_ASSERT_EQUAL_FATAL(rh_model_begin("net", DIMS(3, 8, 8), &m), RH_OK);
    CU_ASSERT_EQUAL(rh_model_conv2d(m, "c1", RH_INPUT, 4, 3, 1, 1, 1, 0, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_model_batch_norm2d(m, "n1", RH_PREVIOUS, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_model_relu(m, "r1", RH_PREVIOUS, &r1), RH_OK);
    CU_ASSERT_EQUAL(rh_model_conv2d(m, "c2", RH_INPUT, 4, 1, 1, 0, 1, 1, &c2), RH_OK);
    CU_ASSERT_EQUAL(r1, 2);
    CU_ASSERT_EQUAL(c2, 3);
    CU_ASSERT_EQUAL(rh_model_add(m, "s", r1, c2, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_model_max_pool2d(m, "m", RH_PREVIOUS, 2, 2, 0, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_model_global_average(m, "p", RH_PREVIOUS, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_model_flatten(m, "f", RH_PREVIOUS, NULL), RH_OK);
    CU_ASSERT_EQUAL(rh_model_linear(m, "fc", RH_PREVIOUS, 5, 1, NULL), RH_OK);
    return m;
}

static struct rh_result *run_model(const struct rh_model *model)
{
    struct rh_experiment *e = NULL;
    struct rh_result *result = NULL;
    CU_ASSERT_EQUAL_FATAL(
        rh_experiment_open("{\"name\":\"api\",\"model\":\"toy\",\"data\":{\"batch\":8,\"seed\":3},"
                           "\"train\":{\"steps\":3},\"cluster\":\"dgx-1v\",\"devices\":2,"
                           "\"strategy\":\"ddp\",\"backend\":\"reference\"}",
                           &e),
        RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_set_model(e, model), RH_OK);
    if (rh_experiment_run(e, RH_NUMBERS, &result) != RH_OK)
        fprintf(stderr, "    %s\n", rh_error());
    CU_ASSERT_PTR_NOT_NULL_FATAL(result);
    rh_experiment_close(e);
    return result;
}

/* The same model either way: the same parameters and the same losses. */
static void test_layers_equal_json(void)
{
    struct rh_model *by_hand = layer_by_layer();
    struct rh_model *from_json = NULL;
    CU_ASSERT_EQUAL_FATAL(rh_model_new(layers_json, &from_json), RH_OK);
    CU_ASSERT_EQUAL(rh_model_parameters(by_hand), 108 + 8 + 16 + 25);
    CU_ASSERT_EQUAL(rh_model_parameters(from_json), rh_model_parameters(by_hand));
    struct rh_result *a = run_model(by_hand);
    struct rh_result *b = run_model(from_json);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_TRUE(isfinite(rh_result_loss(a, i)));
        CU_ASSERT_EQUAL(rh_result_loss(a, i), rh_result_loss(b, i));
    }
    rh_result_free(a);
    rh_result_free(b);
    rh_model_free(by_hand);
    rh_model_free(from_json);
}

static void test_model_errors(void)
{
    struct rh_model *m = NULL;
    CU_ASSERT_EQUAL(rh_model_new("resnet5", &m), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "did you mean 'resnet50'?");
    CU_ASSERT_PTR_NULL(m);
    CU_ASSERT_EQUAL(rh_model_begin("net", 5, (const int64_t[]){1, 1, 1, 1, 1}, &m), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "1 to 4 dimensions, not 5");
    CU_ASSERT_EQUAL_FATAL(rh_model_new("resnet50", &m), RH_OK);
    CU_ASSERT_EQUAL(rh_model_parameters(m), 25557032);
    CU_ASSERT_EQUAL(rh_model_relu(m, "r", RH_INPUT, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "takes no further layers");
    rh_model_free(m);
    CU_ASSERT_EQUAL_FATAL(rh_model_begin("net", DIMS(4), &m), RH_OK);
    int layer = 7;
    CU_ASSERT_EQUAL(rh_model_conv2d(m, "c", RH_INPUT, 4, 3, 1, 1, 1, 1, &layer), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "layer 'c' wants 4 dimensions");
    CU_ASSERT_EQUAL(layer, 7);
    CU_ASSERT_EQUAL(rh_model_relu(m, "r", 3, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "layer 'r' reads layer 3; there are 0");
    CU_ASSERT_EQUAL(rh_model_linear(m, "a", RH_INPUT, 4, 1, &layer), RH_OK);
    CU_ASSERT_EQUAL(layer, 0);
    CU_ASSERT_EQUAL(rh_model_linear(m, "a", RH_PREVIOUS, 4, 1, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "layer 'a' is there twice");
    CU_ASSERT_EQUAL(rh_model_add(m, "s", 0, 5, NULL), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "reads layer 5; there are 1");
    CU_ASSERT_EQUAL(rh_model_parameters(m), 20);
    rh_model_free(m);
    rh_model_free(NULL);
}

static void test_experiment(void)
{
    struct rh_experiment *e = NULL;
    struct rh_result *r = NULL;
    CU_ASSERT_EQUAL_FATAL(
        rh_experiment_open("{\"name\":\"api\",\"model\":\"toy\",\"data\":{\"batch\":20},"
                           "\"train\":{\"loss\":\"mse\"},\"cluster\":\"dgx-1v\",\"devices\":2,"
                           "\"backend\":\"reference\"}",
                           &e),
        RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_set(e, "strategy.type=data_parallel"), RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_set(e, "train.steps=6"), RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_set(e, "train.optimizer=sgd"), RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_set(e, "train.optimizer.lr=0.1"), RH_OK);
    CU_ASSERT_EQUAL_FATAL(rh_experiment_run(e, RH_NUMBERS, &r), RH_OK);
    CU_ASSERT_EQUAL(rh_result_steps(r), 6);
    CU_ASSERT_TRUE(rh_result_devices(r) >= 2);
    CU_ASSERT_TRUE(rh_result_loss(r, 5) < rh_result_loss(r, 0));
    CU_ASSERT_TRUE(isnan(rh_result_loss(r, 6)));
    CU_ASSERT_TRUE(isnan(rh_result_step_seconds(r, 6)));
    CU_ASSERT_TRUE(rh_result_peak_bytes(r, 0) > 0);
    CU_ASSERT_EQUAL(rh_result_peak_bytes(r, -1), 0);
    char *json = rh_result_json(r);
    UNIT_ASSERT_CONTAINS(json, "\"strategy\"");
    UNIT_ASSERT_CONTAINS(json, "data_parallel");
    free(json);
    rh_result_free(r);
    CU_ASSERT_EQUAL_FATAL(rh_experiment_run(e, 0, &r), RH_OK);
    CU_ASSERT_TRUE(isnan(rh_result_loss(r, 0)));
    rh_result_free(r);
    /* refused settings name what is wrong, and the experiment goes on */
    CU_ASSERT_EQUAL(rh_experiment_set(e, "steps"), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "expected key=value");
    CU_ASSERT_EQUAL(rh_experiment_set(e, "train.stepps=6"), RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_run(e, 0, &r), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "did you mean 'steps'?");
    CU_ASSERT_PTR_NULL(r);
    CU_ASSERT_EQUAL(rh_experiment_set(e, "train.stepps=null"), RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_run(e, 0, &r), RH_OK);
    rh_result_free(r);
    rh_experiment_close(e);
    rh_experiment_close(NULL);
    rh_result_free(NULL);
    CU_ASSERT_EQUAL(rh_experiment_open("no/such.json", &e), RH_INVALID);
    UNIT_ASSERT_CONTAINS(rh_error(), "no/such.json");
    CU_ASSERT_PTR_NULL(e);
}

/* Too little memory is said before anything runs. */
static void test_out_of_memory(void)
{
    struct rh_experiment *e = NULL;
    struct rh_result *r = NULL;
    CU_ASSERT_EQUAL_FATAL(
        rh_experiment_open("{\"model\":\"resnet50\",\"data\":{\"batch\":4096},\"cluster\":"
                           "\"dgx-1v\",\"devices\":1,\"backend\":\"reference\"}",
                           &e),
        RH_OK);
    CU_ASSERT_EQUAL(rh_experiment_run(e, 0, &r), RH_OUT_OF_MEMORY);
    UNIT_ASSERT_CONTAINS(rh_error(), "GiB");
    CU_ASSERT_PTR_NULL(r);
    rh_experiment_close(e);
}

static const struct unit_test tests[] = {
    {"open errors", test_open_errors, NULL},
    {"tensor", test_tensor, NULL},
    {"to", test_to, NULL},
    {"view", test_view, NULL},
    {"copy", test_copy, NULL},
    {"broadcast", test_broadcast, NULL},
    {"broadcast places", test_broadcast_places, NULL},
    {"broadcast shapes", test_broadcast_shapes, NULL},
    {"reduce_add", test_reduce_add, NULL},
    {"reduce_add places", test_reduce_add_places, NULL},
    {"reduce_add numbers", test_reduce_add_numbers, NULL},
    {"scatter", test_scatter, NULL},
    {"scatter sizes", test_scatter_sizes, NULL},
    {"scatter errors", test_scatter_errors, NULL},
    {"views move", test_views_move, NULL},
    {"gather", test_gather, NULL},
    {"gather errors", test_gather_errors, NULL},
    {"gather of scatter", test_gather_of_scatter, NULL},
    {"all_reduce", test_all_reduce, NULL},
    {"seconds", test_seconds, NULL},
    {"layers equal json", test_layers_equal_json, NULL},
    {"model errors", test_model_errors, NULL},
    {"experiment", test_experiment, NULL},
    {"out of memory", test_out_of_memory, NULL},
};

int main(void)
{
    setenv("REHEARSE_PLATFORMS", unit_source("platforms"), 1);
    return UNIT_MAIN("api", tests);
}
