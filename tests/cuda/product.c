/* Linear layers on a GPU: every way to compute them against the CPU's kernels, then which is the
 * fastest. parity_product [parity | bench]: one of both. Exit 77 where there is no GPU, 1 after a
 * failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/product.h"
#include "base/memory.h"
#include "base/random.h"
#include "kernels/cpu/cpu.h"
#include "op/convert.h"

enum {
    MOST_WAYS = 32,
    OPERANDS = 5,
    GUARD_BYTES = 256,
    GUARD = 0x5a,
    WORKSPACE_MOST_BYTES = 32 << 20
};
#define COUNT_OF(array) (int)(sizeof(array) / sizeof *(array))

/* Errors of sums that are allowed, relative to the largest value. */
static const struct setting {
    const char *name;
    enum dtype type, compute;
    double bound;
} settings[] = {{"fp32", DTYPE_F32, DTYPE_F32, 1e-5},
                {"tf32", DTYPE_F32, DTYPE_TF32, 2e-3},
                {"bf16", DTYPE_BF16, DTYPE_F32, 0x1p-6},
                {"fp16", DTYPE_F16, DTYPE_F32, 0x1p-9}};

static const struct direction {
    const char *name;
    enum op_kind kind;
    bool vector, relu, accumulate;
} directions[] = {
    {"forward", OP_linear, false, false, false},
    {"forward, bias", OP_linear, true, false, false},
    {"forward, relu", OP_linear, false, true, false},
    {"forward, bias, relu", OP_linear, true, true, false},
    {"input gradient", OP_linear_input_grad, false, false, false},
    {"input gradient, masked", OP_linear_input_grad, false, true, false},
    {"weight gradient", OP_linear_weight_grad, false, false, false},
    {"weight gradient, bias", OP_linear_weight_grad, true, false, false},
    {"weight gradient, bias, added", OP_linear_weight_grad, true, false, true},
};

struct layer {
    int64_t rows, inputs, outputs;
};

/* first, second, vector or mask, out, and a bias's gradient; `device` is guarded at its end. */
struct operand {
    struct cpu_tensor tensor;
    size_t bytes;
    char *device;
};

enum rh_status cuda_failed(const char *what, cudaError_t error)
{
    return fail(RH_FAILED, "%.80s: %s", what, cudaGetErrorString(error));
}

static struct product_request request_of(const struct layer *l, const struct setting *t,
                                         const struct direction *d, int alignment)
{
    return (struct product_request){.kind = d->kind,
                                    .type = t->type,
                                    .out = d->kind == OP_linear_weight_grad ? DTYPE_F32 : t->type,
                                    .compute = t->compute,
                                    .rows = l->rows,
                                    .inputs = l->inputs,
                                    .outputs = l->outputs,
                                    .accumulate = d->accumulate,
                                    .vector = d->vector,
                                    .relu = d->relu,
                                    .first_alignment = alignment,
                                    .second_alignment = alignment,
                                    .out_alignment = alignment,
                                    .vector_alignment = d->vector ? alignment : 256,
                                    .workspace_bytes = WORKSPACE_MOST_BYTES};
}

/* Operands lie as the alignment says, and no better. */
static enum rh_status make_operand(struct operand *o, enum dtype dtype, int rank, int64_t a,
                                   int64_t b, int alignment, uint64_t seed)
{
    int64_t dims[] = {a, b};
    o->tensor.type = (struct tensor_type){dtype, shape_of(rank, dims)};
    o->bytes = type_bytes(&o->tensor.type);
    int64_t n = shape_elements(&o->tensor.type.shape);
    float *values = memory_new_array((size_t)n, sizeof *values);
    o->tensor.data = memory_new(o->bytes);
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)random_normal(seed, (uint64_t)i);
    convert_from_f32(dtype, values, o->tensor.data, n);
    free(values);
    CUDA_DO(cudaMalloc((void **)&o->device, o->bytes + 2 * GUARD_BYTES));
    o->device += alignment % 256;
    CUDA_DO(cudaMemset(o->device + o->bytes, GUARD, GUARD_BYTES));
    CUDA_DO(cudaMemcpy(o->device, o->tensor.data, o->bytes, cudaMemcpyHostToDevice));
    return RH_OK;
}

static enum rh_status make_operands(const struct product_request *r, int alignment,
                                    struct operand o[OPERANDS])
{
    bool forward = r->kind == OP_linear, weights = r->kind == OP_linear_weight_grad;
    bool input = r->kind == OP_linear_input_grad;
    int64_t out_rows = weights ? r->outputs : r->rows,
            out_columns = forward ? r->outputs : r->inputs;
    RETURN_IF_FAILED(
        make_operand(&o[0], r->type, 2, r->rows, forward ? r->inputs : r->outputs, alignment, 1));
    RETURN_IF_FAILED(
        make_operand(&o[1], r->type, 2, weights ? r->rows : r->outputs, r->inputs, alignment, 2));
    if (forward && r->vector)
        RETURN_IF_FAILED(make_operand(&o[2], r->type, 1, r->outputs, 0, alignment, 3));
    if (input && r->relu)
        RETURN_IF_FAILED(make_operand(&o[2], r->type, 2, r->rows, r->inputs, 256, 3));
    RETURN_IF_FAILED(make_operand(&o[3], r->out, 2, out_rows, out_columns, alignment, 4));
    if (weights && r->vector)
        RETURN_IF_FAILED(make_operand(&o[4], r->out, 1, r->outputs, 0, alignment, 5));
    return RH_OK;
}

