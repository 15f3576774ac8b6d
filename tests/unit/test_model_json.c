/* Models as JSON, with the errors of those that are wrong. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "graphs.h"

static enum rh_status read_model(const char *text, struct model **model)
{
    cJSON *json = NULL;
    CU_ASSERT_EQUAL_FATAL(json_read_text("test", text, &json), RH_OK);
    enum rh_status status = model_from_json(json, "test", model);
    cJSON_Delete(json);
    return status;
}

/* The message of a model that must be refused. */
static const char *refused(const char *text)
{
    struct model *model = NULL;
    CU_ASSERT_EQUAL(read_model(text, &model), RH_INVALID);
    CU_ASSERT_PTR_NULL(model);
    if (model)
        model_free(model);
    return fail_message();
}

#define NET(layers) "{\"name\":\"net\",\"input\":[3,8,8],\"layers\":[" layers "]}"
#define CONV "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1}"

static void test_json_residual(void)
{
    struct model *m = graphs_build(
        NET(CONV ",{\"name\":\"n1\",\"op\":\"batch_norm2d\"},"
                 "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"n1\",\"c1\"]},"
                 "{\"name\":\"skip\",\"op\":\"conv2d\",\"input\":\"input\",\"out\":4,\"kernel\":1,"
                 "\"bias\":false},"
                 "{\"name\":\"t\",\"op\":\"add\",\"inputs\":[\"s\",\"skip\"]},"
                 "{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1},{\"name\":\"f\",\"op\":"
                 "\"flatten\"},{\"name\":\"fc\",\"op\":\"linear\",\"out\":5}"));
    CU_ASSERT_EQUAL(model_parameter_elements(m), 108 + 4 + 4 + 4 + 12 + 20 + 5);
    CU_ASSERT_EQUAL(m->layers[2].inputs[0], 1);
    CU_ASSERT_EQUAL(m->layers[2].inputs[1], 0);
    CU_ASSERT_EQUAL(m->layers[3].inputs[0], MODEL_INPUT);
    CU_ASSERT_EQUAL(m->layers[3].parameter_count, 1);
    CU_ASSERT_EQUAL(m->state_count, 3);
    model_free(m);
}

static void test_json_unknown_words(void)
{
    UNIT_ASSERT_CONTAINS(refused("\"resnet5O\""), "did you mean 'resnet50'?");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"resnet50\",\"clases\":10}"),
                         "unknown key 'clases'; did you mean 'classes'?");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"mlp\",\"size\":[1,2]}"), "did you mean 'sizes'?");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"toy\",\"image\":3}"), "unknown key 'image'");
    const char *op = refused(NET("{\"name\":\"c1\",\"op\":\"conv2\",\"out\":4,\"kernel\":3}"));
    UNIT_ASSERT_CONTAINS(op, "layer 'c1'");
    UNIT_ASSERT_CONTAINS(op, "unknown op 'conv2'; did you mean 'conv2d'?");
    const char *key = refused(NET("{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernle\":3}"));
    UNIT_ASSERT_CONTAINS(key, "layer 'c1'");
    UNIT_ASSERT_CONTAINS(key, "unknown key 'kernle'; did you mean 'kernel'?");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"net\",\"inputs\":[3],\"layers\":[]}"),
                         "unknown key 'inputs'; did you mean 'input'?");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"vgg16\",\"image\":0}"), "'image' is 0");
    UNIT_ASSERT_CONTAINS(refused("7"), "must be a name or an object");
    UNIT_ASSERT_CONTAINS(refused("{\"file\":\"no/such.json\"}"), "no/such.json");
}

static void test_json_shapes(void)
{
    const char *rank = refused(NET("{\"name\":\"fc\",\"op\":\"linear\",\"out\":5}"));
    UNIT_ASSERT_CONTAINS(rank, "layer 'fc' wants 2 dimensions with the batch");
    UNIT_ASSERT_CONTAINS(rank, "(1, 3, 8, 8)");
    const char *sum = refused(
        NET(CONV ",{\"name\":\"p\",\"op\":\"max_pool2d\",\"kernel\":2},{\"name\":\"s\",\"op\":"
                 "\"add\",\"inputs\":[\"c1\",\"p\"]}"));
    UNIT_ASSERT_CONTAINS(sum, "layer 's'");
    UNIT_ASSERT_CONTAINS(sum, "(1, 4, 8, 8)");
    UNIT_ASSERT_CONTAINS(sum, "(1, 4, 4, 4)");
    const char *groups =
        refused(NET("{\"name\":\"g\",\"op\":\"conv2d\",\"out\":4,\"kernel\":1,\"groups\":2}"));
    UNIT_ASSERT_CONTAINS(groups, "layer 'g': 3 channels in and 4 out do not divide into 2 groups");
    UNIT_ASSERT_CONTAINS(refused(NET("{\"name\":\"c\",\"op\":\"conv2d\",\"out\":4,\"kernel\":9}")),
                         "layer 'c'");
    UNIT_ASSERT_CONTAINS(refused(NET("{\"name\":\"c\",\"op\":\"conv2d\",\"out\":0,\"kernel\":1}")),
                         "'out' is 0");
    UNIT_ASSERT_CONTAINS(refused(NET("{\"name\":\"c\",\"op\":\"conv2d\",\"kernel\":1}")),
                         "key 'out' is missing");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"net\",\"input\":[3,0],\"layers\":[{}]}"),
                         "size 1 must be a whole number from 1");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"net\",\"input\":[1,1,1,1,1],\"layers\":[{}]}"),
                         "1 to 4 sizes");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"net\",\"input\":[3],\"layers\":[]}"),
                         "at least 1 layer");
}

