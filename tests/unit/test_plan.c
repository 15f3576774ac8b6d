#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "op/layout.h"
#include "plan/check.h"
#include "plan/order.h"
#include "plan/placement.h"
#include "tests/unit/plans.h"
#include "tests/unit/unit.h"

static void test_mesh(void)
{
    struct mesh mesh = {2, {"dp", "pp"}, {2, 4}};
    int coordinate[MESH_MAX_AXES];
    CU_ASSERT_EQUAL(mesh_workers(&mesh), 8);
    CU_ASSERT_EQUAL(mesh_axis(&mesh, "pp"), 1);
    CU_ASSERT_EQUAL(mesh_axis(&mesh, "tp"), -1);
    for (int w = 0; w < 8; w++) {
        mesh_coordinate(&mesh, w, coordinate);
        CU_ASSERT_EQUAL(coordinate[0], w / 4);
        CU_ASSERT_EQUAL(coordinate[1], w % 4); /* the last axis runs fastest */
        CU_ASSERT_EQUAL(mesh_worker(&mesh, coordinate), w);
    }
    struct plan *plan = plan_new("p", &mesh, 1);
    CU_ASSERT_EQUAL(plan->role_count, 4);
    CU_ASSERT_EQUAL(plan_role_of(plan, 6), 2);
    plan_free(plan);
    plan = plan_new("p", &mesh, -1);
    CU_ASSERT_EQUAL(plan_role_of(plan, 6), 0);
    plan_free(plan);
}

static void test_texts(void)
{
    struct plan *plan = plans_new(1, 1);
    char *longer = memory_new(100001);
    memset(longer, 'x', 100000);
    const char *a = plan_text(plan, "layer%d.conv", 1);
    CU_ASSERT_STRING_EQUAL(a, "layer1.conv");
    CU_ASSERT_PTR_EQUAL(a, plan_text(plan, "layer1.%s", "conv"));
    CU_ASSERT_PTR_NOT_EQUAL(a, plan_text(plan, "layer2.conv"));
    const char *kept = plan_text(plan, "%s", longer);
    CU_ASSERT_EQUAL(strlen(kept), 100000);
    for (int i = 0; i < 5000; i++)
        plan_text(plan, "name %d", i);
    CU_ASSERT_STRING_EQUAL(a, "layer1.conv");
    CU_ASSERT_PTR_EQUAL(a, plan_text(plan, "layer1.conv"));
    CU_ASSERT_PTR_EQUAL(kept, plan_text(plan, "%s", longer));
    free(longer);
    plan_free(plan);
}

static void test_groups(void)
{
    struct plan *plan = plans_new(4, 1);
    int ends[] = {0, 3};
    int all = plan_add_group(plan, "dp", 1, 0, NULL);
    int two = plan_add_group(plan, "dp", 1, 2, ends);
    CU_ASSERT_NOT_EQUAL(all, two);
    CU_ASSERT_EQUAL(plan_add_group(plan, "dp", 1, 0, NULL), all);
    CU_ASSERT_EQUAL(plan->group_count, 2);
    CU_ASSERT_EQUAL(plan->groups[two].coordinates[1], 3);
    plan_free(plan);
}

