/* Every op on CUDA against the CPU kernel, on fresh random operands with outputs poisoned first: a
 * plan of one instruction on both backends. parity_ops [SEED]. Exit 77 where there is no GPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/backend.h"
#include "base/memory.h"
#include "base/random.h"
#include "plan/check.h"

enum { MOST_OPERANDS = 16 };

/* One op with its operand types; how operands are filled beyond normal(0, 1). */
struct subject {
    const char *name;
    struct op op;
    struct tensor_type types[MOST_OPERANDS]; /* reads, then writes */
    int reads, writes;
    int in_place[MOST_OPERANDS];  /* write k is read in_place[k] - 1; 0: its own memory */
    int64_t limit[MOST_OPERANDS]; /* int64 reads: uniform below it */
    bool positive[MOST_OPERANDS];
    double bound; /* of |difference| relative to the largest value */
};

static struct tensor_type f32(int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t dims[4] = {a, b, c, d};
    return (struct tensor_type){DTYPE_F32, shape_of(rank, dims)};
}

static struct tensor_type i64(int rank, int64_t a)
{
    return (struct tensor_type){DTYPE_I64, shape_of(rank, &a)};
}

struct tally {
    uint64_t seed;
    int passed, failed;
    struct cluster *cluster;
    struct session *sessions[2];
    const struct backend *backends[2];
};

static void fill(const struct subject *s, int operand, uint64_t seed, void *data)
{
    const struct tensor_type *type = &s->types[operand];
    int64_t n = shape_elements(&type->shape);
    uint64_t stream = random_mix(seed, (uint64_t)operand);
    for (int64_t i = 0; i < n; i++) {
        double value = random_normal(stream, (uint64_t)i);
        if (type->dtype == DTYPE_I64)
            ((int64_t *)data)[i] = (int64_t)(random_uniform(stream, (uint64_t)i) *
                                             (double)(s->limit[operand] ? s->limit[operand] : 1));
        else
            ((float *)data)[i] = (float)(s->positive[operand] ? fabs(value) + 0.1 : value);
    }
}

static struct plan *make_plan(const struct subject *s, int *buffers)
{
    struct mesh mesh = {.axis_count = 1, .axis = {"dp"}, .size = {1}};
    struct plan *plan = plan_new(s->name, &mesh, -1);
    struct view views[MOST_OPERANDS];
    role_init(plan, 0, "worker", 1);
    int stream = role_add_stream(plan, 0, "compute", 0);
    struct writer w = {plan, 0, role_add_list(plan, 0, "list"), WORK_OTHER, -1};
    for (int i = 0; i < s->reads + s->writes; i++) {
        int same = i >= s->reads ? s->in_place[i - s->reads] - 1 : -1;
        struct buffer buffer = {.name = plan_text(plan, "operand %d", i),
                                .type = s->types[i],
                                .purpose = PURPOSE_ACTIVATIONS,
                                .list = -1,
                                .index = -1};
        buffers[i] = same >= 0 ? buffers[same] : role_add_buffer(plan, 0, buffer);
        views[i] = view_of(&plan->roles[0], buffers[i]);
    }
    write_compute(&w, stream, s->name, &s->op, views, s->reads, views + s->reads, s->writes);
    return plan;
}

static enum rh_status run_on(struct tally *t, int which, const struct subject *s,
                             const struct plan *plan, const int *buffers, void **values)
{
    const struct backend *backend = t->backends[which];
    struct run_entry entry = {0, 1, true};
    struct run_order order = {&entry, 1, 0, 1};
    struct result result = {0};
    RETURN_IF_FAILED(backend->load(t->sessions[which], plan));
    enum rh_status status = RH_OK;
    for (int i = 0; i < s->reads + s->writes && status == RH_OK; i++) {
        size_t bytes = type_bytes(&s->types[i]);
        bool own = i < s->reads || s->in_place[i - s->reads] == 0;
        char *data = malloc(bytes + 1);
        memset(data, 0xff, bytes);
        bool fresh = i >= s->reads && !s->op.accumulate;
        if (!fresh)
            fill(s, i, t->seed, data);
        if (own)
            status = backend->write(t->sessions[which], 0, buffers[i], data, bytes);
        free(data);
    }
    if (status == RH_OK)
        status = backend->run(t->sessions[which], &order, NULL, &result);
    for (int i = 0; i < s->writes && status == RH_OK; i++)
        status = backend->read(t->sessions[which], 0, buffers[s->reads + i], values[i],
                               type_bytes(&s->types[s->reads + i]));
    result_free(&result);
    backend->unload(t->sessions[which]);
    return status;
}