static void drop_operands(struct operand o[OPERANDS], int alignment)
{
    for (int i = 0; i < OPERANDS; i++) {
        bool mask = i == 2 && o[i].tensor.type.shape.rank == 2;
        free(o[i].tensor.data);
        if (o[i].device)
            cudaFree(o[i].device - (mask ? 0 : alignment % 256));
    }
}

static struct product_memory memory_of(const struct product_request *r, struct operand o[OPERANDS])
{
    struct product_memory at = {.first = o[0].device, .second = o[1].device, .out = o[3].device};
    if (r->kind == OP_linear_input_grad)
        at.mask = o[2].device;
    else
        at.vector = r->kind == OP_linear ? o[2].device : o[4].device;
    return at;
}

/* The CPU's result into out's and the bias gradient's host copies. */
static enum rh_status compute(const struct product_request *r, struct operand o[OPERANDS])
{
    struct op op = {.kind = r->kind, .compute = DTYPE_F32, .accumulate = r->accumulate};
    struct cpu_tensor reads[] = {o[0].tensor, o[1].tensor, o[2].tensor};
    struct cpu_tensor writes[] = {o[3].tensor, o[4].tensor};
    op.linear.relu = r->kind == OP_linear && r->relu;
    return cpu_run(&op, reads, o[2].device ? 3 : 2, writes, o[4].device ? 2 : 1);
}

static double distance(const struct operand *o, const void *found)
{
    int64_t n = shape_elements(&o->tensor.type.shape);
    float *a = memory_new_array((size_t)n, sizeof *a), *b = memory_new_array((size_t)n, sizeof *b);
    double most = 0, difference = 0;
    convert_to_f32(o->tensor.type.dtype, o->tensor.data, a, n);
    convert_to_f32(o->tensor.type.dtype, found, b, n);
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)a[i] - b[i]);
        most = fmax(most, fabs((double)a[i]));
        if (!(error <= difference))
            difference = isnan(error) ? INFINITY : error;
    }
    free(a);
    free(b);
    return most > 0 ? difference / most : difference;
}

static enum rh_status fetch(const struct operand *o, double *worst, bool *guarded)
{
    unsigned char guard[GUARD_BYTES];
    void *found = memory_new(o->bytes);
    CUDA_DO(cudaMemcpy(found, o->device, o->bytes, cudaMemcpyDeviceToHost));
    CUDA_DO(cudaMemcpy(guard, o->device + o->bytes, GUARD_BYTES, cudaMemcpyDeviceToHost));
    *worst = fmax(*worst, distance(o, found));
    for (int i = 0; i < GUARD_BYTES; i++)
        *guarded = *guarded && guard[i] == GUARD;
    free(found);
    return RH_OK;
}

/* From the same beginning for every way: `before` holds out and the bias's gradient. */
static enum rh_status run_way(struct session *s, const struct product_request *r,
                              const struct product_way *w, struct operand o[OPERANDS],
                              void *const before[2], double *worst, bool *guarded)
{
    struct product_memory at = memory_of(r, o);
    size_t bytes = product_workspace(r, w);
    void *workspace = NULL;
    for (int i = 0; i < 2; i++)
        if (o[3 + i].device)
            CUDA_DO(cudaMemcpy(o[3 + i].device, before[i], o[3 + i].bytes, cudaMemcpyHostToDevice));
    if (bytes)
        CUDA_DO(cudaMalloc(&workspace, bytes));
    CUDA_DO(cudaDeviceSynchronize());
    enum rh_status status = product_run(s, r, w->form, &w->matmul, s->origin, &at, workspace);
    cudaError_t error = cudaStreamSynchronize(s->origin);
    cudaFree(workspace);
    RETURN_IF_FAILED(status);
    CUDA_DO(error);
    for (int i = 3; i < OPERANDS; i++)
        if (o[i].device)
            RETURN_IF_FAILED(fetch(&o[i], worst, guarded));
    return RH_OK;
}

struct count {
    int passed, failed, ways[3]; /* by form */
};

