/* Models: torchvision's parameter counts, names, order and shapes; initial values. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graphs.h"

static void test_parameter_counts(void)
{
    static const struct {
        const char *name;
        int64_t elements;
        int tensors;
    } known[] = {
        {"toy", 165, 4},
        {"embedding-linear", 10110, 3},
        {"mlp", 784 * 512 + 512 + 512 * 512 + 512 + 5130, 6},
        {"resnet18", 11689512, 62},
        {"resnet34", 21797672, 110},
        {"resnet50", 25557032, 161},
        {"resnet101", 44549160, 314},
        {"resnet152", 60192808, 467},
        {"resnext50_32x4d", 25028904, 161},
        {"resnext101_32x8d", 88791336, 314},
        {"vgg11", 132863336, 22},
        {"vgg11_bn", 132868840, 38},
        {"vgg13", 133047848, 26},
        {"vgg13_bn", 133053736, 46},
        {"vgg16", 138357544, 32},
        {"vgg16_bn", 138365992, 58},
        {"vgg19", 143667240, 38},
        {"vgg19_bn", 143678248, 70},
        {"alexnet", 61100840, 16},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[64];
        snprintf(text, sizeof text, "\"%s\"", known[i].name);
        struct model *m = graphs_build(text);
        CU_ASSERT_EQUAL(model_parameter_elements(m), known[i].elements);
        CU_ASSERT_EQUAL(m->parameter_count, known[i].tensors);
        CU_ASSERT_STRING_EQUAL(m->name, known[i].name);
        model_free(m);
    }
}

static void test_every_builder_builds(void)
{
    int count = 0;
    for (; model_builder_name(count); count++) {
        char text[64];
        snprintf(text, sizeof text, "\"%s\"", model_builder_name(count));
        struct model *m = graphs_build(text);
        struct tensor_type output = model_output_type(m, m->layer_count - 1);
        CU_ASSERT_EQUAL(output.shape.rank, 2);
        model_free(m);
    }
    CU_ASSERT_EQUAL(count, 19);
    CU_ASSERT_PTR_NULL(model_builder_name(-1));
}

static void test_resnet50_statistics(void)
{
    struct model *m = graphs_build("\"resnet50\"");
    int counters = 0;
    size_t bytes = 0;
    for (int i = 0; i < m->state_count; i++)
        if (m->states[i].type.dtype == DTYPE_I64)
            counters++;
        else
            bytes += type_bytes(&m->states[i].type);
    CU_ASSERT_EQUAL(counters, 53);
    CU_ASSERT_EQUAL(bytes, 212480);
    CU_ASSERT_EQUAL(m->state_count, 3 * 53);
    CU_ASSERT_STRING_EQUAL(m->states[0].name, "bn1.running_mean");
    CU_ASSERT_STRING_EQUAL(m->states[1].name, "bn1.running_var");
    CU_ASSERT_STRING_EQUAL(m->states[2].name, "bn1.num_batches_tracked");
    model_free(m);
}

/* Elements of the parameters whose name starts with `prefix` and a dot. */
static int64_t elements_below(const struct model *m, const char *prefix)
{
    int64_t elements = 0;
    size_t length = strlen(prefix);
    for (int i = 0; i < m->parameter_count; i++)
        if (strncmp(m->parameters[i].name, prefix, length) == 0 &&
            m->parameters[i].name[length] == '.')
            elements += shape_elements(&m->parameters[i].shape);
    return elements;
}

/* torch-semantics.md 6.2. */
static void test_resnet50_halves(void)
{
    static const struct {
        const char *part;
        int64_t elements;
    } parts[] = {{"conv1", 9408},     {"bn1", 128},         {"layer1", 215808}, {"layer2", 1219584},
                 {"layer3", 7098368}, {"layer4", 14964736}, {"fc", 2049000}};
    struct model *m = graphs_build("\"resnet50\"");
    int64_t front = 0;
    int64_t back = 0;
    for (int i = 0; i < 7; i++) {
        CU_ASSERT_EQUAL(elements_below(m, parts[i].part), parts[i].elements);
        *(i < 4 ? &front : &back) += elements_below(m, parts[i].part);
    }
    CU_ASSERT_EQUAL(front, 1444928);
    CU_ASSERT_EQUAL(back, 24112104);
    model_free(m);
}

/* What crosses between the halves: the output of layer2, (512, H/8, W/8). */
static void assert_cut(const char *text, int64_t side, size_t bytes)
{
    struct model *m = graphs_build(text);
    int last = -1;
    for (int i = 0; i < m->layer_count; i++)
        if (strncmp(m->layers[i].name, "layer2.", 7) == 0)
            last = i;
    CU_ASSERT_TRUE_FATAL(last >= 0);
    struct tensor_type type = model_output_type(m, last);
    CU_ASSERT_EQUAL(type.shape.dim[1], 512);
    CU_ASSERT_EQUAL(type.shape.dim[2], side);
    CU_ASSERT_EQUAL(type_bytes(&type), bytes);
    model_free(m);
}

