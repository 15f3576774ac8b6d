/* Training graphs: order of nodes, reads and writes; what fits; what is refused. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "graphs.h"

static const char *const models[] = {"\"toy\"",
                                     "{\"name\":\"mlp\",\"sizes\":[5,7,6,3]}",
                                     "\"embedding-linear\"",
                                     graphs_residual,
                                     "\"resnet18\"",
                                     "\"resnet50\"",
                                     "\"vgg11_bn\"",
                                     "\"alexnet\""};
enum { MODEL_COUNT = sizeof models / sizeof *models };

static enum loss_kind loss_of(const char *model)
{
    return strstr(model, "toy") || strstr(model, "embedding") ? LOSS_MSE : LOSS_CROSS_ENTROPY;
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
            int value = graphs_owner(g, g->operands[node->read_first + i]);
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
        struct model *m = graphs_build(models[i]);
        struct graph *g = graphs_derive(m, loss_of(models[i]), 2);
        assert_written_before_read(g);
        graph_free(g);
        model_free(m);
    }
}

static void assert_operands_fit(const char *text, const struct graph *g)
{
    for (int n = 0; n < g->node_count; n++) {
        const struct node *node = &g->nodes[n];
        struct tensor_type types[16];
        CU_ASSERT_TRUE_FATAL(node->read_count + node->write_count <= 16);
        for (int k = 0; k < node->read_count; k++)
            types[k] = g->values[g->operands[node->read_first + k]].type;
        for (int k = 0; k < node->write_count; k++)
            types[node->read_count + k] = g->values[g->operands[node->write_first + k]].type;
        if (op_check(&node->op, types, node->read_count, &types[node->read_count],
                     node->write_count) != RH_OK) {
            fprintf(stderr, "    %s: %s\n", text, fail_message());
            CU_FAIL("an operand does not fit");
        }
    }
}

/* Every node's operands fit its op, in each precision, in training and evaluation. */
static void test_operands_fit(void)
{
    static const enum dtype precisions[] = {DTYPE_F32, DTYPE_TF32, DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < MODEL_COUNT * 8; i++) {
        const char *text = models[i / 8];
        struct model *m = graphs_build(text);
        struct graph_options options = {.batch = 4,
                                        .loss = loss_of(text),
                                        .loss_weight = 1,
                                        .precision = precisions[i % 4],
                                        .training = i % 8 < 4,
                                        .loss_slots = 1};
        struct graph *g = NULL;
        CU_ASSERT_EQUAL_FATAL(graph_new(m, &options, &g), RH_OK);
        assert_operands_fit(text, g);
        graph_free(g);
        model_free(m);
    }
}

/* Backward runs from the last layer to the first; where a layer has both gradients, the input's
 * stands before the weights'. A sum of gradients stands at the nearest reader. */
static void test_execution_order(void)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        struct model *m = graphs_build(models[i]);
        struct graph *g = graphs_derive(m, loss_of(models[i]), 2);
        for (int n = 1; n < g->node_count; n++) {
            const struct node *before = &g->nodes[n - 1];
            const struct node *node = &g->nodes[n];
            bool was_backward = before->phase >= PHASE_BACKWARD_INPUT;
            CU_ASSERT_TRUE(node->phase >= before->phase || was_backward);
            CU_ASSERT_TRUE(!was_backward || node->phase >= PHASE_BACKWARD_INPUT);
            CU_ASSERT_TRUE(was_backward ? node->layer <= before->layer
                                        : node->phase >= PHASE_BACKWARD_INPUT ||
                                              node->layer >= before->layer);
            CU_ASSERT_FALSE(before->phase == PHASE_BACKWARD_WEIGHT &&
                            node->phase == PHASE_BACKWARD_INPUT && node->layer == before->layer);
        }
        graph_free(g);
        model_free(m);
    }
}

/* Every gradient of an activation has a reader: none is computed in vain, as that of the model's
 * input or of layers before the first parameter. */
static void assert_gradients_are_read(const struct graph *g)
{
    bool *read = calloc((size_t)g->value_count, sizeof *read);
    for (int n = 0; n < g->node_count; n++)
        for (int k = 0; k < g->nodes[n].read_count; k++)
            read[graphs_owner(g, g->operands[g->nodes[n].read_first + k])] = true;
    for (int v = 0; v < g->value_count; v++) {
        bool needed = g->values[v].kind != VALUE_GRADIENT || read[graphs_owner(g, v)];
        if (!needed)
            fprintf(stderr, "    nobody reads '%s'\n", g->values[v].name);
        CU_ASSERT_TRUE(needed);
    }
    free(read);
}

