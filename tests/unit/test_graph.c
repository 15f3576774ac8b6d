/* Training graphs: order of reads and writes, gradients of whole models against differences, the
 * order in which ResNet-50's gradients arrive, its FLOPs and DDP's buckets. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kernels/cpu/cpu.h"
#include "model/graph.h"
#include "strategy/bucket_assign.h"

static struct model *build(const char *text)
{
    cJSON *json = NULL;
    struct model *model = NULL;
    CU_ASSERT_EQUAL_FATAL(json_read_text("test", text, &json), RH_OK);
    if (model_from_json(json, "test", &model) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    cJSON_Delete(json);
    return model;
}

static struct graph *derive(const struct model *model, enum loss_kind loss, int64_t batch)
{
    struct graph_options options = {.batch = batch,
                                    .loss = loss,
                                    .loss_weight = 1,
                                    .precision = DTYPE_F32,
                                    .training = true,
                                    .loss_slots = 1};
    struct graph *graph = NULL;
    if (graph_new(model, &options, &graph) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(graph);
    return graph;
}

static const char residual[] =
    "{\"name\":\"residual\",\"input\":[2,6,6],\"layers\":["
    "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n1\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"r1\",\"op\":\"relu\"},"
    "{\"name\":\"c2\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1,\"groups\":2},"
    "{\"name\":\"n2\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"n2\",\"r1\"]},"
    "{\"name\":\"r2\",\"op\":\"relu\"},"
    "{\"name\":\"m\",\"op\":\"max_pool2d\",\"kernel\":2},"
    "{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1},"
    "{\"name\":\"f\",\"op\":\"flatten\"},"
    "{\"name\":\"fc\",\"op\":\"linear\",\"out\":3}]}";

static const char *const models[] = {"\"toy\"",
                                     "{\"name\":\"mlp\",\"sizes\":[5,7,6,3]}",
                                     "\"embedding-linear\"",
                                     residual,
                                     "\"resnet18\"",
                                     "\"resnet50\"",
                                     "\"vgg11_bn\"",
                                     "\"alexnet\""};
enum { MODEL_COUNT = sizeof models / sizeof *models };

static enum loss_kind loss_of(const char *model)
{
    return strstr(model, "toy") || strstr(model, "embedding") ? LOSS_MSE : LOSS_CROSS_ENTROPY;
}

/* The value whose bytes these are. */
static int owner(const struct graph *g, int value)
{
    while (g->values[value].alias_of >= 0)
        value = g->values[value].alias_of;
    return value;
}

static bool is_given(enum value_kind kind)
{
    return kind == VALUE_INPUT || kind == VALUE_TARGET || kind == VALUE_CONTROL ||
           kind == VALUE_PARAMETER || kind == VALUE_LOW_PARAMETER || kind == VALUE_STATE;
}

static void assert_written_before_read(const struct graph *g)
{
    bool *there = calloc((size_t)g->value_count, sizeof *there);
    for (int v = 0; v < g->value_count; v++)
        there[v] = is_given(g->values[v].kind);
    for (int n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        for (int i = 0; i < node->read_count; i++) {
            int value = owner(g, g->operands[node->read_first + i]);
            if (!there[value])
                fprintf(stderr, "    %s reads '%s' too early\n", op_name(node->op.kind),
                        g->values[value].name);
            CU_ASSERT_TRUE(there[value]);
        }
        for (int i = 0; i < node->write_count; i++) {
            int value = g->operands[node->write_first + i];
            /* nothing but running statistics is written over */
            CU_ASSERT_TRUE(!there[value] || g->values[value].kind == VALUE_STATE);
            there[value] = true;
        }
    }
    free(there);
}

static void test_written_before_read(void)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        struct model *m = build(models[i]);
        struct graph *g = derive(m, loss_of(models[i]), 2);
        assert_written_before_read(g);
        graph_free(g);
        model_free(m);
    }
}

/* Every node's operands fit its op. */
static void test_operands_fit(void)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        struct model *m = build(models[i]);
        struct graph *g = derive(m, loss_of(models[i]), 4);
        for (int n = 0; n < g->node_count; n++) {
            const struct node *node = &g->nodes[n];
            struct tensor_type types[16];
            int count = node->read_count + node->write_count;
            CU_ASSERT_TRUE_FATAL(count <= 16);
            for (int k = 0; k < node->read_count; k++)
                types[k] = g->values[g->operands[node->read_first + k]].type;
            for (int k = 0; k < node->write_count; k++)
                types[node->read_count + k] = g->values[g->operands[node->write_first + k]].type;
            if (op_check(&node->op, types, node->read_count, &types[node->read_count],
                         node->write_count) != RH_OK) {
                fprintf(stderr, "    %s: %s\n", models[i], fail_message());
                CU_FAIL("an operand does not fit");
            }
        }
        graph_free(g);
        model_free(m);
    }
}