/* The largest difference relative to the largest value, or to `least`; NaN counts as infinite. */
static double distance(const struct tensor_type *type, const void *a, const void *b, double least)
{
    double most = least;
    double difference = 0;
    int64_t n = shape_elements(&type->shape);
    for (int64_t i = 0; i < n; i++) {
        double x = type->dtype == DTYPE_I64 ? (double)((const int64_t *)a)[i]
                                            : (double)((const float *)a)[i];
        double y = type->dtype == DTYPE_I64 ? (double)((const int64_t *)b)[i]
                                            : (double)((const float *)b)[i];
        if (!isfinite(x) || !isfinite(y))
            return INFINITY;
        most = fmax(most, fabs(x));
        difference = fmax(difference, fabs(x - y));
    }
    return most > 0 ? difference / most : difference;
}

static void compare(struct tally *t, const struct subject *s)
{
    int buffers[MOST_OPERANDS];
    void *values[2][MOST_OPERANDS];
    struct plan *plan = make_plan(s, buffers);
    double worst = 0;
    enum rh_status status = plan_check(plan);
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < s->writes; i++)
            values[which][i] = malloc(type_bytes(&s->types[s->reads + i]) + 1);
    for (int which = 0; which < 2 && status == RH_OK; which++)
        status = run_on(t, which, s, plan, buffers, values[which]);
    for (int i = 0; i < s->writes && status == RH_OK; i++)
        worst = fmax(worst, distance(&s->types[s->reads + i], values[0][i], values[1][i],
                                     s->in_place[i] ? 1 : 0)); /* operands of order 1 cancel */
    bool fine = status == RH_OK && worst <= s->bound;
    printf("%s %-34s %.3g of %.3g%s%s\n", fine ? "ok    " : "FAILED", s->name, worst, s->bound,
           status == RH_OK ? "" : ": ", status == RH_OK ? "" : fail_message());
    t->passed += fine;
    t->failed += !fine;
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < s->writes; i++)
            free(values[which][i]);
    plan_free(plan);
}

static void linear_ops(struct tally *t, int64_t n, int64_t i, int64_t o)
{
    struct op op = {.compute = DTYPE_F32};
    op.kind = OP_linear;
    compare(t, &(struct subject){.name = "linear",
                                 .op = op,
                                 .types = {f32(2, n, i, 0, 0), f32(2, o, i, 0, 0),
                                           f32(1, o, 0, 0, 0), f32(2, n, o, 0, 0)},
                                 .reads = 3,
                                 .writes = 1,
                                 .bound = 1e-5});
    op.kind = OP_linear_input_grad;
    compare(t,
            &(struct subject){.name = "linear_input_grad",
                              .op = op,
                              .types = {f32(2, n, o, 0, 0), f32(2, o, i, 0, 0), f32(2, n, i, 0, 0)},
                              .reads = 2,
                              .writes = 1,
                              .bound = 1e-5});
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        op.kind = OP_linear_weight_grad;
        op.accumulate = accumulate;
        compare(t, &(struct subject){.name = accumulate ? "linear_weight_grad, added"
                                                        : "linear_weight_grad",
                                     .op = op,
                                     .types = {f32(2, n, o, 0, 0), f32(2, n, i, 0, 0),
                                               f32(2, o, i, 0, 0), f32(1, o, 0, 0, 0)},
                                     .reads = 2,
                                     .writes = 2,
                                     .bound = 1e-5});
    }
}

static void conv_ops(struct tally *t, int64_t n, int64_t c, int64_t h, int64_t o, int kernel,
                     int stride, int padding, int groups)
{
    struct op op = {.compute = DTYPE_F32};
    int64_t p = (h + 2 * padding - kernel) / stride + 1;
    op.window.kernel_h = op.window.kernel_w = kernel;
    op.window.stride_h = op.window.stride_w = stride;
    op.window.padding_h = op.window.padding_w = padding;
    op.window.groups = groups;
    op.window.dilation = 1;
    struct tensor_type x = f32(4, n, c, h, h + 1), w = f32(4, o, c / groups, kernel, kernel);
    struct tensor_type y = f32(4, n, o, p, (h + 1 + 2 * padding - kernel) / stride + 1);
    struct tensor_type b = f32(1, o, 0, 0, 0);
    op.kind = OP_conv2d;
    compare(t, &(struct subject){.name = "conv2d",
                                 .op = op,
                                 .types = {x, w, b, y},
                                 .reads = 3,
                                 .writes = 1,
                                 .bound = 2e-5});
    op.kind = OP_conv2d_input_grad;
    compare(t, &(struct subject){.name = "conv2d_input_grad",
                                 .op = op,
                                 .types = {y, w, x},
                                 .reads = 2,
                                 .writes = 1,
                                 .bound = 2e-5});
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        op.kind = OP_conv2d_weight_grad;
        op.accumulate = accumulate;
        compare(t, &(struct subject){.name = accumulate ? "conv2d_weight_grad, added"
                                                        : "conv2d_weight_grad",
                                     .op = op,
                                     .types = {y, x, w, b},
                                     .reads = 2,
                                     .writes = 2,
                                     .bound = 5e-5});
    }
}

