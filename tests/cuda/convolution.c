/* Convolutions on a GPU against plain loops, then their rates in ResNet-50.
 * parity_convolution [parity | bench [fresh]]: one of both; fresh forgets the time spent on
 * searches after each shape. Exit 77 where there is no GPU, 1 after a failure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cuda/case.h"
#include "op/convert.h"

static const struct setting settings[] = {{"fp32", DTYPE_F32, DTYPE_F32, 4e-6, 2e-6},
                                          {"tf32", DTYPE_F32, DTYPE_TF32, 1e-3, 2e-6},
                                          {"bf16", DTYPE_BF16, DTYPE_BF16, 1e-4, 1.2e-2},
                                          {"fp16", DTYPE_F16, DTYPE_F16, 1e-4, 1.5e-3}};

static const struct picture pictures[] = {
    {2, 8, 9, 7, 16, 3, 1, 1, 1},  {2, 3, 17, 15, 8, 7, 2, 3, 1},    {3, 16, 7, 5, 24, 1, 1, 0, 1},
    {2, 16, 9, 11, 8, 1, 2, 0, 1}, {2, 8, 10, 9, 12, 3, 2, 1, 2},    {2, 64, 8, 8, 64, 3, 1, 1, 1},
    {1, 5, 6, 6, 7, 3, 1, 1, 1},   {2, 64, 14, 14, 256, 1, 1, 0, 1}, {1, 3, 5, 5, 7, 1, 1, 0, 1},
};

static const struct direction directions[] = {
    {"forward", OP_conv2d, false, false, false},
    {"forward, bias", OP_conv2d, false, true, false},
    {"forward, bias, relu", OP_conv2d, false, true, true},
    {"input gradient", OP_conv2d_input_grad, false, false, false},
    {"input gradient, added", OP_conv2d_input_grad, true, false, false},
    {"weight gradient", OP_conv2d_weight_grad, false, false, false},
    {"weight gradient, added", OP_conv2d_weight_grad, true, false, false},
};

static int64_t at(const struct operand *o, bool last, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *n = o->dim;
    return last ? ((a * n[2] + c) * n[3] + d) * n[1] + b : ((a * n[1] + b) * n[2] + c) * n[3] + d;
}

/* Adds the products that meet at one element of y. */
static void meet(const struct convolution_request *r, struct operand o[3], int64_t n, int64_t k,
                 int64_t p, int64_t q, double *sum, double *magnitude)
{
    enum op_kind kind = r->op.kind;
    bool last = r->channels_last;
    int64_t per_group = r->c / r->op.window.groups;
    int64_t first = k / (r->k / r->op.window.groups) * per_group;
    struct operand *x = &o[kind == OP_conv2d ? 0 : kind == OP_conv2d_weight_grad ? 1 : 2];
    struct operand *w = &o[kind == OP_conv2d_weight_grad ? 2 : 1];
    struct operand *y = &o[kind == OP_conv2d ? 2 : 0];
    int64_t iy = at(y, last, n, k, p, q);
    for (int64_t c = 0; c < per_group; c++)
        for (int64_t i = 0; i < r->op.window.kernel_h; i++)
            for (int64_t j = 0; j < r->op.window.kernel_w; j++) {
                int64_t h = p * r->op.window.stride_h + i - r->op.window.padding_h;
                int64_t v = q * r->op.window.stride_w + j - r->op.window.padding_w;
                if (h < 0 || h >= r->h || v < 0 || v >= r->w)
                    continue;
                int64_t ix = at(x, last, n, first + c, h, v);
                int64_t iw = at(w, last, k, c, i, j);
                int64_t io = kind == OP_conv2d ? iy : kind == OP_conv2d_weight_grad ? iw : ix;
                double term = kind == OP_conv2d ? (double)x->values[ix] * w->values[iw]
                              : kind == OP_conv2d_weight_grad
                                  ? (double)x->values[ix] * y->values[iy]
                                  : (double)w->values[iw] * y->values[iy];
                sum[io] += term;
                magnitude[io] += fabs(term);
            }
}

static void compute(const struct convolution_request *r, struct operand o[3], double *sum,
                    double *magnitude)
{
    for (int64_t n = 0; n < r->n; n++)
        for (int64_t k = 0; k < r->k; k++)
            for (int64_t p = 0; p < r->p; p++)
                for (int64_t q = 0; q < r->q; q++)
                    meet(r, o, n, k, p, q, sum, magnitude);
}