static void test_no_gradient_in_vain(void)
{
    static const char late[] =
        "{\"name\":\"late\",\"input\":[2,4,4],\"layers\":[{\"name\":\"r\",\"op\":\"relu\"},"
        "{\"name\":\"p\",\"op\":\"max_pool2d\",\"kernel\":2},{\"name\":\"f\",\"op\":"
        "\"flatten\"},{\"name\":\"fc\",\"op\":\"linear\",\"out\":3}]}";
    for (int i = 0; i <= MODEL_COUNT; i++) {
        const char *text = i < MODEL_COUNT ? models[i] : late;
        struct model *m = graphs_build(text);
        struct graph *g = graphs_derive(m, loss_of(text), 2);
        assert_gradients_are_read(g);
        if (i == MODEL_COUNT)
            for (int layer = 0; layer < 3; layer++)
                CU_ASSERT_EQUAL(g->gradient_of[layer], -1);
        graph_free(g);
        model_free(m);
    }
}

static void test_one_gradient_per_parameter(void)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        struct model *m = graphs_build(models[i]);
        struct graph *g = graphs_derive(m, loss_of(models[i]), 2);
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

/* Forward and loss alone; running statistics are read, not written. */
static void test_evaluation(void)
{
    struct model *m = graphs_build(graphs_residual);
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
    struct model *m = graphs_build(graphs_residual);
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
    struct model *m =
        graphs_build("{\"name\":\"net\",\"input\":[3,8,8],\"layers\":[{\"name\":\"r\","
                     "\"op\":\"relu\"}]}");
    struct tensor_type type;
    CU_ASSERT_EQUAL(graph_target_type(m, LOSS_CROSS_ENTROPY, 4, &type), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "(4, 3, 8, 8)");
    CU_ASSERT_EQUAL(graph_target_type(m, LOSS_MSE, 4, &type), RH_OK);
    CU_ASSERT_EQUAL(type.shape.dim[0], 4);
    model_free(m);
}

/* A graph of nothing, or for nothing, is refused. */
static void test_nothing(void)
{
    int64_t width = 4;
    struct tensor_type input = {DTYPE_F32, shape_of(1, &width)};
    struct model *m = model_new("empty", &input);
    struct graph_options options = {
        .batch = 2, .loss = LOSS_MSE, .loss_weight = 1, .training = true, .loss_slots = 1};
    struct graph *g = NULL;
    int layer = 0;
    CU_ASSERT_EQUAL(graph_new(m, &options, &g), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "model 'empty' has no layers");
    CU_ASSERT_PTR_NULL(g);
    CU_ASSERT_EQUAL(model_linear(m, "fc", MODEL_INPUT, 2, true, &layer), RH_OK);
    for (options.batch = 0; options.batch >= -1; options.batch--) {
        CU_ASSERT_EQUAL(graph_new(m, &options, &g), RH_INVALID);
        UNIT_ASSERT_CONTAINS(fail_message(), options.batch ? "a batch of -1" : "a batch of 0");
        CU_ASSERT_PTR_NULL(g);
    }
    model_free(m);
}

static size_t bytes_of(const struct graph *g, int value)
{
    CU_ASSERT_TRUE_FATAL(value >= 0);
    return type_bytes(&g->values[value].type);
}

/* What a strategy would move: torch-semantics.md M2 (toy, batch 20) and M7 (16 indices). */
static void test_boundary_bytes(void)
{
    struct model *m = graphs_build("\"toy\"");
    struct graph *g = graphs_derive(m, LOSS_MSE, 20);
    int relu = model_find_layer(m, "relu");
    CU_ASSERT_EQUAL(bytes_of(g, g->input), 800);
    CU_ASSERT_EQUAL(bytes_of(g, g->output_of[relu]), 800);
    CU_ASSERT_EQUAL(bytes_of(g, g->gradient_of[relu]), 800);
    CU_ASSERT_EQUAL(bytes_of(g, g->target), 400);
    graph_free(g);
    model_free(m);
    m = graphs_build("\"embedding-linear\"");
    g = graphs_derive(m, LOSS_MSE, 16);
    CU_ASSERT_EQUAL(bytes_of(g, g->output_of[0]), 640);
    CU_ASSERT_EQUAL(bytes_of(g, g->gradient_of[0]), 640);
    CU_ASSERT_EQUAL(g->values[g->input].type.dtype, DTYPE_I64);
    graph_free(g);
    model_free(m);
}

static const struct unit_test tests[] = {
    {"written before read", test_written_before_read, NULL},
    {"operands fit", test_operands_fit, NULL},
    {"execution order", test_execution_order, NULL},
    {"no gradient in vain", test_no_gradient_in_vain, NULL},
    {"one gradient per parameter", test_one_gradient_per_parameter, NULL},
    {"evaluation", test_evaluation, NULL},
    {"low precision", test_low_precision, NULL},
    {"loss wants classes", test_loss_wants_classes, NULL},
    {"nothing", test_nothing, NULL},
    {"boundary bytes", test_boundary_bytes, NULL},
};

int main(void)
{
    return UNIT_MAIN("graph", tests);
}
