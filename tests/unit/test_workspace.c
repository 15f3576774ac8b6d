/* Workspace as operands: how much each op wants, and that placement, races and peaks see it. */
#include "op/norm_cut.h"
#include "plan/access.h"
#include "plan/check.h"
#include "plan/placement.h"
#include "plan/workspace.h"
#include "plans.h"
#include "unit.h"

static const struct workspace_limits limits = {64 << 20, 4 << 20};

static struct tensor_type tensor(enum dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                                 int64_t d)
{
    int64_t dim[] = {a, b, c, d};
    return (struct tensor_type){dtype, shape_of(rank, dim), false};
}

static size_t size_of_linear(int64_t rows, int64_t in, int64_t out)
{
    struct op op = {.kind = OP_linear};
    struct tensor_type reads[] = {tensor(DTYPE_F32, 2, rows, in, 0, 0),
                                  tensor(DTYPE_F32, 2, out, in, 0, 0)};
    struct tensor_type write = tensor(DTYPE_F32, 2, rows, out, 0, 0);
    return op_workspace_bytes(&op, reads, 2, &write, 1, &limits);
}

static void products_get_the_limit_or_eight_times_their_operands(void)
{
    CU_ASSERT_EQUAL(size_of_linear(4096, 4096, 4096), 4 << 20);
    /* 4 (20 + 50 + 40) = 440 bytes of operands */
    CU_ASSERT_EQUAL(size_of_linear(4, 5, 10), 3584);
}

static size_t size_of_conv2d(enum op_kind kind, bool accumulate, enum dtype in, enum dtype out)
{
    struct op op = {.kind = kind, .accumulate = accumulate};
    struct tensor_type reads[] = {tensor(in, 4, 256, 64, 56, 56), tensor(in, 4, 256, 64, 56, 56)};
    struct tensor_type write = tensor(out, 4, 64, 64, 3, 3);
    return op_workspace_bytes(&op, reads, 2, &write, 1, &limits);
}

static void convolutions_get_room_for_what_is_added_aside(void)
{
    size_t weights = 64 * 64 * 9;
    size_t limit = 64 << 20;
    CU_ASSERT_EQUAL(size_of_conv2d(OP_conv2d, false, DTYPE_F32, DTYPE_F32), limit);
    CU_ASSERT_EQUAL(size_of_conv2d(OP_conv2d_weight_grad, false, DTYPE_F32, DTYPE_F32), limit);
    CU_ASSERT_EQUAL(size_of_conv2d(OP_conv2d_weight_grad, false, DTYPE_TF32, DTYPE_F32), limit);
    CU_ASSERT_EQUAL(size_of_conv2d(OP_conv2d_weight_grad, false, DTYPE_BF16, DTYPE_F32),
                    limit + 2 * weights);
    CU_ASSERT_EQUAL(size_of_conv2d(OP_conv2d_weight_grad, true, DTYPE_BF16, DTYPE_F32),
                    limit + 4 * weights);
}

static void small_convolutions_get_less(void)
{
    struct op op = {.kind = OP_conv2d};
    struct tensor_type reads[] = {tensor(DTYPE_F32, 4, 1, 1, 8, 8),
                                  tensor(DTYPE_F32, 4, 1, 1, 3, 3)};
    struct tensor_type write = tensor(DTYPE_F32, 4, 1, 1, 6, 6);
    /* 4 (64 + 9 + 36) = 436 bytes of operands */
    CU_ASSERT_EQUAL(op_workspace_bytes(&op, reads, 2, &write, 1, &limits), (1 << 20) + 3584);
}

static size_t size_of_norm(enum op_kind kind, bool training, bool last, int64_t n, int64_t c,
                           int64_t size)
{
    struct op op = {.kind = kind};
    struct tensor_type x = tensor(DTYPE_BF16, 4, n, c, size, size);
    op.norm.training = training;
    x.channels_last = last;
    return op_workspace_bytes(&op, &x, 1, &x, 1, &limits);
}

static void batch_norm_wants_its_partial_sums(void)
{
    /* 64 channels last of 802816 positions. 2 at a time: one group of 32 lanes, so 16 rows at a
     * time, 50176 times, in at most 264 chunks of 191 passes: 263. */
    CU_ASSERT_EQUAL(size_of_norm(OP_batch_norm2d, true, true, 256, 64, 56),
                    (64 * (2 + 2 * 263) * 4 + 255) / 256 * 256);
    /* Row-major, a group is a channel: 264 / 64 chunks. */
    CU_ASSERT_EQUAL(size_of_norm(OP_batch_norm2d_grad, true, false, 256, 64, 56),
                    (64 * (2 + 2 * 4) * 4 + 255) / 256 * 256);
    CU_ASSERT_EQUAL(size_of_norm(OP_batch_norm2d, false, true, 256, 64, 56), 0);
    /* 3 channels: vectors of 8 do not divide a row */
    CU_ASSERT_TRUE(size_of_norm(OP_batch_norm2d, true, true, 2, 3, 5) > 0);
}