static void test_one_gradient_per_parameter(void)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        struct model *m = build(models[i]);
        struct graph *g = derive(m, loss_of(models[i]), 2);
        int *writes = calloc((size_t)g->value_count, sizeof *writes);
        for (int n = 0; n < g->node_count; n++)
            for (int k = 0; k < g->nodes[n].write_count; k++)
                writes[g->operands[g->nodes[n].write_first + k]]++;
        for (int p = 0; p < m->parameter_count; p++) {
            int value = g->parameter_gradient[p];
            CU_ASSERT_TRUE_FATAL(value >= 0);
            CU_ASSERT_EQUAL(writes[value], 1);
            CU_ASSERT_EQUAL(g->values[value].kind, VALUE_PARAMETER_GRADIENT);
            CU_ASSERT_EQUAL(g->values[value].index, p);
            CU_ASSERT_EQUAL(g->values[value].type.dtype, DTYPE_F32);
            CU_ASSERT_TRUE(shape_equal(&g->values[value].type.shape, &m->parameters[p].shape));
        }
        free(writes);
        graph_free(g);
        model_free(m);
    }
}

/* ---- a small interpreter ----------------------------------------------------------------------
 */

static void **memory_for(const struct graph *g)
{
    void **data = calloc((size_t)g->value_count, sizeof *data);
    for (int v = 0; v < g->value_count; v++) {
        size_t bytes = type_bytes(&g->values[v].type);
        if (g->values[v].alias_of < 0)
            data[v] = calloc(1, bytes ? bytes : 1);
    }
    return data;
}

static void memory_free(const struct graph *g, void **data)
{
    for (int v = 0; v < g->value_count; v++)
        free(data[v]);
    free(data);
}

static struct cpu_tensor tensor_of(const struct graph *g, void **data, int value)
{
    return (struct cpu_tensor){data[owner(g, value)], g->values[value].type};
}

/* Inputs, targets and parameters. Small integers for indices and classes; running statistics as at
 * the start. */
static void fill(const struct graph *g, void **data)
{
    for (int v = 0; v < g->value_count; v++) {
        const struct value *value = &g->values[v];
        int64_t elements = shape_elements(&value->type.shape);
        float *numbers = data[v];
        int64_t *integers = data[v];
        if (value->kind == VALUE_PARAMETER)
            parameter_init(&g->model->parameters[value->index], 3, numbers);
        else if (value->kind == VALUE_STATE)
            state_init(&g->model->states[value->index], data[v]);
        else if (value->kind == VALUE_INPUT || value->kind == VALUE_TARGET)
            for (int64_t i = 0; i < elements; i++) {
                if (value->type.dtype == DTYPE_I64)
                    integers[i] = (i * 2) % 3;
                else
                    numbers[i] = (float)sin(1.7 * (double)i + v + 0.3);
            }
    }
}

static double run(const struct graph *g, void **data)
{
    for (int n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        struct cpu_tensor reads[16];
        struct cpu_tensor writes[16];
        for (int k = 0; k < node->read_count; k++)
            reads[k] = tensor_of(g, data, g->operands[node->read_first + k]);
        for (int k = 0; k < node->write_count; k++)
            writes[k] = tensor_of(g, data, g->operands[node->write_first + k]);
        if (cpu_run(&node->op, reads, node->read_count, writes, node->write_count) != RH_OK) {
            fprintf(stderr, "    %s\n", fail_message());
            CU_FAIL_FATAL("a node did not run");
        }
    }
    return *(float *)data[g->losses];
}

static double loss_at(const struct graph *g, void **data, float *element, double value)
{
    float kept = *element;
    *element = (float)value;
    double loss = run(g, data);
    *element = kept;
    return loss;
}

/* All elements of small parameters, a few of large ones. The step is small enough to cross no kink
 * of relu and no tie of max pooling; rounding of the fp32 loss, 1e-7, over 2h is 5e-5. */