static void norm_ops(struct tally *t, int64_t n, int64_t c, int64_t h)
{
    struct tensor_type x = f32(4, n, c, h, h), v = f32(1, c, 0, 0, 0), count = i64(0, 0);
    struct op op = {.kind = OP_batch_norm2d, .compute = DTYPE_F32};
    op.norm.epsilon = 1e-5;
    op.norm.momentum = 0.1;
    op.norm.training = true;
    compare(t, &(struct subject){.name = "batch_norm2d, training",
                                 .op = op,
                                 .types = {x, v, v, v, v, count, x, v, v, v, v, count},
                                 .reads = 6,
                                 .writes = 6,
                                 .in_place = {0, 0, 0, 4, 5, 6},
                                 .positive = {[4] = true},
                                 .bound = 2e-5});
    op.norm.training = false;
    compare(t, &(struct subject){.name = "batch_norm2d, evaluation",
                                 .op = op,
                                 .types = {x, v, v, v, v, count, x},
                                 .reads = 6,
                                 .writes = 1,
                                 .positive = {[4] = true},
                                 .bound = 2e-5});
    op.norm.training = true;
    op.kind = OP_batch_norm2d_input_grad;
    compare(t, &(struct subject){.name = "batch_norm2d_input_grad",
                                 .op = op,
                                 .types = {x, x, v, v, v, x},
                                 .reads = 5,
                                 .writes = 1,
                                 .positive = {[4] = true},
                                 .bound = 5e-5});
    op.kind = OP_batch_norm2d_weight_grad;
    compare(t, &(struct subject){.name = "batch_norm2d_weight_grad",
                                 .op = op,
                                 .types = {x, x, v, v, v, v},
                                 .reads = 4,
                                 .writes = 2,
                                 .positive = {[3] = true},
                                 .bound = 5e-5});
}

static void pool_ops(struct tally *t, int64_t n, int64_t c, int64_t h, int kernel, int stride,
                     int padding)
{
    struct op op = {.compute = DTYPE_F32};
    int64_t p = (h + 2 * padding - kernel) / stride + 1;
    struct tensor_type x = f32(4, n, c, h, h), y = f32(4, n, c, p, p), one = f32(4, n, c, 1, 1);
    op.window.kernel_h = op.window.kernel_w = kernel;
    op.window.stride_h = op.window.stride_w = stride;
    op.window.padding_h = op.window.padding_w = padding;
    op.window.dilation = op.window.groups = 1;
    op.kind = OP_max_pool2d;
    compare(
        t,
        &(struct subject){
            .name = "max_pool2d", .op = op, .types = {x, y}, .reads = 1, .writes = 1, .bound = 0});
    op.kind = OP_avg_pool2d;
    compare(t, &(struct subject){.name = "avg_pool2d",
                                 .op = op,
                                 .types = {x, y},
                                 .reads = 1,
                                 .writes = 1,
                                 .bound = 1e-5});
    op.kind = OP_avg_pool2d_grad;
    compare(t, &(struct subject){.name = "avg_pool2d_grad",
                                 .op = op,
                                 .types = {y, x},
                                 .reads = 1,
                                 .writes = 1,
                                 .bound = 1e-5});
    op.window.output_h = op.window.output_w = 1;
    op.kind = OP_avg_pool2d;
    compare(t, &(struct subject){.name = "avg_pool2d, global",
                                 .op = op,
                                 .types = {x, one},
                                 .reads = 1,
                                 .writes = 1,
                                 .bound = 1e-5});
    op.kind = OP_avg_pool2d_grad;
    compare(t, &(struct subject){.name = "avg_pool2d_grad, global",
                                 .op = op,
                                 .types = {one, x},
                                 .reads = 1,
                                 .writes = 1,
                                 .bound = 1e-5});
}