static void test_json_wiring(void)
{
    UNIT_ASSERT_CONTAINS(refused(NET(CONV "," CONV)), "layer 'c1' is there twice");
    UNIT_ASSERT_CONTAINS(refused(NET("{\"name\":\"r\",\"op\":\"relu\",\"input\":\"later\"}")),
                         "layer 'r': it reads 'later', which is no layer before it");
    UNIT_ASSERT_CONTAINS(refused(NET("{\"name\":\"r\",\"op\":\"relu\",\"input\":\"r\"}")),
                         "which is no layer before it");
    UNIT_ASSERT_CONTAINS(refused(NET(CONV ",{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"c1\"]}")),
                         "add needs 'inputs' with 2 names");
    UNIT_ASSERT_CONTAINS(
        refused(NET(CONV ",{\"name\":\"p\",\"op\":\"avg_pool2d\",\"kernel\":2,\"output\":1}")),
        "exactly one of 'kernel' and 'output'");
}

/* "input" is the model's own; what is ignored would mislead; a list's place stands for a name. */
static void test_json_names(void)
{
    UNIT_ASSERT_CONTAINS(refused(NET("{\"name\":\"input\",\"op\":\"relu\"}")),
                         "layer 'input': 'input' is the model's own input");
    UNIT_ASSERT_CONTAINS(refused(NET("{\"name\":\"\",\"op\":\"relu\"}")),
                         "layer 0 has an empty name");
    UNIT_ASSERT_CONTAINS(refused(NET(CONV ",{\"op\":\"relu\"}")), "layer 1: key 'name'");
    UNIT_ASSERT_CONTAINS(refused(NET(CONV ",3")), "layer 1");
}

static void test_json_adaptive_pool(void)
{
    const char *padding =
        refused(NET(CONV ",{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1,\"padding\":1}"));
    UNIT_ASSERT_CONTAINS(padding, "layer 'p': 'padding' goes with 'kernel', not with 'output'");
    const char *stride =
        refused(NET(CONV ",{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1,\"stride\":2}"));
    UNIT_ASSERT_CONTAINS(stride, "layer 'p': 'stride' goes with 'kernel', not with 'output'");
}

static void test_mlp_sizes(void)
{
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"mlp\",\"sizes\":[4,2.5,3]}"),
                         "mlp size 1 is 2.5; a whole number from 1 to 2147483647");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"mlp\",\"sizes\":[4,1e300]}"), "mlp size 1 is 1e+300");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"mlp\",\"sizes\":[0,4]}"), "mlp size 0 is 0;");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"mlp\",\"sizes\":[4,\"3\"]}"),
                         "mlp size 1 is no number;");
    UNIT_ASSERT_CONTAINS(refused("{\"name\":\"mlp\",\"sizes\":[4]}"), "at least 2 widths");
}

/* A layer that nobody reads would have no gradient: refused when it is to be trained. */
static void test_dead_layer(void)
{
    struct model *m =
        graphs_build(NET(CONV ",{\"name\":\"dead\",\"op\":\"relu\"},{\"name\":\"f\",\"op\":"
                              "\"flatten\",\"input\":\"c1\"},{\"name\":\"fc\",\"op\":"
                              "\"linear\",\"out\":5}"));
    struct graph_options options = {
        .batch = 2, .loss_weight = 1, .precision = DTYPE_F32, .training = true, .loss_slots = 1};
    struct graph *graph = NULL;
    CU_ASSERT_EQUAL(graph_new(m, &options, &graph), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "no layer reads 'dead' (layer 1 of 4)");
    CU_ASSERT_PTR_NULL(graph);
    model_free(m);
}

static const struct unit_test tests[] = {
    {"json residual", test_json_residual, NULL},
    {"json unknown words", test_json_unknown_words, NULL},
    {"json shapes", test_json_shapes, NULL},
    {"json wiring", test_json_wiring, NULL},
    {"json names", test_json_names, NULL},
    {"json adaptive pool", test_json_adaptive_pool, NULL},
    {"mlp sizes", test_mlp_sizes, NULL},
    {"dead layer", test_dead_layer, NULL},
};

int main(void)
{
    return UNIT_MAIN("model_json", tests);
}