static void test_views(void)
{
    struct plan *plan = plans_new(1, 1);
    struct buffer buffer = {.name = "x", .lifetime = LIFETIME_PERSISTENT};
    buffer.type = (struct tensor_type){DTYPE_F32, shape_of(2, (int64_t[]){4, 10})};
    struct view whole = plans_view(plan, role_add_buffer(plan, 0, buffer));
    CU_ASSERT_EQUAL(plan->roles[0].buffers[0].bytes, 160);
    CU_ASSERT_TRUE(view_is_dense(&whole));
    CU_ASSERT_EQUAL(view_end(&whole), 160);
    CU_ASSERT_EQUAL(whole.stride[0], 10);

    struct view rows = view_narrow(whole, 0, 1, 2);
    CU_ASSERT_EQUAL(rows.offset, 40);
    CU_ASSERT_EQUAL(view_end(&rows), 120);
    CU_ASSERT_TRUE(view_is_dense(&rows));

    struct view columns = view_narrow(whole, 1, 3, 4);
    CU_ASSERT_EQUAL(columns.offset, 12);
    CU_ASSERT_EQUAL(view_end(&columns), 12 + (3 * 10 + 4) * 4);
    CU_ASSERT_FALSE(view_is_dense(&columns));

    struct view one = view_narrow(columns, 0, 2, 1); /* one row of a strided view has no gaps */
    CU_ASSERT_TRUE(view_is_dense(&one));
    CU_ASSERT_EQUAL(one.offset, 12 + 2 * 40);

    struct view none = view_narrow(whole, 0, 4, 0);
    CU_ASSERT_EQUAL(view_end(&none), none.offset);

    struct tensor_type flat = {DTYPE_BF16, shape_of(1, (int64_t[]){40})};
    struct view other = view_as(rows, &flat);
    CU_ASSERT_EQUAL(other.offset, 40);
    CU_ASSERT_EQUAL(view_end(&other), 120);
    CU_ASSERT_EQUAL(other.stride[0], 1);
    plan_free(plan);
}

/* A picture that is channels last: dense, not row-major, its samples dense as well. */
static void test_channels_last(void)
{
    const struct mesh mesh = {1, {"dp"}, {1}};
    struct plan *plan = plan_new("p", &mesh, -1);
    role_init(plan, 0, "all", 1);
    const int64_t dim[4] = {2, 3, 5, 7};
    struct buffer buffer = {.name = "x", .type = {DTYPE_BF16, shape_of(4, dim), true}, .list = -1};
    buffer.lifetime = LIFETIME_PERSISTENT;
    struct view whole = view_of(plan->roles, role_add_buffer(plan, 0, buffer));
    const int64_t stride[4] = {105, 1, 21, 3};
    for (int d = 0; d < 4; d++)
        CU_ASSERT_EQUAL(whole.stride[d], stride[d]);
    CU_ASSERT_TRUE(view_is_dense(&whole));
    CU_ASSERT_FALSE(view_is_row_major(&whole));
    struct view sample = view_narrow(whole, 0, 1, 1);
    CU_ASSERT_TRUE(view_is_dense(&sample));
    CU_ASSERT_EQUAL(sample.offset, 210);
    struct view channel = view_narrow(whole, 1, 0, 1);
    CU_ASSERT_FALSE(view_is_dense(&channel));
    struct tensor_type rows = {DTYPE_BF16, shape_of(4, dim)};
    struct view row_major = view_as(whole, &rows);
    CU_ASSERT_TRUE(view_is_row_major(&row_major));
    CU_ASSERT_FALSE(view_same_order(&whole, &row_major));
    CU_ASSERT_TRUE(view_same_order(&whole, &whole));

    uint16_t in[210];
    uint16_t out[210];
    uint16_t back[210];
    for (int i = 0; i < 210; i++)
        in[i] = (uint16_t)(i + 1);
    layout_from_rows(&whole.type, in, out);
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < 3; c++)
            for (int a = 0; a < 35; a++)
                CU_ASSERT_EQUAL(out[n * 105 + a * 3 + c], in[n * 105 + c * 35 + a]);
    layout_to_rows(&whole.type, out, back);
    CU_ASSERT_EQUAL(memcmp(in, back, sizeof in), 0);
    plan_free(plan);
}