/* The worst error over what is allowed; above 1 is wrong. */
static double compare(const struct convolution_request *r, const struct setting *t,
                      struct operand o[3], const float *bias, const float *found)
{
    struct operand *out = &o[2];
    double *sum = memory_new_array((size_t)out->n, sizeof *sum);
    double *magnitude = memory_new_array((size_t)out->n, sizeof *magnitude);
    double worst = 0;
    compute(r, o, sum, magnitude);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t channel = r->channels_last ? i % r->k : i / (r->p * r->q) % r->k;
        double value =
            sum[i] + (r->op.accumulate ? out->values[i] : 0) + (r->bias ? bias[channel] : 0);
        double allowed =
            t->of_sum * magnitude[i] + t->of_value * (fabs(value) + fabs(sum[i])) + 1e-7;
        if (r->relu && value < 0)
            value = 0;
        double error = fabs(found[i] - value) / allowed;
        if (!(error <= worst)) /* NaN is the worst */
            worst = isnan(error) ? INFINITY : error;
    }
    free(sum);
    free(magnitude);
    return worst;
}

/* What is wrong with a result, or NULL. */
static const char *judge(const struct convolution_request *r, const struct setting *t,
                         struct run *u, double *worst)
{
    struct operand *out = &u->o[2];
    float *found = memory_new_array((size_t)out->n, sizeof *found);
    convert_to_f32(out->dtype, u->out[0], found, out->n);
    *worst = compare(r, t, u->o, u->o[3].values, found);
    free(found);
    return !(*worst <= 1)                                   ? "wrong"
           : memcmp(u->out[0], u->out[1], out->bytes)       ? "captured differs"
           : !is_guarded(out->device + out->bytes)          ? "writes behind its result"
           : !is_guarded(u->workspace + u->workspace_bytes) ? "writes behind the workspace"
                                                            : NULL;
}

static bool check(struct session *s, const struct picture *p, const struct setting *t,
                  const struct direction *d, bool last)
{
    struct convolution_request r = request_of(p, t, d, last);
    struct run u = {.s = s};
    double worst = 0;
    const char *fault = NULL;
    if (make_run(s, &r, &u) != RH_OK || run_twice(&u) != RH_OK)
        fault = fail_message();
    else
        fault = judge(&r, t, &u, &worst);
    if (fault)
        printf("FAIL %s %s %s, n%d c%d %dx%d k%d kernel %d stride %d padding %d groups %d, %s: %s, "
               "%.3g of what is allowed\n",
               d->name, t->name, last ? "NHWC" : "NCHW", p->n, p->c, p->h, p->w, p->k, p->kernel,
               p->stride, p->padding, p->groups, u.c ? convolution_engine(u.c) : "no engine", fault,
               worst);
    drop_run(&u);
    return !fault;
}

/* One case in four is searched as if the time for it were over. */
static int check_all(struct session *s)
{
    int cases = 0, failed = 0;
    double searched = 0;
    for (int p = 0; p < COUNT_OF(pictures); p++)
        for (int t = 0; t < COUNT_OF(settings); t++)
            for (int d = 0; d < COUNT_OF(directions); d++)
                for (int last = 0; last < 2; last++, cases++) {
                    double before = s->search_seconds = cases % 4 == 3 ? 1e6 : 0;
                    failed += !check(s, &pictures[p], &settings[t], &directions[d], last);
                    searched += s->search_seconds - before;
                    convolutions_drop(s);
                }
    s->search_seconds = 0;
    printf("convolution: %d passed, %d failed, 0 skipped; searches took %.1f s\n", cases - failed,
           failed, searched);
    return failed;
}

static enum rh_status open_libraries(struct session *s)
{
    CUDA_DO(cudaStreamCreateWithFlags(&s->origin, cudaStreamNonBlocking));
    LT_DO(cublasLtCreate(&s->lt));
    DNN_DO(cudnnCreate(&s->dnn));
    return RH_OK;
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
        printf("convolution: skipped: no GPU: %s\n",
               error != cudaSuccess ? cudaGetErrorString(error) : "the driver shows none");
        return 77;
    }
    if (open_libraries(&session) != RH_OK) {
        printf("FAIL %s\n", fail_message());
        return 1;
    }
    if (strcmp(only, "bench") != 0)
        failed += check_all(&session);
    if (strcmp(only, "parity") != 0)
        failed += bench(&session, count > 2 && !strcmp(words[2], "fresh"));
    convolutions_drop(&session);
    cudnnDestroy(session.dnn);
    cublasLtDestroy(session.lt);
    cudaStreamDestroy(session.origin);
    return failed > 0;
}