static void test_resnet50_cut(void)
{
    assert_cut("{\"name\":\"resnet50\",\"image\":128}", 16, 524288);
    assert_cut("\"resnet50\"", 28, 1605632);
}

/* torchvision's named_parameters(): a block's downsample comes after its last batch norm. */
static void test_resnet50_names(void)
{
    static const char *const first[] = {"conv1.weight",
                                        "bn1.weight",
                                        "bn1.bias",
                                        "layer1.0.conv1.weight",
                                        "layer1.0.bn1.weight",
                                        "layer1.0.bn1.bias",
                                        "layer1.0.conv2.weight",
                                        "layer1.0.bn2.weight",
                                        "layer1.0.bn2.bias",
                                        "layer1.0.conv3.weight",
                                        "layer1.0.bn3.weight",
                                        "layer1.0.bn3.bias",
                                        "layer1.0.downsample.0.weight",
                                        "layer1.0.downsample.1.weight",
                                        "layer1.0.downsample.1.bias",
                                        "layer1.1.conv1.weight"};
    struct model *m = graphs_build("\"resnet50\"");
    for (int i = 0; i < 16; i++)
        CU_ASSERT_STRING_EQUAL(m->parameters[i].name, first[i]);
    CU_ASSERT_STRING_EQUAL(m->parameters[159].name, "fc.weight");
    CU_ASSERT_STRING_EQUAL(m->parameters[160].name, "fc.bias");
    const int64_t stem[4] = {64, 3, 7, 7};
    CU_ASSERT_EQUAL(memcmp(m->parameters[0].shape.dim, stem, sizeof stem), 0);
    /* the stride is the 3x3's (ResNet v1.5) */
    int conv2 = model_find_layer(m, "layer2.0.conv2");
    CU_ASSERT_TRUE_FATAL(conv2 >= 0);
    CU_ASSERT_EQUAL(m->layers[conv2].op.window.stride_h, 2);
    CU_ASSERT_EQUAL(m->layers[model_find_layer(m, "layer2.0.conv1")].op.window.stride_h, 1);
    CU_ASSERT_EQUAL(model_find_layer(m, "layer9"), -1);
    model_free(m);
}

static void test_other_names(void)
{
    struct model *vgg = graphs_build("\"vgg16\"");
    CU_ASSERT_STRING_EQUAL(vgg->parameters[0].name, "features.0.weight");
    CU_ASSERT_STRING_EQUAL(vgg->parameters[2].name, "features.2.weight");
    CU_ASSERT_STRING_EQUAL(vgg->parameters[24].name, "features.28.weight");
    CU_ASSERT_STRING_EQUAL(vgg->parameters[26].name, "classifier.0.weight");
    CU_ASSERT_STRING_EQUAL(vgg->parameters[31].name, "classifier.6.bias");
    model_free(vgg);
    struct model *alex = graphs_build("\"alexnet\"");
    CU_ASSERT_STRING_EQUAL(alex->parameters[2].name, "features.3.weight");
    CU_ASSERT_STRING_EQUAL(alex->parameters[10].name, "classifier.1.weight");
    CU_ASSERT_STRING_EQUAL(alex->parameters[15].name, "classifier.6.bias");
    model_free(alex);
    struct model *toy = graphs_build("\"toy\"");
    CU_ASSERT_STRING_EQUAL(toy->parameters[0].name, "net1.weight");
    CU_ASSERT_STRING_EQUAL(toy->parameters[3].name, "net2.bias");
    model_free(toy);
}