static void test_order(void)
{
    struct plan *plan = plans_new(1, 3);
    struct writer w = plans_writer(plan, 0);
    struct view x = plans_view(plan, plans_persistent(plan, "x", 4));
    struct order *order;
    plans_zero(&w, 0, "a", x);       /* 0 */
    plans_zero(&w, 1, "b", x);       /* 1 */
    write_join(&w, 0, 1, "a done");  /* 2, 3 */
    write_join(&w, 1, 1, "nothing"); /* a stream follows itself: no instruction */
    plans_zero(&w, 1, "c", x);       /* 4 */
    plans_zero(&w, 0, "d", x);       /* 5 */
    int event = role_add_event(plan, 0, "c done");
    write_record(&w, 1, event); /* 6 */
    write_sync(&w, event);      /* 7 */
    plans_zero(&w, 2, "e", x);  /* 8 */
    CU_ASSERT_EQUAL_FATAL(plan->roles[0].lists[0].count, 9);
    CU_ASSERT_EQUAL_FATAL(order_new(plan, 0, 0, &order), RH_OK);
    CU_ASSERT_FALSE(order_before(order, 0, 1));
    CU_ASSERT_FALSE(order_before(order, 1, 0));
    CU_ASSERT_TRUE(order_before(order, 0, 4));
    CU_ASSERT_TRUE(order_before(order, 1, 4));
    CU_ASSERT_FALSE(order_before(order, 4, 5));
    CU_ASSERT_FALSE(order_before(order, 4, 4));
    CU_ASSERT_TRUE(order_before(order, 0, 8)); /* through the event and the worker */
    CU_ASSERT_TRUE(order_before(order, 4, 8));
    CU_ASSERT_TRUE(order_before(order, 7, 8));
    CU_ASSERT_FALSE(
        order_before(order, 5, 8)); /* the event says nothing of stream 0's later work */
    order_free(order);
    plan_free(plan);
}

/* A collective with parts on two streams holds both until it ends. */
static void test_order_collect(void)
{
    struct plan *plan = plans_new(1, 3);
    struct writer w = plans_writer(plan, 0);
    struct view x = plans_view(plan, plans_persistent(plan, "x", 4));
    struct view y = plans_view(plan, plans_persistent(plan, "y", 4));
    int group = plan_add_group(plan, "local", 0, 0, NULL);
    struct collect_part parts[] = {{0, &x, &x}, {1, &y, &y}};
    struct order *order;
    plans_zero(&w, 1, "a", x);
    write_collect(&w, "sum", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, group, 0, 0, parts, 2);
    plans_zero(&w, 1, "b", x);
    plans_zero(&w, 0, "c", x);
    plans_zero(&w, 2, "d", x);
    CU_ASSERT_EQUAL_FATAL(order_new(plan, 0, 0, &order), RH_OK);
    CU_ASSERT_TRUE(order_before(order, 0, 1));
    CU_ASSERT_TRUE(order_before(order, 1, 2));
    CU_ASSERT_EQUAL(order_clock(order, 2)[0], 1);
    CU_ASSERT_EQUAL(order_clock(order, 2)[1], 1);
    CU_ASSERT_EQUAL(order_clock(order, 2)[2], -1);
    CU_ASSERT_TRUE(order_before(order, 0, 3)); /* stream 1's work, by way of the collective */
    CU_ASSERT_FALSE(order_before(order, 2, 3));
    CU_ASSERT_FALSE(order_before(order, 1, 4));
    const struct role *role = &plan->roles[0];
    CU_ASSERT_EQUAL(role->parts[0].send, role->parts[0].receive); /* in place: one view */
    order_free(order);
    plan_free(plan);
}

static void expect_bad_event(int kind, const char *words)
{
    struct plan *plan = plans_new(1, 2);
    struct writer w = plans_writer(plan, 0);
    int event = role_add_event(plan, 0, "bucket 3 ready");
    struct order *order;
    if (kind == 1)
        write_record(&w, 0, event);
    if (kind != 1)
        write_wait(&w, 1, event);
    if (kind <= 1)
        write_record(&w, 0, event);
    CU_ASSERT_EQUAL(order_new(plan, 0, 0, &order), RH_INVALID);
    CU_ASSERT_PTR_NULL(order);
    UNIT_ASSERT_CONTAINS(fail_message(), words);
    UNIT_ASSERT_CONTAINS(fail_message(), "'bucket 3 ready'");
    CU_ASSERT_EQUAL(plan_place(plan), RH_INVALID);
    plan_free(plan);
}