/* The kernels go by these numbers: every vector is in exactly one piece, and their sums have room.
 */
static void cuts_cover_a_tensor(void)
{
    struct random random = {7};
    for (int i = 0; i < 2000; i++) {
        int64_t n = 1 + pick(&random, 300), c = 1 + pick(&random, 3000);
        int64_t h = 1 + pick(&random, 60), w = 1 + pick(&random, 60);
        int last = pick(&random, 2);
        int64_t row = last ? c : h * w;
        for (int vector = 1; vector <= NORM_VECTOR_MOST && row % vector == 0; vector *= 2) {
            struct norm_cut t = norm_cut_of(n, c, h, w, last, vector);
            int64_t of_chunk = (int64_t)t.passes * t.rows;
            CU_ASSERT_TRUE_FATAL(t.chunks * of_chunk >= t.positions);
            CU_ASSERT_TRUE_FATAL((t.chunks - 1) * of_chunk < t.positions);
            CU_ASSERT_TRUE_FATAL(!last || t.groups * t.lanes >= t.vectors);
            CU_ASSERT_TRUE_FATAL(t.lanes * t.rows <= NORM_AT_A_TIME && t.rows > 0);
            CU_ASSERT_TRUE_FATAL(t.chunks == 1 || t.groups * t.chunks <= NORM_PIECES);
            CU_ASSERT_EQUAL_FATAL(t.positions * t.vectors * vector,
                                  (last ? 1 : t.vectors) * n * c * h * w / (last ? 1 : c));
            CU_ASSERT_TRUE_FATAL(norm_cut_bytes(n, c, h, w, last) >=
                                 (size_t)(c * (2 + 2 * t.chunks)) * sizeof(float));
        }
    }
}

/* y = w x on a stream, with operands of 400, 400 and 400 bytes. */
static int product(struct plan *plan, struct writer *w, int stream, const char *name)
{
    int64_t dim[] = {10, 10};
    struct op op = {.kind = OP_linear, .compute = DTYPE_F32};
    struct view reads[2], write;
    for (int i = 0; i < 3; i++) {
        struct buffer buffer = {.name = plan_text(plan, "%s %d", name, i),
                                .device = plan->roles[0].streams[stream].device,
                                .type = {DTYPE_F32, shape_of(2, dim), false},
                                .purpose = PURPOSE_PARAMETERS,
                                .lifetime = LIFETIME_PERSISTENT};
        struct view view = view_of(&plan->roles[0], role_add_buffer(plan, 0, buffer));
        *(i < 2 ? &reads[i] : &write) = view;
    }
    write_compute(w, stream, name, &op, reads, 2, &write, 1);
    return plan->roles[0].lists[0].count - 1;
}

static const struct buffer *workspace_of(const struct plan *plan, int instruction)
{
    const struct role *role = &plan->roles[0];
    int view = role->lists[0].instructions[instruction].compute.workspace;
    CU_ASSERT_TRUE_FATAL(view >= 0);
    return &role->buffers[role->views[view].buffer];
}

static void each_instruction_gets_an_operand(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    int a = product(plan, &w, 0, "a"), b = product(plan, &w, 0, "b");
    int buffers = plan->roles[0].buffer_count;
    const struct instruction *in = &plan->roles[0].lists[0].instructions[a];
    CU_ASSERT_EQUAL(access_count(in), 3);
    CU_ASSERT_EQUAL(workspace_bytes(&plan->roles[0], in), 0);
    CU_ASSERT_EQUAL(plan_add_workspace(plan, &limits), 2);
    CU_ASSERT_EQUAL(plan_add_workspace(plan, &limits), 0); /* they have it */
    CU_ASSERT_EQUAL(plan->roles[0].buffer_count, buffers + 2);
    CU_ASSERT_EQUAL(workspace_bytes(&plan->roles[0], in), 9728);
    CU_ASSERT_EQUAL(access_count(in), 4);
    CU_ASSERT_TRUE(access_at(&plan->roles[0], in, 3).write);
    CU_ASSERT_EQUAL_FATAL(plan_check(plan), RH_OK);
    CU_ASSERT_STRING_EQUAL(workspace_of(plan, a)->name, "a workspace");
    CU_ASSERT_EQUAL(workspace_of(plan, a)->purpose, PURPOSE_WORKSPACE);
    /* One after the other on a stream: they share. */
    CU_ASSERT_EQUAL(workspace_of(plan, a)->offset, workspace_of(plan, b)->offset);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 9728);
    plan_free(plan);
}

