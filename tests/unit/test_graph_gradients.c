/* Gradients of whole models, run node by node on the host's kernels: against finite differences,
 * and against the cases of torch-semantics.md. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"
#include "kernels/cpu/cpu.h"

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
    return (struct cpu_tensor){data[graphs_owner(g, value)], g->values[value].type};
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
    struct model *m = graphs_build(text);
    struct graph *g = graphs_derive(m, loss, batch);
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
    struct model *m = graphs_build("\"embedding-linear\"");
    struct graph *g = graphs_derive(m, LOSS_MSE, 4);
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
    check_gradients(graphs_residual, LOSS_CROSS_ENTROPY, 3);
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
    struct model *m = graphs_build("\"toy\"");
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
/* ---- cases of torch-semantics.md --------------------------------------------------------------
 */

static struct graph *derive_with(const struct model *m, bool sum, int64_t batch)
{
    struct graph_options options = {.batch = batch,
                                    .loss = LOSS_MSE,
                                    .loss_weight = 1,
                                    .loss_sum = sum,
                                    .precision = DTYPE_F32,
                                    .training = true,
                                    .loss_slots = 1};
    struct graph *g = NULL;
    CU_ASSERT_EQUAL_FATAL(graph_new(m, &options, &g), RH_OK);
    return g;
}

/* M1: w1 = 2, relu, w2 = 3, x = 1, squared error to 0. */
static void test_case_m1(void)
{
    struct model *m = graphs_build("{\"name\":\"m1\",\"input\":[1],\"layers\":["
                                   "{\"name\":\"a\",\"op\":\"linear\",\"out\":1,\"bias\":false},"
                                   "{\"name\":\"r\",\"op\":\"relu\"},"
                                   "{\"name\":\"b\",\"op\":\"linear\",\"out\":1,\"bias\":false}]}");
    struct graph *g = derive_with(m, false, 1);
    void **data = memory_for(g);
    *(float *)data[g->parameter_value[0]] = 2;
    *(float *)data[g->parameter_value[1]] = 3;
    *(float *)data[g->input] = 1;
    CU_ASSERT_EQUAL(run(g, data), 36);
    CU_ASSERT_EQUAL(*(float *)data[g->output_of[2]], 6);
    CU_ASSERT_EQUAL(*(float *)data[g->parameter_gradient[0]], 36);
    CU_ASSERT_EQUAL(*(float *)data[g->parameter_gradient[1]], 24);
    memory_free(g, data);
    graph_free(g);
    model_free(m);
}

/* M6: indices 1, 2, 1 of width 2 through an identity. The sum of outputs has gradient 1 everywhere,
 * and so has the summed square of the distance to targets half below the outputs. */
static void test_case_m6(void)
{
    static const float expected[4][2] = {{0, 0}, {2, 2}, {1, 1}, {0, 0}};
    static const int64_t indices[3] = {1, 2, 1};
    struct model *m = graphs_build("{\"name\":\"m6\",\"input\":\"index\",\"layers\":["
                                   "{\"name\":\"e\",\"op\":\"embedding\",\"vocabulary\":4,"
                                   "\"width\":2},"
                                   "{\"name\":\"l\",\"op\":\"linear\",\"out\":2,\"bias\":false}]}");
    struct graph *g = derive_with(m, true, 3);
    void **data = memory_for(g);
    float *table = data[g->parameter_value[0]];
    float *target = data[g->target];
    float *identity = data[g->parameter_value[1]];
    identity[0] = identity[3] = 1;
    for (int i = 0; i < 8; i++)
        table[i] = (float)i;
    memcpy(data[g->input], indices, sizeof indices);
    for (int i = 0; i < 6; i++)
        target[i] = table[2 * indices[i / 2] + i % 2] - 0.5f;
    CU_ASSERT_EQUAL(run(g, data), 6 * 0.25);
    CU_ASSERT_EQUAL(memcmp(data[g->parameter_gradient[0]], expected, sizeof expected), 0);
    memory_free(g, data);
    graph_free(g);
    model_free(m);
}

static const struct unit_test tests[] = {
    {"gradients of mlp", test_gradients_of_mlp, NULL},
    {"gradients of embedding", test_gradients_of_embedding, NULL},
    {"gradients of residual", test_gradients_of_residual, NULL},
    {"gradients of shared values", test_gradients_of_shared_values, NULL},
    {"loss weight scales gradients", test_loss_weight_scales_gradients, NULL},
    {"case M1", test_case_m1, NULL},
    {"case M6", test_case_m6, NULL},
};

int main(void)
{
    return UNIT_MAIN("graph_gradients", tests);
}