static void test_bad_events(void)
{
    expect_bad_event(0, "waited for before it is recorded (instructions 0 and 1)");
    expect_bad_event(1, "recorded twice (instructions 0 and 1)");
    expect_bad_event(2, "waited for by instruction 0 and never recorded");
}

/* A plan with every kind of instruction. */
static struct plan *every_kind(void)
{
    struct plan *plan = plans_new(2, 2);
    struct writer w = plans_writer(plan, 0);
    struct buffer input = {.name = "batch", .lifetime = LIFETIME_PERSISTENT, .device = 1};
    input.purpose = PURPOSE_INPUTS;
    input.use = USE_INPUT;
    input.samples = (struct samples){0, 4, 2, 0, 2};
    input.type = (struct tensor_type){DTYPE_F32, shape_of(2, (int64_t[]){2, 3})};
    int host = role_add_buffer(plan, 0, input);
    input = (struct buffer){.name = "x", .type = input.type, .purpose = PURPOSE_ACTIVATIONS};
    input.lifetime = LIFETIME_TRANSIENT;
    int x = role_add_buffer(plan, 0, input);
    int g = plans_persistent(plan, "weight", 4);
    int dp = plan_add_group(plan, "dp", 1, 0, NULL);
    struct view whole = plans_view(plan, x), weight = plans_view(plan, g);
    struct view column = view_narrow(whole, 1, 2, 1);
    struct collect_part part = {1, &weight, &weight};
    struct exchange_message message = {true, 1, {true, 1}, "half", view_narrow(weight, 0, 2, 2)};
    struct op op = {.kind = OP_scale_add, .scale_add = {.alpha = 0.5}};
    write_begin(&w, 0, "forward");
    write_copy(&w, 0, "load", plans_view(plan, host), whole);
    w.microbatch = 1;
    write_compute(&w, 0, "halve", &op, &column, 1, &column, 1);
    w.microbatch = -1;
    write_end(&w, 0, "forward");
    write_join(&w, 0, 1, "loaded");
    w.work = WORK_COMMUNICATION;
    write_collect(&w, "bucket 0", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, dp, 0, 0, &part, 1);
    write_exchange(&w, "edge", dp, &message, 1);
    write_sync(&w, 0);
    return plan;
}

static const char golden[] =
    "plan 'test': mesh dp=2, 2 workers, 1 role\n"
    "group 0 'dp': dp\n"
    "\n"
    "role 0 'worker': 1 gpu\n"
    "  device 0: persistent 256 bytes, arena 256 bytes\n"
    "  device 1 (host): persistent 256 bytes, arena 0 bytes\n"
    "  stream 0 'compute': device 0\n"
    "  stream 1 'communication': device 0\n"
    "  buffer 0 'batch': device 1 persistent at 0, 24 bytes, fp32 (2, 3), inputs, input 0, "
    "rows 4 x pass + 2 x dp + 0 ... 1\n"
    "  buffer 1 'x': device 0 arena at 0, 24 bytes, fp32 (2, 3), activations, list 'steady'\n"
    "  buffer 2 'weight': device 0 persistent at 0, 16 bytes, fp32 (4), parameters\n"
    "  list 0 'steady': 9 instructions\n"
    "        0 compute        begin    forward\n"
    "        1 compute        copy     load (forward): batch fp32 (2, 3) -> x fp32 (2, 3)\n"
    "        2 compute        compute  halve (forward, microbatch 1): scale_add [alpha 0.5 beta 0] "
    "x+8 fp32 (2, 1) strides (3, 1) -> x+8 fp32 (2, 1) strides (3, 1)\n"
    "        3 compute        end      forward\n"
    "        4 compute        record   loaded (event 0)\n"
    "        5 communication  wait     loaded (event 0)\n"
    "        6 communication  collect  bucket 0 (communication): all_reduce sum over 'dp' "
    "communication: weight fp32 (4) in place\n"
    "        7 communication  exchange edge (communication): over 'dp' communication: send "
    "weight+8 fp32 (2) to +1 as 'half'\n"
    "        8 -              sync     loaded (event 0)\n";

