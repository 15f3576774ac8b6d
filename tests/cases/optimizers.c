/* O1 … O19: losses and optimizers, by trainings of one weight or one small matrix on one GPU. */
#include "cases/training.h"

static const char *const single = "\"devices\":1,\"strategy\":\"single\"";

/* Outputs are the weights themselves (x = 1), so that the step with lr 1 shows the gradient by
 * output. */
static void check_loss(const char *loss, const float *outputs, int count, const float *targets,
                       const int64_t *labels, double expected, const double *gradient)
{
    char model[160];
    snprintf(
        model, sizeof model,
        "{\"name\":\"l\",\"input\":[1],\"layers\":[{\"name\":\"w\",\"op\":\"linear\",\"out\":%d,"
        "\"bias\":false}]}",
        count);
    struct case_training t = {.model = model,
                              .rest = single,
                              .loss = loss,
                              .init = {{"w.weight", 2, {count, 1}, outputs}},
                              .rows = 1,
                              .target_columns = count,
                              .inputs = VALUES(1),
                              .targets = targets,
                              .labels = labels};
    const struct trained *trained = case_trained(&t);
    CHECK_NEAR(trained->losses[0], expected, 1e-6);
    for (int i = 0; gradient && i < count; i++)
        CHECK(fabs(outputs[i] - trained_value(trained, "w.weight", i) - gradient[i]) < 5e-7);
}

CASE(O1, "mean squared error of [1, 2, 3] to ones: 1.666667; gradient 2 (x - t) / n")
{
    check_loss("\"mse\"", VALUES(1, 2, 3), 3, VALUES(1, 1, 1), NULL, 5.0 / 3,
               (const double[]){0, 2.0 / 3, 4.0 / 3});
}

CASE(O2, "cross entropy of [1, 2, 3], target 2: 0.4076060; gradient softmax - onehot")
{
    check_loss("\"cross_entropy\"", VALUES(1, 2, 3), 3, NULL, (const int64_t[]){2}, 0.40760596,
               (const double[]){0.0900306, 0.2447285, -0.3347590});
}

CASE(O3, "[0, 0], target 0: ln 2")
{
    check_loss("\"cross_entropy\"", VALUES(0, 0), 2, NULL, (const int64_t[]){0}, 0.69314718,
               (const double[]){-0.5, 0.5});
}

CASE(O4, "[[2, 0], [0, 0]], targets 0 and 1: mean 0.4100376")
{
    struct case_training t = {
        .model = "{\"name\":\"l\",\"input\":[2],\"layers\":[{\"name\":\"w\",\"op\":\"linear\","
                 "\"out\":2,\"bias\":false}]}",
        .rest = single,
        .loss = "\"cross_entropy\"",
        .init = {{"w.weight", 2, {2, 2}, VALUES(2, 0, 0, 0)}},
        .rows = 2,
        .columns = 2,
        .inputs = VALUES(1, 0, 0, 1),
        .labels = (const int64_t[]){0, 1}};
    CHECK_NEAR(case_trained(&t)->losses[0], 0.4100376, 1e-6);
}

NOT_YET(O5, "label smoothing 0.1: 0.5076060", "label smoothing")
NOT_YET(O6, "all targets ignored: NaN", "ignored targets")

/* p = 1 and two steps with gradients g: x = 1 and the target g / 2 below what p then is. */
static void check_optimizer(const char *optimizer, double g1, double g2, double p1, double p2)
{
    const float x[] = {1, 1};
    const float targets[] = {(float)(1 - g1 / 2), (float)(p1 - g2 / 2)};
    struct case_training t = {.rest = single,
                              .loss = "{\"type\":\"mse\",\"reduction\":\"sum\"}",
                              .optimizer = optimizer,
                              .rows = 1,
                              .batches = 2,
                              .inputs = x,
                              .targets = targets,
                              .w = 1};
    CHECK_NEAR(trained_w(case_trained(&t)), p1, 1e-6);
    t.steps = 2;
    CHECK_NEAR(trained_w(case_trained(&t)), p2, 1e-6);
}

CASE(O7, "SGD: 0.9, 0.8")
{
    check_optimizer("{\"type\":\"sgd\",\"lr\":0.1}", 1, 1, 0.9, 0.8);
}

CASE(O8, "momentum 0.9: 0.9, 0.71")
{
    check_optimizer("{\"type\":\"sgd\",\"lr\":0.1,\"momentum\":0.9}", 1, 1, 0.9, 0.71);
}

CASE(O9, "and dampening 0.5, not in the first step: 0.9, 0.76")
{
    check_optimizer("{\"type\":\"sgd\",\"lr\":0.1,\"momentum\":0.9,\"dampening\":0.5}", 1, 1, 0.9,
                    0.76);
}

CASE(O10, "nesterov: 0.81, 0.539")
{
    check_optimizer("{\"type\":\"sgd\",\"lr\":0.1,\"momentum\":0.9,\"nesterov\":true}", 1, 1, 0.81,
                    0.539);
}

CASE(O11, "weight decay 0.1: 0.89, 0.7811")
{
    check_optimizer("{\"type\":\"sgd\",\"lr\":0.1,\"weight_decay\":0.1}", 1, 1, 0.89, 0.7811);
}

CASE(O12, "Adam: 0.900000001, 0.800000002")
{
    check_optimizer("{\"type\":\"adam\",\"lr\":0.1}", 1, 1, 0.900000001, 0.800000002);
}

CASE(O13, "Adam, gradients 0.5 and -0.25: 0.900000002, 0.8733663")
{
    check_optimizer("{\"type\":\"adam\",\"lr\":0.1}", 0.5, -0.25, 0.900000002, 0.8733663);
}

CASE(O14, "Adam with weight decay 0.1: 0.9000000017, 0.8000473")
{
    check_optimizer("{\"type\":\"adam\",\"lr\":0.1,\"weight_decay\":0.1}", 0.5, 0.5, 0.9000000017,
                    0.8000473);
}

CASE(O15, "AdamW with weight decay 0.1: 0.890000002, 0.781100004")
{
    check_optimizer("{\"type\":\"adamw\",\"lr\":0.1,\"weight_decay\":0.1}", 0.5, 0.5, 0.890000002,
                    0.781100004);
}

CASE(O16, "AdamW, no gradient: decay alone, 0.99, 0.9801")
{
    check_optimizer("{\"type\":\"adamw\",\"lr\":0.1,\"weight_decay\":0.1}", 0, 0, 0.99, 0.9801);
}

CASE(O17, "Adam with weight decay 0.1, no gradient: the decay is a gradient, 0.90000001")
{
    check_optimizer("{\"type\":\"adam\",\"lr\":0.1,\"weight_decay\":0.1}", 0, 0, 0.90000001,
                    0.8004122);
}

DOES_NOT_APPLY(O18, "a parameter without a gradient is left alone",
               "every parameter of a plan has a gradient")

CASE(O19, "nesterov with dampening is refused")
{
    struct case_training t = {.rest = single,
                              .optimizer = "{\"type\":\"sgd\",\"lr\":0.1,\"momentum\":0.9,"
                                           "\"dampening\":0.5,\"nesterov\":true}",
                              .rows = 1,
                              .inputs = VALUES(1)};
    CHECK_NOT_TRAINED(&t, "nesterov needs momentum > 0 and dampening 0; they are 0.9 and 0.5");
}