static void check_gradients(const char *text, enum loss_kind loss, int64_t batch)
{
    const double h = 1e-3;
    struct model *m = build(text);
    struct graph *g = derive(m, loss, batch);
    void **data = memory_for(g);
    fill(g, data);
    CU_ASSERT_TRUE(isfinite(run(g, data)));
    for (int p = 0; p < m->parameter_count; p++) {
        int64_t elements = shape_elements(&m->parameters[p].shape);
        int64_t stride = elements > 64 ? elements / 29 : 1;
        float *values = data[g->parameter_value[p]];
        double largest = 0.01;
        double worst = 0;
        float *expected = malloc((size_t)elements * sizeof *expected);
        memcpy(expected, data[g->parameter_gradient[p]], (size_t)elements * sizeof *expected);
        for (int64_t i = 0; i < elements; i += stride) {
            double up = loss_at(g, data, &values[i], values[i] + h);
            double down = loss_at(g, data, &values[i], values[i] - h);
            double slope = (up - down) / (2 * h);
            largest = fmax(largest, fabs(slope));
            worst = fmax(worst, fabs(slope - expected[i]));
        }
        free(expected);
        if (worst > 0.02 * largest)
            fprintf(stderr, "    %s: largest slope %g, worst difference %g\n",
                    m->parameters[p].name, largest, worst);
        CU_ASSERT_TRUE(worst <= 0.02 * largest);
    }
    memory_free(g, data);
    graph_free(g);
    model_free(m);
}

static void test_gradients_of_mlp(void)
{
    check_gradients("{\"name\":\"mlp\",\"sizes\":[5,7,6,3]}", LOSS_CROSS_ENTROPY, 4);
    check_gradients("{\"name\":\"mlp\",\"sizes\":[5,7,3]}", LOSS_MSE, 4);
}

/* Index 0 is read twice in a batch of 4: its gradients add up; others stay 0. */
static void test_gradients_of_embedding(void)
{
    check_gradients("\"embedding-linear\"", LOSS_MSE, 4);
    struct model *m = build("\"embedding-linear\"");
    struct graph *g = derive(m, LOSS_MSE, 4);
    void **data = memory_for(g);
    fill(g, data);
    run(g, data);
    const float *gradient = data[g->parameter_gradient[0]];
    CU_ASSERT_NOT_EQUAL(gradient[0], 0);
    CU_ASSERT_NOT_EQUAL(gradient[20], 0);
    for (int i = 30; i < 10000; i++)
        CU_ASSERT_EQUAL(gradient[i], 0);
    memory_free(g, data);
    graph_free(g);
    model_free(m);
}

static void test_gradients_of_residual(void)
{
    check_gradients(residual, LOSS_CROSS_ENTROPY, 3);
}

/* A layer read twice by one add, and a value read by three layers. */
static void test_gradients_of_shared_values(void)
{
    check_gradients("{\"name\":\"fan\",\"input\":[4],\"layers\":["
                    "{\"name\":\"a\",\"op\":\"linear\",\"out\":4},"
                    "{\"name\":\"twice\",\"op\":\"add\",\"inputs\":[\"a\",\"a\"]},"
                    "{\"name\":\"b\",\"op\":\"linear\",\"out\":4,\"input\":\"a\"},"
                    "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"twice\",\"b\"]},"
                    "{\"name\":\"t\",\"op\":\"add\",\"inputs\":[\"s\",\"a\"]},"
                    "{\"name\":\"c\",\"op\":\"linear\",\"out\":3}]}",
                    LOSS_MSE, 3);
}

static void test_loss_weight_scales_gradients(void)
{
    struct model *m = build("\"toy\"");
    double loss[2];
    float gradient[2];
    for (int half = 0; half < 2; half++) {
        struct graph_options options = {.batch = 4,
                                        .loss = LOSS_MSE,
                                        .loss_weight = half ? 0.5 : 1,
                                        .precision = DTYPE_F32,
                                        .training = true,
                                        .loss_slots = 2};
        struct graph *g = NULL;
        CU_ASSERT_EQUAL_FATAL(graph_new(m, &options, &g), RH_OK);
        void **data = memory_for(g);
        fill(g, data);
        loss[half] = run(g, data);
        gradient[half] = *(float *)data[g->parameter_gradient[0]];
        memory_free(g, data);
        graph_free(g);
    }
    UNIT_ASSERT_NEAR(loss[1], loss[0] / 2, 1e-6);
    UNIT_ASSERT_NEAR(gradient[1], gradient[0] / 2, 1e-6);
    model_free(m);
}