static void streams_side_by_side_do_not_share(void)
{
    struct plan *plan = plans_new(1, 2);
    struct writer w = plans_writer(plan, 0);
    int a = product(plan, &w, 0, "a"), b = product(plan, &w, 1, "b");
    plan_add_workspace(plan, &limits);
    CU_ASSERT_EQUAL_FATAL(plan_check(plan), RH_OK);
    CU_ASSERT_NOT_EQUAL(workspace_of(plan, a)->offset, workspace_of(plan, b)->offset);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 2 * 9728);
    struct buffer *moved = &plan->roles[0].buffers[workspace_of(plan, b) - plan->roles[0].buffers];
    moved->offset = workspace_of(plan, a)->offset;
    CU_ASSERT_EQUAL(plan_check_races(plan, 0, 0), RH_INVALID);
    UNIT_ASSERT_CONTAINS(fail_message(), "'a workspace'");
    UNIT_ASSERT_CONTAINS(fail_message(), "'b workspace'");
    plan_free(plan);
}

static void an_ordered_stream_shares(void)
{
    struct plan *plan = plans_new(1, 2);
    struct writer w = plans_writer(plan, 0);
    product(plan, &w, 0, "a");
    write_join(&w, 0, 1, "order");
    product(plan, &w, 1, "b");
    plan_add_workspace(plan, &limits);
    CU_ASSERT_EQUAL_FATAL(plan_check(plan), RH_OK);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 9728);
    plan_free(plan);
}

/* What is in use beside an op must not lie in its workspace. */
static void live_tensors_keep_their_bytes(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    int kept = plans_transient(plan, "kept", 256), last = plans_transient(plan, "last", 256);
    plans_zero(&w, 0, "zero", plans_view(plan, kept));
    int a = product(plan, &w, 0, "a");
    plans_relu(&w, 0, "relu", plans_view(plan, kept), plans_view(plan, last));
    plan_add_workspace(plan, &limits);
    CU_ASSERT_EQUAL_FATAL(plan_check(plan), RH_OK);
    const struct buffer *k = &plan->roles[0].buffers[kept];
    const struct buffer *s = workspace_of(plan, a);
    CU_ASSERT_TRUE(k->offset >= s->offset + s->bytes || s->offset >= k->offset + k->bytes);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 9728 + 1024);
    double peak[PURPOSE_COUNT];
    plan_peak(plan, 0, 0, peak);
    CU_ASSERT_EQUAL(peak[PURPOSE_WORKSPACE], 9728 + 3 * 112); /* the largest takes the padding */
    CU_ASSERT_EQUAL(peak[PURPOSE_ACTIVATIONS], 1024);
    plan_free(plan);
}

static void nothing_is_added_where_none_is_needed(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    int x = plans_transient(plan, "x", 256), y = plans_transient(plan, "y", 256);
    plans_zero(&w, 0, "zero", plans_view(plan, x));
    plans_relu(&w, 0, "relu", plans_view(plan, x), plans_view(plan, y));
    CU_ASSERT_EQUAL(plan_add_workspace(plan, &limits), 0);
    CU_ASSERT_EQUAL(plan->roles[0].buffer_count, 2);
    CU_ASSERT_EQUAL_FATAL(plan_check(plan), RH_OK);
    CU_ASSERT_EQUAL(plan->roles[0].arena_bytes[0], 2048);
    plan_free(plan);
}

static void the_host_needs_none(void)
{
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    int host = role_add_stream(plan, 0, "host", 1);
    product(plan, &w, host, "on the host");
    CU_ASSERT_EQUAL(plan_add_workspace(plan, &limits), 0);
    CU_ASSERT_EQUAL(plan_check(plan), RH_OK);
    plan_free(plan);
}

static void without_limits_libraries_get_none(void)
{
    static const struct workspace_limits none = {0, 0};
    struct plan *plan = plans_new(1, 1);
    struct writer w = plans_writer(plan, 0);
    product(plan, &w, 0, "a");
    CU_ASSERT_EQUAL(plan_add_workspace(plan, &none), 0);
    plan_free(plan);
}

static const struct unit_test tests[] = {
    {"products get the limit or eight times their operands",
     products_get_the_limit_or_eight_times_their_operands, NULL},
    {"convolutions get room for what is added aside", convolutions_get_room_for_what_is_added_aside,
     NULL},
    {"small convolutions get less", small_convolutions_get_less, NULL},
    {"batch norm wants its partial sums", batch_norm_wants_its_partial_sums, NULL},
    {"cuts cover a tensor", cuts_cover_a_tensor, NULL},
    {"each instruction gets an operand", each_instruction_gets_an_operand, NULL},
    {"streams side by side do not share", streams_side_by_side_do_not_share, NULL},
    {"an ordered stream shares", an_ordered_stream_shares, NULL},
    {"live tensors keep their bytes", live_tensors_keep_their_bytes, NULL},
    {"nothing is added where none is needed", nothing_is_added_where_none_is_needed, NULL},
    {"the host needs none", the_host_needs_none, NULL},
    {"without limits libraries get none", without_limits_libraries_get_none, NULL},
};

int main(void)
{
    return UNIT_MAIN("workspace", tests);
}
