/* Q1 … Q13, Q30 … Q34: pipelines, by hand and by schedule. */
#include "cases/training.h"

#include "base/memory.h"

/* Two stages: w1 = 2, w2 = 3; x = [1, 2, 3, 4], mean squared error against 0. */
static struct case_training two_stages(const char *rest)
{
    static const float w1[] = {2};
    static const float w2[] = {3};
    static const float x[] = {1, 2, 3, 4};
    return (struct case_training){
        .model = "{\"name\":\"m\",\"input\":[1],\"layers\":[{\"name\":\"w1\",\"op\":\"linear\","
                 "\"out\":1,\"bias\":false},{\"name\":\"w2\",\"op\":\"linear\",\"out\":1,\"bias\":"
                 "false}]}",
        .rest = rest,
        .init = {{"w1.weight", 2, {1, 1}, w1}, {"w2.weight", 2, {1, 1}, w2}},
        .rows = 4,
        .inputs = x};
}

static void check_gradients(const struct case_training *t, double g1, double g2)
{
    const struct trained *trained = case_trained(t);
    CHECK_NEAR(2 - trained_value(trained, "w1.weight", 0), g1, 1e-6);
    CHECK_NEAR(3 - trained_value(trained, "w2.weight", 0), g2, 1e-6);
}

static void pipeline_keys(char rest[256], int devices, const char *keys)
{
    snprintf(rest, 256, "\"devices\":%d,\"strategy\":{\"type\":\"pipeline\",%s}", devices, keys);
}

/* Rows of the pieces that the hand pipeline makes of 120. */
static void check_pieces(int split_size, const int *rows, int count)
{
    char rest[256];
    char keys[64];
    snprintf(keys, sizeof keys, "\"split_size\":%d", split_size);
    pipeline_keys(rest, 2, keys);
    struct case_training t = {.model = "\"toy\"", .rest = rest, .rows = 120};
    const struct strategy_plan *plan = case_plan(&t);
    const struct role *role = &plan->plan->roles[0];
    const struct list *list = &role->lists[0];
    int found = 0;
    for (int i = 0; i < list->count; i++) {
        const struct instruction *in = &list->instructions[i];
        if (in->kind != INSTRUCTION_COMPUTE || strncmp(in->name, "net1", 4) != 0 ||
            in->compute.op.kind != OP_linear)
            continue;
        const struct view *x = &role->views[in->compute.view_first];
        CHECK(found < count && x->type.shape.dim[0] == rows[found]);
        found++;
    }
    CHECK(found == count);
}

CASE(Q1, "120 rows split by 20, 50 and 200: six 20s; 50, 50, 20; one 120")
{
    check_pieces(20, (const int[]){20, 20, 20, 20, 20, 20}, 6);
    check_pieces(50, (const int[]){50, 50, 20}, 3);
    check_pieces(200, (const int[]){120}, 1);
}

CASE(Q4, "the hand pipeline gives the numbers of the unsplit model")
{
    static const char *const sizes[] = {"\"split_size\":1", "\"split_size\":2", "\"split_size\":3",
                                        "\"split_size\":4"};
    for (int i = 0; i < 4; i++) {
        char rest[256];
        pipeline_keys(rest, 2, sizes[i]);
        struct case_training t = two_stages(rest);
        check_gradients(&t, 270, 180);
        CHECK_NEAR(case_trained(&t)->losses[0], 270, 1e-6);
    }
}

/* Batch norm counts its batches, in a model of two stages. */
static double batches_counted(const char *rest, int64_t rows)
{
    static const float one[] = {1};
    static const float zero[] = {0};
    static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct case_training t = {
        .model = "{\"name\":\"m\",\"input\":[1,1,1],\"layers\":[{\"name\":\"bn\",\"op\":"
                 "\"batch_norm2d\"},{\"name\":\"f\",\"op\":\"flatten\"},{\"name\":\"w\",\"op\":"
                 "\"linear\",\"out\":1,\"bias\":false}]}",
        .rest = rest,
        .init = {{"bn.weight", 1, {1}, one},
                 {"bn.bias", 1, {1}, zero},
                 {"bn.running_mean", 1, {1}, zero},
                 {"bn.running_var", 1, {1}, one},
                 {"w.weight", 2, {1, 1}, one}},
        .rows = rows,
        .pictures = true,
        .inputs = x};
    return trained_value(case_trained(&t), "bn.num_batches_tracked", 0);
}