/* Forward and loss alone; running statistics are read, not written. */
static void test_evaluation(void)
{
    struct model *m = build(residual);
    struct graph_options options = {.batch = 3,
                                    .loss = LOSS_CROSS_ENTROPY,
                                    .loss_weight = 1,
                                    .precision = DTYPE_F32,
                                    .loss_slots = 1};
    struct graph *g = NULL;
    CU_ASSERT_EQUAL_FATAL(graph_new(m, &options, &g), RH_OK);
    for (int n = 0; n < g->node_count; n++) {
        CU_ASSERT_TRUE(g->nodes[n].phase == PHASE_FORWARD || g->nodes[n].phase == PHASE_LOSS);
        for (int k = 0; k < g->nodes[n].write_count; k++)
            CU_ASSERT_NOT_EQUAL(g->values[g->operands[g->nodes[n].write_first + k]].kind,
                                VALUE_STATE);
    }
    CU_ASSERT_EQUAL(g->parameter_gradient[0], -1);
    assert_written_before_read(g);
    graph_free(g);
    model_free(m);
}

static void test_low_precision(void)
{
    struct model *m = build(residual);
    struct graph_options options = {.batch = 3,
                                    .loss = LOSS_CROSS_ENTROPY,
                                    .loss_weight = 1,
                                    .precision = DTYPE_BF16,
                                    .training = true,
                                    .loss_slots = 1};
    struct graph *g = NULL;
    CU_ASSERT_EQUAL_FATAL(graph_new(m, &options, &g), RH_OK);
    for (int p = 0; p < m->parameter_count; p++) {
        bool norm = m->layers[m->parameters[p].layer].op.kind == OP_batch_norm2d;
        CU_ASSERT_EQUAL(g->low_parameter[p] < 0, norm);
        CU_ASSERT_EQUAL(g->values[g->parameter_value[p]].type.dtype, DTYPE_F32);
        CU_ASSERT_EQUAL(g->values[g->parameter_gradient[p]].type.dtype, DTYPE_F32);
        if (!norm)
            CU_ASSERT_EQUAL(g->values[g->low_parameter[p]].type.dtype, DTYPE_BF16);
    }
    CU_ASSERT_EQUAL(g->values[g->output_of[0]].type.dtype, DTYPE_BF16);
    CU_ASSERT_EQUAL(g->nodes[0].op.compute, DTYPE_BF16);
    assert_written_before_read(g);
    graph_free(g);
    model_free(m);
}

static void test_loss_wants_classes(void)
{
    struct model *m = build("{\"name\":\"net\",\"input\":[3,8,8],\"layers\":[{\"name\":\"r\","
                            "\"op\":\"relu\"}]}");
    struct tensor_type type;
    CU_ASSERT_EQUAL(graph_target_type(m, LOSS_CROSS_ENTROPY, 4, &type), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "(4, 3, 8, 8)");
    CU_ASSERT_EQUAL(graph_target_type(m, LOSS_MSE, 4, &type), RH_OK);
    CU_ASSERT_EQUAL(type.shape.dim[0], 4);
    model_free(m);
}

/* ---- ResNet-50 ------------------------------------------------------------------------------- */

/* Parameters in the order in which backward gives their gradients; a node's writes in reverse. */
static void arrival_order(const struct graph *g, int *order)
{
    int count = 0;
    for (int n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        for (int k = node->write_count - 1; k >= 0; k--) {
            const struct value *value = &g->values[g->operands[node->write_first + k]];
            if (value->kind == VALUE_PARAMETER_GRADIENT)
                order[count++] = value->index;
        }
    }
    CU_ASSERT_EQUAL_FATAL(count, g->model->parameter_count);
}

static void test_resnet50_arrival(void)
{
    struct model *m = build("\"resnet50\"");
    struct graph *g = derive(m, LOSS_CROSS_ENTROPY, 1);
    int order[161];
    CU_ASSERT_EQUAL_FATAL(m->parameter_count, 161);
    arrival_order(g, order);
    for (int i = 0; i < 161; i++)
        CU_ASSERT_EQUAL(order[i], 160 - i);
    graph_free(g);
    model_free(m);
}