static void loss_ops(struct tally *t, int64_t n, int64_t c)
{
    struct tensor_type x = f32(2, n, c, 0, 0), target = i64(1, n), control = f32(1, 4, 0, 0, 0),
                       losses = f32(1, 3, 0, 0, 0);
    struct op op = {.compute = DTYPE_F32};
    op.loss.weight = 0.25;
    op.kind = OP_mse_loss_grad;
    compare(t, &(struct subject){.name = "mse_loss_grad",
                                 .op = op,
                                 .types = {x, x, x},
                                 .reads = 2,
                                 .writes = 1,
                                 .bound = 1e-6});
    op.kind = OP_cross_entropy_grad;
    compare(t, &(struct subject){.name = "cross_entropy_grad",
                                 .op = op,
                                 .types = {x, target, x},
                                 .reads = 2,
                                 .writes = 1,
                                 .limit = {[1] = c},
                                 .bound = 1e-5});
    (void)control;
    (void)losses;
}

static void small_ops(struct tally *t, int64_t n)
{
    struct tensor_type x = f32(1, n, 0, 0, 0);
    struct op op = {.compute = DTYPE_F32};
    op.kind = OP_relu;
    compare(t, &(struct subject){
                   .name = "relu", .op = op, .types = {x, x}, .reads = 1, .writes = 1, .bound = 0});
    op.kind = OP_relu_grad;
    compare(t, &(struct subject){.name = "relu_grad",
                                 .op = op,
                                 .types = {x, x, x},
                                 .reads = 2,
                                 .writes = 1,
                                 .bound = 0});
    op.kind = OP_add;
    compare(t,
            &(struct subject){
                .name = "add", .op = op, .types = {x, x, x}, .reads = 2, .writes = 1, .bound = 0});
    op.kind = OP_zero;
    compare(t, &(struct subject){
                   .name = "zero", .op = op, .types = {x}, .reads = 0, .writes = 1, .bound = 0});
    op.kind = OP_bucket_copy;
    op.scale_add.alpha = 0.125;
    compare(t, &(struct subject){.name = "bucket_copy",
                                 .op = op,
                                 .types = {x, x},
                                 .reads = 1,
                                 .writes = 1,
                                 .bound = 1e-7});
    op.kind = OP_scale_add;
    op.scale_add.beta = -0.5;
    compare(t, &(struct subject){.name = "scale_add",
                                 .op = op,
                                 .types = {x, x, x},
                                 .reads = 2,
                                 .writes = 1,
                                 .in_place = {2},
                                 .bound = 1e-6});
    struct tensor_type flat = f32(1, 3 * n, 0, 0, 0);
    op = (struct op){.kind = OP_pack, .compute = DTYPE_F32};
    compare(t, &(struct subject){.name = "pack",
                                 .op = op,
                                 .types = {x, x, x, flat},
                                 .reads = 3,
                                 .writes = 1,
                                 .bound = 0});
    op.kind = OP_unpack;
    compare(t, &(struct subject){.name = "unpack",
                                 .op = op,
                                 .types = {flat, x, x, x},
                                 .reads = 1,
                                 .writes = 3,
                                 .bound = 0});
}

static void optimizer_ops(struct tally *t, int64_t n)
{
    struct tensor_type p = f32(1, n, 0, 0, 0), q = f32(2, 3, n, 0, 0), control = f32(1, 4, 0, 0, 0),
                       count = i64(0, 0);
    struct op op = {.kind = OP_sgd, .compute = DTYPE_F32};
    op.sgd.momentum = 0.9;
    op.sgd.weight_decay = 0.01;
    compare(t, &(struct subject){.name = "sgd, momentum",
                                 .op = op,
                                 .types = {control, count, p, p, p, q, q, q, count, p, p, q, q},
                                 .reads = 8,
                                 .writes = 5,
                                 .in_place = {2, 3, 5, 6, 8},
                                 .limit = {[1] = 3},
                                 .bound = 1e-5});
    op = (struct op){.kind = OP_adamw, .compute = DTYPE_F32};
    op.adam.beta1 = 0.9;
    op.adam.beta2 = 0.999;
    op.adam.epsilon = 1e-8;
    op.adam.weight_decay = 0.01;
    compare(t, &(struct subject){.name = "adamw",
                                 .op = op,
                                 .types = {control, count, p, p, p, p, count, p, p, p},
                                 .reads = 6,
                                 .writes = 4,
                                 .in_place = {2, 3, 5, 6},
                                 .positive = {[5] = true},
                                 .limit = {[1] = 3},
                                 .bound = 2e-5});
    op.kind = OP_adam;
    compare(t, &(struct subject){.name = "adam",
                                 .op = op,
                                 .types = {control, count, p, p, p, p, count, p, p, p},
                                 .reads = 6,
                                 .writes = 4,
                                 .in_place = {2, 3, 5, 6},
                                 .positive = {[5] = true},
                                 .limit = {[1] = 3},
                                 .bound = 2e-5});
}