/* A block's layers in forward order: the main path, then the downsample, then their sum. */
static void test_resnet_layers(void)
{
    static const char *const bottleneck[] = {"conv1",
                                             "bn1",
                                             "relu",
                                             "maxpool",
                                             "layer1.0.conv1",
                                             "layer1.0.bn1",
                                             "layer1.0.relu1",
                                             "layer1.0.conv2",
                                             "layer1.0.bn2",
                                             "layer1.0.relu2",
                                             "layer1.0.conv3",
                                             "layer1.0.bn3",
                                             "layer1.0.downsample.0",
                                             "layer1.0.downsample.1",
                                             "layer1.0.add",
                                             "layer1.0.relu3",
                                             "layer1.1.conv1"};
    static const char *const last[] = {"layer4.2.relu3", "avgpool", "flatten", "fc"};
    struct model *m = graphs_build("\"resnet50\"");
    CU_ASSERT_EQUAL_FATAL(m->layer_count, 175);
    for (int i = 0; i < 17; i++)
        CU_ASSERT_STRING_EQUAL(m->layers[i].name, bottleneck[i]);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_STRING_EQUAL(m->layers[171 + i].name, last[i]);
    model_free(m);
    m = graphs_build("\"resnet18\"");
    CU_ASSERT_EQUAL(model_find_layer(m, "layer1.0.downsample.0"), -1);
    CU_ASSERT_TRUE(model_find_layer(m, "layer2.0.downsample.0") >
                   model_find_layer(m, "layer2.0.bn2"));
    CU_ASSERT_EQUAL(model_find_layer(m, "layer1.0.relu3"), -1);
    model_free(m);
}