static void test_resnet50_flops(void)
{
    struct model *m = build("\"resnet50\"");
    struct graph *g = derive(m, LOSS_CROSS_ENTROPY, 2);
    double forward = 0;
    double matrix = 0;
    double backward = 0;
    for (int n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        struct tensor_type types[16];
        for (int k = 0; k < node->read_count; k++)
            types[k] = g->values[g->operands[node->read_first + k]].type;
        for (int k = 0; k < node->write_count; k++)
            types[node->read_count + k] = g->values[g->operands[node->write_first + k]].type;
        double flops = op_flops(&node->op, types, node->read_count, &types[node->read_count],
                                node->write_count);
        bool matrices = op_class(node->op.kind) == OP_CLASS_CONVOLUTION ||
                        op_class(node->op.kind) == OP_CLASS_MATMUL;
        if (node->phase == PHASE_FORWARD)
            forward += flops;
        if (matrices)
            *(node->phase == PHASE_FORWARD ? &matrix : &backward) += flops;
    }
    UNIT_ASSERT_NEAR(forward / 2, 8.2e9, 0.02);
    /* 4.089e9 multiply-adds; backward costs twice that, less the input's gradient of conv1 */
    UNIT_ASSERT_NEAR(matrix / 2, 2 * 4.0892e9, 0.001);
    UNIT_ASSERT_NEAR(backward / 2, 2 * matrix / 2 - 2.0 * 64 * 147 * 112 * 112, 0.001);
    graph_free(g);
    model_free(m);
}

enum { MIB = 1 << 20 };

/* Buckets of ResNet-50's gradients in arrival order; returns how many, with bytes and tensors. */
static int buckets_of_resnet50(const int64_t *limits, int limit_count, int64_t bytes[64],
                               int tensors[64])
{
    struct model *m = build("\"resnet50\"");
    struct bucket_item items[161];
    int bucket_of[161];
    for (int i = 0; i < 161; i++)
        items[i] = (struct bucket_item){4 * shape_elements(&m->parameters[160 - i].shape), 0};
    int count = bucket_assign(items, 161, limits, limit_count, bucket_of);
    CU_ASSERT_TRUE_FATAL(count <= 64);
    memset(bytes, 0, 64 * sizeof *bytes);
    memset(tensors, 0, 64 * sizeof *tensors);
    for (int i = 0; i < 161; i++) {
        bytes[bucket_of[i]] += items[i].bytes;
        tensors[bucket_of[i]]++;
        CU_ASSERT_TRUE(i == 0 || bucket_of[i] >= bucket_of[i - 1]);
    }
    model_free(m);
    return count;
}

/* torch-semantics.md D15 to D18. */
static void test_resnet50_buckets(void)
{
    static const int64_t whole[] = {-1};
    static const int64_t usual[] = {MIB, 25 * MIB};
    static const int64_t given[] = {25 * MIB};
    static const int64_t small[] = {MIB};
    static const int64_t five[] = {8196000, 31502336, 26255360, 26550272, 9724160};
    static const int five_tensors[] = {2, 15, 12, 51, 81};
    static const int64_t four[] = {30257056, 26255360, 28366848, 17348864};
    int64_t bytes[64];
    int tensors[64];
    CU_ASSERT_EQUAL(buckets_of_resnet50(whole, 1, bytes, tensors), 1);
    CU_ASSERT_EQUAL(bytes[0], 102228128);
    CU_ASSERT_EQUAL(buckets_of_resnet50(usual, 2, bytes, tensors), 5);
    CU_ASSERT_EQUAL(memcmp(bytes, five, sizeof five), 0);
    CU_ASSERT_EQUAL(memcmp(tensors, five_tensors, sizeof five_tensors), 0);
    CU_ASSERT_EQUAL(buckets_of_resnet50(given, 1, bytes, tensors), 4);
    CU_ASSERT_EQUAL(memcmp(bytes, four, sizeof four), 0);
    CU_ASSERT_EQUAL(buckets_of_resnet50(small, 1, bytes, tensors), 35);
    CU_ASSERT_EQUAL(bytes[0], 8196000);
}

static const struct unit_test tests[] = {
    {"written before read", test_written_before_read, NULL},
    {"operands fit", test_operands_fit, NULL},
    {"one gradient per parameter", test_one_gradient_per_parameter, NULL},
    {"gradients of mlp", test_gradients_of_mlp, NULL},
    {"gradients of embedding", test_gradients_of_embedding, NULL},
    {"gradients of residual", test_gradients_of_residual, NULL},
    {"gradients of shared values", test_gradients_of_shared_values, NULL},
    {"loss weight scales gradients", test_loss_weight_scales_gradients, NULL},
    {"evaluation", test_evaluation, NULL},
    {"low precision", test_low_precision, NULL},
    {"loss wants classes", test_loss_wants_classes, NULL},
    {"resnet50 arrival", test_resnet50_arrival, NULL},
    {"resnet50 flops", test_resnet50_flops, NULL},
    {"resnet50 buckets", test_resnet50_buckets, NULL},
};

int main(void)
{
    return UNIT_MAIN("graph", tests);
}
