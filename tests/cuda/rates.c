#include <stdio.h>

#include "cuda/case.h"

/* ResNet-50, stride in the 3x3 convolutions. */
static const struct layer {
    int c, size, k, kernel, stride, count;
} layers[] = {
    {3, 224, 64, 7, 2, 1},    {64, 56, 64, 1, 1, 1},    {64, 56, 64, 3, 1, 3},
    {64, 56, 256, 1, 1, 4},   {256, 56, 64, 1, 1, 2},   {256, 56, 128, 1, 1, 1},
    {128, 56, 128, 3, 2, 1},  {128, 28, 512, 1, 1, 4},  {256, 56, 512, 1, 2, 1},
    {512, 28, 128, 1, 1, 3},  {128, 28, 128, 3, 1, 3},  {512, 28, 256, 1, 1, 1},
    {256, 28, 256, 3, 2, 1},  {256, 14, 1024, 1, 1, 6}, {512, 28, 1024, 1, 2, 1},
    {1024, 14, 256, 1, 1, 5}, {256, 14, 256, 3, 1, 5},  {1024, 14, 512, 1, 1, 1},
    {512, 14, 512, 3, 2, 1},  {512, 7, 2048, 1, 1, 3},  {1024, 14, 2048, 1, 2, 1},
    {2048, 7, 512, 1, 1, 2},  {512, 7, 512, 3, 1, 2},
};

static enum rh_status time_run(struct run *u, double *seconds)
{
    enum { RUNS = 20 };
    cudaEvent_t begin, end;
    float milliseconds = 0;
    CUDA_DO(cudaEventCreate(&begin));
    CUDA_DO(cudaEventCreate(&end));
    for (int i = 0; i < 3; i++)
        RETURN_IF_FAILED(launch(u));
    CUDA_DO(cudaEventRecord(begin, u->s->origin));
    for (int i = 0; i < RUNS; i++)
        RETURN_IF_FAILED(launch(u));
    CUDA_DO(cudaEventRecord(end, u->s->origin));
    CUDA_DO(cudaEventSynchronize(end));
    CUDA_DO(cudaEventElapsedTime(&milliseconds, begin, end));
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    *seconds = milliseconds * 1e-3 / RUNS;
    return RH_OK;
}

static int bench_layer(struct session *s, const struct layer *l, const struct direction *d,
                       double *total)
{
    static const struct setting bf16 = {"bf16", DTYPE_BF16, DTYPE_BF16, 0, 0};
    struct picture p = {64, l->c, l->size, l->size, l->k, l->kernel, l->stride, l->kernel / 2, 1};
    struct convolution_request r = request_of(&p, &bf16, d, true);
    struct run u = {.s = s};
    double seconds = 0;
    double before = s->search_seconds;
    double flops = 2.0 * (double)(r.n * r.k * r.p * r.q) * l->c * l->kernel * l->kernel;
    enum rh_status status = make_run(s, &r, &u);
    if (status == RH_OK)
        status = time_run(&u, &seconds);
    if (status == RH_OK)
        printf("%4d x %3d^2 -> %4d, %dx%d / %d | %-22s | %-32s | %8.1f us | %6.1f TFLOP/s | %5.1f "
               "MiB | found in %.2f s\n",
               l->c, l->size, l->k, l->kernel, l->kernel, l->stride, d->name,
               convolution_engine(u.c), seconds * 1e6, flops / seconds * 1e-12,
               (double)u.workspace_bytes / (1 << 20), s->search_seconds - before);
    else
        printf("FAIL bench %d x %d^2 -> %d, %s: %s\n", l->c, l->size, l->k, d->name,
               fail_message());
    *total += seconds * l->count;
    drop_run(&u);
    return status != RH_OK;
}

int bench(struct session *s, bool fresh)
{
    static const struct direction directions[] = {
        {"forward", OP_conv2d, false, false, false},
        {"input gradient", OP_conv2d_input_grad, false, false, false},
        {"weight gradient", OP_conv2d_weight_grad, false, false, false},
        {"weight gradient, added", OP_conv2d_weight_grad, true, false, false},
    };
    double total[COUNT_OF(directions)] = {0};
    int failed = 0;
    for (int i = 0; i < COUNT_OF(layers); i++)
        for (int d = 0; d < COUNT_OF(directions); d++) {
            if (fresh)
                s->search_seconds = 0;
            failed += bench_layer(s, &layers[i], &directions[d], &total[d]);
        }
    for (int d = 0; d < COUNT_OF(directions); d++)
        printf("53 convolutions, %s: %.3f ms\n", directions[d].name, total[d] * 1e3);
    if (!fresh)
        printf("all searches took %.1f s\n", s->search_seconds);
    return failed;
}