static void check_ways(struct session *s, const struct product_request *r, const char *name,
                       double bound, struct operand o[OPERANDS], struct count *count)
{
    struct product_way ways[MOST_WAYS];
    struct product_memory at = memory_of(r, o);
    void *before[2] = {NULL, NULL};
    char engine[48];
    for (int i = 0; i < 2; i++)
        if (o[3 + i].device) {
            before[i] = memory_new(o[3 + i].bytes);
            memcpy(before[i], o[3 + i].tensor.data, o[3 + i].bytes);
        }
    enum rh_status status = compute(r, o);
    int found = status == RH_OK ? product_ways(s, r, at.vector, ways, MOST_WAYS, false) : 0;
    count->failed += found == 0;
    for (int i = 0; i < found; i++) {
        double worst = 0;
        bool guarded = true;
        status = run_way(s, r, &ways[i], o, before, &worst, &guarded);
        bool fine = status == RH_OK && worst <= bound && guarded;
        if (!fine)
            printf("FAIL %s, %lld x %lld -> %lld, aligned to %d, %s: %.3g of %.3g%s%s\n", name,
                   (long long)r->rows, (long long)r->inputs, (long long)r->outputs,
                   r->first_alignment, product_engine(&ways[i], engine), worst, bound,
                   guarded ? "" : ", writes behind its result",
                   status == RH_OK ? "" : fail_message());
        count->passed += fine;
        count->failed += !fine;
        count->ways[ways[i].form]++;
        matmul_drop(&ways[i].matmul);
    }
    free(before[0]);
    free(before[1]);
}

static int check_all(struct session *s)
{
    static const struct layer layers[] = {
        {20, 10, 5}, {1, 1, 1}, {33, 127, 65}, {64, 128, 256}, {5000, 24, 16}};
    static const int alignments[] = {256, 16, 4};
    struct count count = {0};
    for (int l = 0; l < COUNT_OF(layers); l++)
        for (int t = 0; t < COUNT_OF(settings); t++)
            for (int d = 0; d < COUNT_OF(directions); d++)
                for (int a = 0; a < COUNT_OF(alignments); a++) {
                    struct operand o[OPERANDS] = {0};
                    struct product_request r =
                        request_of(&layers[l], &settings[t], &directions[d], alignments[a]);
                    char name[96];
                    snprintf(name, sizeof name, "%s %s", directions[d].name, settings[t].name);
                    if (make_operands(&r, alignments[a], o) == RH_OK)
                        check_ways(s, &r, name, settings[t].bound, o, &count);
                    else
                        printf("FAIL %s: %s\n", name, fail_message()), count.failed++;
                    drop_operands(o, alignments[a]);
                }
    printf("product: %d passed, %d failed, 0 skipped; %d ways with an epilogue or bare, %d with a "
           "kernel behind, %d of ours\n",
           count.passed, count.failed, count.ways[PRODUCT_WHOLE], count.ways[PRODUCT_PARTS],
           count.ways[PRODUCT_OURS]);
    return count.failed;
}

static void print_form(const char *name, float seconds)
{
    if (seconds > 0)
        printf("  %s %.1f us", name, (double)seconds * 1e6);
}

/* Toy, MLP and ResNet-50's head: the choice and the fastest of each form. */
static int bench(struct session *s)
{
    static const struct layer layers[] = {{20, 10, 10},       {20, 10, 5},      {1000, 784, 4096},
                                          {1000, 4096, 4096}, {1000, 4096, 10}, {256, 2048, 1000}};
    static const int used[] = {3, 5, 7};
    int failed = 0;
    char engine[48];
    for (int l = 0; l < COUNT_OF(layers); l++)
        for (int t = 0; t < 3; t++)
            for (int d = 0; d < COUNT_OF(used); d++) {
                struct product_request r =
                    request_of(&layers[l], &settings[t], &directions[used[d]], 256);
                const struct product *p = NULL;
                s->search_seconds = 0;
                if (product_find(s, &r, "bench", &p) != RH_OK) {
                    printf("FAIL bench: %s\n", fail_message());
                    failed++;
                    continue;
                }
                double flops = 2.0 * (double)(r.rows * r.inputs * r.outputs);
                printf("%4lld x %4lld -> %4lld %s | %-22s | %-26s | %8.1f us | %6.1f TFLOP/s |",
                       (long long)r.rows, (long long)r.inputs, (long long)r.outputs,
                       settings[t].name, directions[used[d]].name, product_engine(&p->way, engine),
                       (double)p->way.seconds * 1e6, flops / (double)p->way.seconds * 1e-12);
                print_form("epilogue", p->fastest[PRODUCT_WHOLE]);
                print_form("kernel behind", p->fastest[PRODUCT_PARTS]);
                print_form("ours", p->fastest[PRODUCT_OURS]);
                printf(" | found in %.2f s\n", s->search_seconds);
            }
    return failed;
}

int main(int count, char **words)
{
    static struct session session;
    const char *only = count > 1 ? words[1] : "";
    int gpus = 0;
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    cudaError_t error = cudaGetDeviceCount(&gpus);
    if (error != cudaSuccess || gpus == 0) {
        printf("product: skipped: no GPU: %s\n",
               error != cudaSuccess ? cudaGetErrorString(error) : "the driver shows none");
        return 77;
    }
    if (cudaStreamCreateWithFlags(&session.origin, cudaStreamNonBlocking) != cudaSuccess ||
        cublasLtCreate(&session.lt) != CUBLAS_STATUS_SUCCESS) {
        printf("FAIL no stream, or no cuBLASLt\n");
        return 1;
    }
    if (strcmp(only, "bench") != 0)
        failed += check_all(&session);
    if (strcmp(only, "parity") != 0)
        failed += bench(&session);
    products_drop(&session);
    cublasLtDestroy(session.lt);
    cudaStreamDestroy(session.origin);
    return failed > 0;
}