static void embedding_ops(struct tally *t, int64_t rows, int64_t vocabulary, int64_t width)
{
    struct tensor_type index = i64(1, rows), w = f32(2, vocabulary, width, 0, 0),
                       y = f32(2, rows, width, 0, 0);
    struct op op = {.kind = OP_embedding, .compute = DTYPE_F32};
    compare(t, &(struct subject){.name = "embedding",
                                 .op = op,
                                 .types = {index, w, y},
                                 .reads = 2,
                                 .writes = 1,
                                 .limit = {vocabulary},
                                 .bound = 0});
    op.kind = OP_embedding_weight_grad;
    compare(t, &(struct subject){.name = "embedding_weight_grad",
                                 .op = op,
                                 .types = {y, index, w},
                                 .reads = 2,
                                 .writes = 1,
                                 .limit = {[1] = vocabulary},
                                 .bound = 1e-6});
}

static enum rh_status open_both(struct tally *t, struct platform **platform)
{
    static const int device = 0;
    cJSON *json = cJSON_CreateString("hgx-h200");
    char version[128];
    RETURN_IF_FAILED(platform_open(platform));
    RETURN_IF_FAILED(cluster_open(*platform, json, "parity", 1, &t->cluster));
    cJSON_Delete(json);
    struct backend_options options = {.cluster = t->cluster,
                                      .devices = &device,
                                      .device_count = 1,
                                      .numbers = true,
                                      .compute_scale = 1,
                                      .bucket_tensor_seconds = -1};
    RETURN_IF_FAILED(backend_find("reference", &t->backends[0]));
    RETURN_IF_FAILED(backend_find("cuda", &t->backends[1]));
    RETURN_IF_FAILED(t->backends[1]->probe(version));
    printf("%s\n", version);
    RETURN_IF_FAILED(t->backends[0]->open(&options, &t->sessions[0]));
    return t->backends[1]->open(&options, &t->sessions[1]);
}

int main(int argc, char **argv)
{
    struct tally t = {.seed = argc > 1 ? (uint64_t)atoll(argv[1]) : (uint64_t)time(NULL)};
    struct platform *platform = NULL;
    if (open_both(&t, &platform) != RH_OK) {
        printf("skipped parity: %s\nparity: 0 passed, 0 failed, 1 skipped\n", fail_message());
        return 77;
    }
    printf("seed %llu\n", (unsigned long long)t.seed);
    linear_ops(&t, 20, 10, 5);
    linear_ops(&t, 33, 127, 65);
    linear_ops(&t, 256, 512, 1000);
    conv_ops(&t, 2, 3, 9, 4, 3, 1, 1, 1);
    conv_ops(&t, 3, 8, 14, 16, 3, 2, 1, 4);
    conv_ops(&t, 2, 3, 31, 8, 7, 2, 3, 1);
    conv_ops(&t, 4, 64, 14, 32, 1, 1, 0, 1);
    norm_ops(&t, 4, 3, 5);
    norm_ops(&t, 16, 65, 14);
    pool_ops(&t, 2, 3, 9, 3, 2, 1);
    pool_ops(&t, 3, 17, 12, 2, 2, 0);
    loss_ops(&t, 7, 5);
    loss_ops(&t, 128, 1000);
    small_ops(&t, 1);
    small_ops(&t, 1025);
    small_ops(&t, 1 << 20);
    optimizer_ops(&t, 1);
    optimizer_ops(&t, 999);
    embedding_ops(&t, 16, 1000, 10);
    embedding_ops(&t, 129, 33, 7);
    printf("parity: %d passed, %d failed, 0 skipped\n", t.passed, t.failed);
    for (int i = 0; i < 2; i++)
        t.backends[i]->close(t.sessions[i]);
    cluster_free(t.cluster);
    platform_close(platform);
    return t.failed != 0;
}