CASE(Q5, "batch norm counts each of six pieces")
{
    char rest[256];
    pipeline_keys(rest, 2, "\"split_size\":2,\"split_at\":[\"w\"]");
    CHECK(batches_counted(rest, 12) == 6);
}

static void refuse_batch(int64_t rows, int microbatches)
{
    char rest[256];
    char keys[64];
    static const float x[40] = {0};
    snprintf(keys, sizeof keys, "\"schedule\":\"gpipe\",\"microbatches\":%d", microbatches);
    pipeline_keys(rest, 2, keys);
    struct case_training t = two_stages(rest);
    t.rows = rows;
    t.inputs = x;
    CHECK_NOT_TRAINED(&t, "does not divide into 1 ranks times");
}

DIFFERS(Q6, "10 rows in 4 microbatches are cut into 3, 3, 2, 2 (and then refused at run time)",
        "a batch that the microbatches do not divide is refused before the run")
CASE(Q6, "10 into 4, 5 into 4, 36 into 7")
{
    refuse_batch(10, 4);
    refuse_batch(5, 4);
    refuse_batch(36, 7);
}

static void check_microbatches(const char *loss, double g1, double g2)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (int s = 0; s < 2; s++)
        for (int m = 1; m <= 4; m *= 2) {
            char rest[256];
            char keys[64];
            if (s == 1 && m == 1)
                continue; /* fewer than stages: refused */
            snprintf(keys, sizeof keys, "\"schedule\":\"%s\",\"microbatches\":%d", schedules[s], m);
            pipeline_keys(rest, 2, keys);
            struct case_training t = two_stages(rest);
            t.loss = loss;
            check_gradients(&t, g1, g2);
        }
}

CASE(Q7, "w1 = 2, w2 = 3, x = [1, 2, 3, 4]: gradients 270 and 180 with 1, 2 and 4 microbatches")
{
    check_microbatches("\"mse\"", 270, 180);
}

DOES_NOT_APPLY(Q8, "without scaling by the number of microbatches: 540 and 360, 1080 and 720",
               "a mean loss is always the mean of the batch")

CASE(Q9, "a summed loss: 1080 and 720 with any number of microbatches")
{
    check_microbatches("{\"type\":\"mse\",\"reduction\":\"sum\"}", 1080, 720);
}

CASE(Q10, "the same gradients under every schedule that there is")
{
    check_microbatches("\"mse\"", 270, 180);
}

DIFFERS(Q11, "each step divides what it accumulated, the steps before included: 1, then 1.25",
        "each microbatch's loss is divided, so two passes give the sum of their parts")
CASE(Q11, "accumulating over two passes: the parts add up")
{
    char rest[256];
    static const float x[] = {1, 2, 3, 4, 1, 2, 3, 4};
    pipeline_keys(rest, 2, "\"schedule\":\"gpipe\",\"microbatches\":4");
    struct case_training t = two_stages(rest);
    t.loss = "{\"type\":\"mse\",\"reduction\":\"sum\"}";
    t.train = ",\"accumulate\":2";
    t.rows = 8;
    t.batch = 4;
    t.inputs = x;
    check_gradients(&t, 2 * 1080, 2 * 720);
    t.loss = "\"mse\""; /* the mean over both passes */
    check_gradients(&t, 270, 180);
}

DIFFERS(Q12, "the third microbatch has another shape: fails when it comes",
        "refused before the run")
CASE(Q12, "10 rows in 4 microbatches")
{
    refuse_batch(10, 4);
}

CASE(Q13, "4 rows in 8 microbatches are refused, for all ranks at once")
{
    refuse_batch(4, 8);
}

NOT_YET(Q30, "tables that are wrong: four refusals", "schedules given as tables")

DIFFERS(Q32, "the first step infers shapes by an extra forward, which batch norm counts: 5",
        "shapes are known from the plan: 4")
CASE(Q32, "batch norm counts 4 microbatches in the first step")
{
    char rest[256];
    pipeline_keys(rest, 2, "\"schedule\":\"gpipe\",\"microbatches\":4,\"split_at\":[\"w\"]");
    CHECK(batches_counted(rest, 12) == 4);
}

DOES_NOT_APPLY(Q33, "`step` returns the outputs on the last rank",
               "a run gives losses, not outputs")
NOT_YET(Q34, "a list of losses, one a microbatch", "losses of microbatches")