static void test_activation_shapes(void)
{
    static const struct {
        const char *model, *layer, *shape;
    } known[] = {
        {"resnet50", "conv1", "(1, 64, 112, 112)"},
        {"resnet50", "maxpool", "(1, 64, 56, 56)"},
        {"resnet50", "layer1.2.relu3", "(1, 256, 56, 56)"},
        {"resnet50", "layer3.5.relu3", "(1, 1024, 14, 14)"},
        {"resnet50", "layer4.2.relu3", "(1, 2048, 7, 7)"},
        {"resnet50", "avgpool", "(1, 2048, 1, 1)"},
        {"resnet50", "flatten", "(1, 2048)"},
        {"resnext101_32x8d", "layer1.0.conv2", "(1, 256, 56, 56)"},
        {"resnext50_32x4d", "layer4.0.conv2", "(1, 1024, 7, 7)"},
        {"vgg16", "features.4", "(1, 64, 112, 112)"},
        {"vgg16", "features.30", "(1, 512, 7, 7)"},
        {"vgg16", "flatten", "(1, 25088)"},
        {"alexnet", "features.0", "(1, 64, 55, 55)"},
        {"alexnet", "features.2", "(1, 64, 27, 27)"},
        {"alexnet", "features.12", "(1, 256, 6, 6)"},
        {"alexnet", "flatten", "(1, 9216)"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[64];
        snprintf(text, sizeof text, "\"%s\"", known[i].model);
        struct model *m = graphs_build(text);
        int layer = model_find_layer(m, known[i].layer);
        CU_ASSERT_TRUE_FATAL(layer >= 0);
        struct tensor_type type = model_output_type(m, layer);
        CU_ASSERT_STRING_EQUAL(shape_text(text, &type.shape), known[i].shape);
        model_free(m);
    }
}

static void test_types_for_a_batch(void)
{
    struct model *m = graphs_build("{\"name\":\"resnet18\",\"image\":64,\"classes\":10}");
    struct tensor_type *types = calloc((size_t)m->layer_count, sizeof *types);
    CU_ASSERT_EQUAL(model_types(m, 32, types), RH_OK);
    char text[64];
    CU_ASSERT_STRING_EQUAL(shape_text(text, &types[0].shape), "(32, 64, 32, 32)");
    CU_ASSERT_STRING_EQUAL(shape_text(text, &types[m->layer_count - 1].shape), "(32, 10)");
    struct tensor_type input = model_output_type(m, MODEL_INPUT);
    CU_ASSERT_STRING_EQUAL(shape_text(text, &input.shape), "(1, 3, 64, 64)");
    free(types);
    model_free(m);
}

/* An absurd model has very many parameters, never a negative number of them. */
static void test_elements_saturate(void)
{
    struct model *m = graphs_build("{\"name\":\"huge\",\"input\":[2147483647],\"layers\":["
                                   "{\"name\":\"a\",\"op\":\"linear\",\"out\":2147483647},"
                                   "{\"name\":\"b\",\"op\":\"linear\",\"out\":2147483647},"
                                   "{\"name\":\"c\",\"op\":\"linear\",\"out\":2147483647}]}");
    CU_ASSERT_EQUAL(model_parameter_elements(m), INT64_MAX);
    model_free(m);
}

/* A refused layer leaves the model as it was. */
static void test_refused_layer_is_taken_back(void)
{
    struct model *m =
        graphs_build("{\"name\":\"net\",\"input\":[3,8,8],\"layers\":[{\"name\":\"c1\",\"op\":"
                     "\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1}]}");
    int layer = -1;
    struct conv_options options = {.kernel = 99, .bias = true};
    CU_ASSERT_EQUAL(model_conv2d(m, "c2", 0, 4, options, &layer), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "layer 'c2'");
    CU_ASSERT_EQUAL(m->layer_count, 1);
    CU_ASSERT_EQUAL(m->parameter_count, 2);
    CU_ASSERT_EQUAL(model_relu(m, "r", 1, &layer), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "reads layer 1; there are 1");
    CU_ASSERT_EQUAL(model_relu(m, "r", 0, &layer), RH_OK);
    CU_ASSERT_EQUAL(layer, 1);
    model_free(m);
}

static float *values_of(const struct model *m, const char *name, uint64_t seed)
{
    for (int i = 0; i < m->parameter_count; i++)
        if (strcmp(m->parameters[i].name, name) == 0) {
            size_t elements = (size_t)shape_elements(&m->parameters[i].shape);
            float *values = calloc(elements, sizeof *values);
            parameter_init(&m->parameters[i], seed, values);
            return values;
        }
    CU_FAIL_FATAL("no such parameter");
    return NULL;
}

/* The same name in another model, at another place, starts with the same values. */
static void test_init_is_a_function_of_seed_and_name(void)
{
    struct model *a =
        graphs_build("{\"name\":\"a\",\"input\":[6],\"layers\":[{\"name\":\"x\",\"op\":"
                     "\"linear\",\"out\":6},{\"name\":\"w\",\"op\":\"linear\",\"out\":9}]}");
    struct model *b =
        graphs_build("{\"name\":\"b\",\"input\":[6],\"layers\":[{\"name\":\"w\",\"op\":"
                     "\"linear\",\"out\":9},{\"name\":\"v\",\"op\":\"linear\",\"out\":9}]}");
    float *one = values_of(a, "w.weight", 7);
    float *same = values_of(b, "w.weight", 7);
    float *seed = values_of(b, "w.weight", 8);
    float *name = values_of(a, "x.weight", 7);
    CU_ASSERT_EQUAL(memcmp(one, same, 54 * sizeof *one), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(one, seed, 54 * sizeof *one), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(one, name, 36 * sizeof *one), 0);
    free(one);
    free(same);
    free(seed);
    free(name);
    model_free(a);
    model_free(b);
}

/* Kaiming-uniform bounds ±1/sqrt(fan in) for linear and conv, 1 and 0 for batch norm, a normal of
 * deviation 1 for embeddings. */
static void test_init_ranges(void)
{
    struct model *m = graphs_build("\"resnet18\"");
    float *conv = values_of(m, "layer1.0.conv1.weight", 1);
    double bound = 1 / sqrt(64.0 * 9);
    double largest = 0;
    for (int i = 0; i < 64 * 64 * 9; i++)
        largest = fmax(largest, fabs(conv[i]));
    CU_ASSERT_TRUE(largest <= bound && largest > 0.99 * bound);
    float *gamma = values_of(m, "bn1.weight", 1);
    float *beta = values_of(m, "bn1.bias", 1);
    CU_ASSERT_EQUAL(gamma[0], 1);
    CU_ASSERT_EQUAL(gamma[63], 1);
    CU_ASSERT_EQUAL(beta[63], 0);
    free(conv);
    free(gamma);
    free(beta);
    float state[64];
    state_init(&m->states[1], state);
    CU_ASSERT_EQUAL(state[63], 1);
    state_init(&m->states[0], state);
    CU_ASSERT_EQUAL(state[0], 0);
    model_free(m);
    m = graphs_build("\"embedding-linear\"");
    float *table = values_of(m, "embedding.weight", 1);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < 10000; i++) {
        sum += table[i];
        squares += (double)table[i] * table[i];
    }
    CU_ASSERT_TRUE(fabs(sum / 10000) < 0.05);
    CU_ASSERT_TRUE(fabs(squares / 10000 - 1) < 0.06);
    free(table);
    model_free(m);
}

static const struct unit_test tests[] = {
    {"parameter counts", test_parameter_counts, NULL},
    {"every builder builds", test_every_builder_builds, NULL},
    {"resnet50 statistics", test_resnet50_statistics, NULL},
    {"resnet50 halves", test_resnet50_halves, NULL},
    {"resnet50 cut", test_resnet50_cut, NULL},
    {"resnet50 names", test_resnet50_names, NULL},
    {"other names", test_other_names, NULL},
    {"resnet layers", test_resnet_layers, NULL},
    {"activation shapes", test_activation_shapes, NULL},
    {"types for a batch", test_types_for_a_batch, NULL},
    {"elements saturate", test_elements_saturate, NULL},
    {"refused layer is taken back", test_refused_layer_is_taken_back, NULL},
    {"init is a function of seed and name", test_init_is_a_function_of_seed_and_name, NULL},
    {"init ranges", test_init_ranges, NULL},
};

int main(void)
{
    return UNIT_MAIN("model", tests);
}