static void test_listing(void)
{
    struct plan *plan = every_kind();
    char *text = NULL;
    size_t bytes = 0;
    CU_ASSERT_EQUAL(plan_check_shapes(plan), RH_OK);
    CU_ASSERT_EQUAL(plan_place(plan), RH_OK);
    FILE *out = open_memstream(&text, &bytes);
    plan_print(plan, out);
    fclose(out);
    CU_ASSERT_STRING_EQUAL(text, golden);
    if (strcmp(text, golden) != 0)
        fprintf(stderr, "%s", text);
    free(text);
    plan_free(plan);
}

static void test_json(void)
{
    struct plan *plan = every_kind();
    cJSON *json = plan_to_json(plan);
    cJSON *role = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "roles"), 0);
    cJSON *list = cJSON_GetArrayItem(cJSON_GetObjectItem(role, "lists"), 0);
    cJSON *instructions = cJSON_GetObjectItem(list, "instructions");
    CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(role, "buffers")), 3);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(role, "streams")), 2);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(role, "events")), 1);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(instructions), 9);
    cJSON *halve = cJSON_GetArrayItem(instructions, 2);
    CU_ASSERT_STRING_EQUAL(cJSON_GetObjectItem(halve, "op")->valuestring, "scale_add");
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(halve, "microbatch")->valueint, 1);
    cJSON *read = cJSON_GetArrayItem(cJSON_GetObjectItem(halve, "reads"), 0);
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(read, "offset")->valueint, 8);
    CU_ASSERT_EQUAL(cJSON_GetArraySize(cJSON_GetObjectItem(read, "strides")), 2);
    cJSON *edge = cJSON_GetArrayItem(instructions, 7);
    cJSON *message = cJSON_GetArrayItem(cJSON_GetObjectItem(edge, "messages"), 0);
    cJSON *peer = cJSON_GetObjectItem(message, "peer");
    CU_ASSERT_TRUE(cJSON_IsTrue(cJSON_GetObjectItem(peer, "relative")));
    CU_ASSERT_EQUAL(cJSON_GetObjectItem(peer, "value")->valueint, 1);
    cJSON_Delete(json);
    plan_free(plan);
}

static void test_totals(void)
{
    struct plan *plan = every_kind();
    struct plan_totals totals;
    plan_totals(plan, 0, 0, &totals);
    CU_ASSERT_EQUAL(totals.launches, 4);
    CU_ASSERT_EQUAL(totals.copies, 1);
    CU_ASSERT_EQUAL(totals.collects, 1);
    CU_ASSERT_EQUAL(totals.exchanges, 1);
    CU_ASSERT_EQUAL(totals.copy_bytes, 24);
    CU_ASSERT_EQUAL(totals.collect_bytes, 16);
    CU_ASSERT_EQUAL(totals.exchange_bytes, 8);
    CU_ASSERT_EQUAL(totals.flops, 2);         /* two elements, one product each */
    CU_ASSERT_EQUAL(totals.memory_bytes, 16); /* read and written */
    plan_free(plan);
}

static const struct unit_test tests[] = {
    {"mesh", test_mesh, NULL},
    {"texts are kept once", test_texts, NULL},
    {"groups", test_groups, NULL},
    {"views", test_views, NULL},
    {"channels last", test_channels_last, NULL},
    {"order", test_order, NULL},
    {"order through a collective", test_order_collect, NULL},
    {"bad events", test_bad_events, NULL},
    {"listing", test_listing, NULL},
    {"json", test_json, NULL},
    {"totals", test_totals, NULL},
};

int main(void)
{
    return UNIT_MAIN("plan", tests);
}
