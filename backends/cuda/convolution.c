/* The session's convolutions: found by a timed search, kept by request. */
#include "backends/cuda/convolution_way.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/random.h"
#include "op/convert.h"

enum { MOST_FORMS = 3, MOST_ENGINES = 6, MOST_PRODUCTS = 4, LATE_ENGINES = 2, TIMED_RUNS = 3 };
enum { MOST_WAYS = MOST_ENGINES + MOST_PRODUCTS, PATTERN = 1 << 18 };

/* Of all searches of a session; afterwards only the first engines are tried. */
static const double search_most_seconds = 15;

struct convolution {
    struct convolution_request request;
    struct convolution_graph graphs[MOST_FORMS]; /* the plan may refer to its graph */
    struct convolution_way way;
    struct convolution *next;
};

/* A search under way. */
struct search {
    struct session *session;
    const struct convolution_request *request;
    const char *name;
    struct convolution_way ways[MOST_WAYS];
    int count;
    char *scratch, *a, *b, *out, *workspace; /* device memory; scratch holds the others */
    size_t a_bytes, b_bytes, out_bytes, workspace_bytes;
    void *pattern; /* PATTERN elements that `out` starts with, host memory */
    cudaEvent_t begin, end;
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Without the padding of structures. */
enum { KEY_LENGTH = 25 };
static void fill_key(const struct convolution_request *r, int64_t key[KEY_LENGTH])
{
    const struct op *op = &r->op;
    int64_t values[KEY_LENGTH] = {op->kind,
                                  op->compute,
                                  op->accumulate,
                                  op->window.kernel_h,
                                  op->window.kernel_w,
                                  op->window.stride_h,
                                  op->window.stride_w,
                                  op->window.padding_h,
                                  op->window.padding_w,
                                  op->window.dilation,
                                  op->window.groups,
                                  r->type,
                                  r->out,
                                  r->n,
                                  r->c,
                                  r->h,
                                  r->w,
                                  r->k,
                                  r->p,
                                  r->q,
                                  r->channels_last,
                                  r->bias,
                                  r->relu,
                                  r->alignment_bytes,
                                  (int64_t)r->workspace_bytes};
    memcpy(key, values, sizeof values);
}

static struct convolution *find_known(const struct session *s, const struct convolution_request *r)
{
    int64_t asked[KEY_LENGTH];
    fill_key(r, asked);
    for (struct convolution *c = s->convolutions; c; c = c->next) {
        int64_t key[KEY_LENGTH];
        fill_key(&c->request, key);
        if (!memcmp(asked, key, sizeof key))
            return c;
    }
    return NULL;
}

/* What an engine may write so that the request's result comes of it. */
static int list_forms(const struct convolution_request *r, struct convolution_form forms[])
{
    int count = 0;
    bool add = r->op.accumulate;
    forms[count++] = (struct convolution_form){r->out, false, add};
    if (add)
        forms[count++] = (struct convolution_form){r->out, true, false};
    if (r->out != r->type)
        forms[count++] = (struct convolution_form){r->type, false, true};
    return count;
}

static bool out_of_time(const struct session *s)
{
    return s->search_seconds > search_most_seconds;
}

static void list_ways(struct search *f, struct convolution_graph graphs[])
{
    struct session *s = f->session;
    const struct convolution_request *r = f->request;
    struct convolution_form forms[MOST_FORMS];
    int form_count = list_forms(r, forms);
    struct convolution_form product = {r->out, r->op.accumulate, false};
    convolution_products(s, r, &product, f->ways, &f->count, MOST_PRODUCTS);
    int products = f->count;
    for (int i = 0; i < form_count; i++) {
        if (out_of_time(s) && f->count > 0)
            break;
        int most = products + (out_of_time(s) ? LATE_ENGINES : MOST_ENGINES * (i + 1) / form_count);
        if (convolution_graph_make(s, r, forms[i].writes, forms[i].adds ? 1 : 0, f->name,
                                   &graphs[i]) == RH_OK)
            convolution_engines(s, r, &graphs[i], &forms[i], f->ways, &f->count, most);
    }
    for (int i = 0; i < f->count; i++) {
        struct convolution_way *w = &f->ways[i];
        w->aside_bytes = convolution_aside(r, &w->form);
    }
}

static size_t way_bytes(const struct convolution_way *w)
{
    return w->engine_bytes + w->aside_bytes;
}

/* Random elements in [-1, 1), the pattern repeated by ever longer copies. */
static enum rh_status fill(const struct search *f, void *at, size_t bytes, const void *pattern,
                           size_t pattern_bytes)
{
    cudaStream_t stream = f->session->origin;
    size_t done = bytes < pattern_bytes ? bytes : pattern_bytes;
    CUDA_DO(cudaMemcpyAsync(at, pattern, done, cudaMemcpyHostToDevice, stream));
    while (done < bytes) {
        size_t more = done < bytes - done ? done : bytes - done;
        CUDA_DO(cudaMemcpyAsync((char *)at + done, at, more, cudaMemcpyDeviceToDevice, stream));
        done += more;
    }
    CUDA_DO(cudaStreamSynchronize(stream));
    return RH_OK;
}

static void *make_pattern(enum dtype dtype)
{
    float *values = memory_new_array(PATTERN, sizeof *values);
    void *pattern = memory_new_array(PATTERN, dtype_bytes(dtype));
    for (int i = 0; i < PATTERN; i++)
        values[i] = (float)(2 * random_uniform(1, (uint64_t)i) - 1);
    convert_from_f32(dtype, values, pattern, PATTERN);
    free(values);
    return pattern;
}

static enum rh_status fill_operands(struct search *f)
{
    const struct convolution_request *r = f->request;
    size_t bytes = PATTERN * dtype_bytes(r->type);
    void *pattern = make_pattern(r->type);
    enum rh_status status = fill(f, f->a, f->a_bytes, pattern, bytes);
    if (status == RH_OK)
        status = fill(f, f->b, f->b_bytes, pattern, bytes);
    free(pattern);
    f->pattern = make_pattern(r->out);
    RETURN_IF_FAILED(status);
    return fill(f, f->out, f->out_bytes, f->pattern, PATTERN * dtype_bytes(r->out));
}

/* False: the device has no room for operands and workspace. */
static bool make_scratch(struct search *f)
{
    const struct convolution_request *r = f->request;
    bool forward = r->op.kind == OP_conv2d;
    bool weights = r->op.kind == OP_conv2d_weight_grad;
    f->a_bytes = (size_t)convolution_elements(r, forward ? CONVOLUTION_X : CONVOLUTION_Y) *
                 dtype_bytes(r->type);
    f->b_bytes = (size_t)convolution_elements(r, weights ? CONVOLUTION_X : CONVOLUTION_W) *
                 dtype_bytes(r->type);
    f->out_bytes = (size_t)convolution_elements(r, convolution_written(r)) * dtype_bytes(r->out);
    for (int i = 0; i < f->count; i++)
        if (way_bytes(&f->ways[i]) > f->workspace_bytes)
            f->workspace_bytes = way_bytes(&f->ways[i]);
    size_t a = convolution_lines(f->a_bytes), b = convolution_lines(f->b_bytes);
    size_t out = convolution_lines(f->out_bytes);
    if (cudaMalloc((void **)&f->scratch, a + b + out + f->workspace_bytes) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    f->a = f->scratch;
    f->b = f->a + a;
    f->out = f->b + b;
    f->workspace = f->out + out;
    return cudaEventCreate(&f->begin) == cudaSuccess && cudaEventCreate(&f->end) == cudaSuccess &&
           fill_operands(f) == RH_OK;
}

static enum rh_status run_once(const struct search *f, const struct convolution_way *w)
{
    RETURN_IF_FAILED(convolution_way_run(f->session, f->request, w, f->session->origin, f->a, f->b,
                                         f->out, f->workspace));
    CUDA_DO(cudaGetLastError());
    return RH_OK;
}

static enum rh_status time_way(const struct search *f, struct convolution_way *w)
{
    cudaStream_t stream = f->session->origin;
    float milliseconds = 0;
    RETURN_IF_FAILED(run_once(f, w));
    CUDA_DO(cudaEventRecord(f->begin, stream));
    for (int i = 0; i < TIMED_RUNS; i++)
        RETURN_IF_FAILED(run_once(f, w));
    CUDA_DO(cudaEventRecord(f->end, stream));
    CUDA_DO(cudaEventSynchronize(f->end));
    CUDA_DO(cudaEventElapsedTime(&milliseconds, f->begin, f->end));
    w->seconds = milliseconds * 1e-3F / TIMED_RUNS;
    return RH_OK;
}

/* Whether the way adds: a product with zeros leaves what stood there. */
static bool honours_beta(const struct search *f, const struct convolution_way *w)
{
    cudaStream_t stream = f->session->origin;
    size_t pattern_bytes = PATTERN * dtype_bytes(f->request->out);
    size_t bytes = f->out_bytes < pattern_bytes ? f->out_bytes : pattern_bytes;
    void *found = memory_new(bytes + 1);
    bool same =
        fill(f, f->out, f->out_bytes, f->pattern, pattern_bytes) == RH_OK &&
        cudaMemsetAsync(f->a, 0, f->a_bytes, stream) == cudaSuccess && run_once(f, w) == RH_OK &&
        cudaMemcpyAsync(found, f->out, bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
        cudaStreamSynchronize(stream) == cudaSuccess && !memcmp(found, f->pattern, bytes);
    free(found);
    return same;
}

/* The fastest of the ways that run and, with beta, add; NULL if none does. */
static struct convolution_way *time_ways(struct search *f)
{
    struct convolution_way *best = NULL;
    bool runs[MOST_WAYS];
    cudaGetLastError(); /* an engine that did not finalize may have left one */
    for (int i = 0; i < f->count; i++) {
        runs[i] = time_way(f, &f->ways[i]) == RH_OK;
        if (!runs[i])
            cudaGetLastError();
    }
    for (int i = 0; i < f->count; i++) {
        struct convolution_way *w = &f->ways[i];
        if (runs[i] && (!best || w->seconds < best->seconds) &&
            (!w->form.adds || honours_beta(f, w)))
            best = w;
    }
    return best;
}

/* Untimed, a beta that may not be honoured is not trusted to cuDNN. */
static struct convolution_way *first_way(struct search *f)
{
    for (int i = 0; i < f->count; i++)
        if (!f->ways[i].form.adds || !f->ways[i].plan)
            return &f->ways[i];
    return NULL;
}

static void end_search(struct search *f)
{
    for (int i = 0; i < f->count; i++)
        convolution_way_drop(&f->ways[i]);
    if (f->begin)
        cudaEventDestroy(f->begin);
    if (f->end)
        cudaEventDestroy(f->end);
    cudaFree(f->scratch);
    cudaGetLastError();
    free(f->pattern);
}

static enum rh_status search(struct session *s, const char *name, struct convolution *c)
{
    struct search f = {.session = s, .request = &c->request, .name = name};
    double begin = seconds_now();
    list_ways(&f, c->graphs);
    struct convolution_way *best = f.count && make_scratch(&f) ? time_ways(&f) : first_way(&f);
    if (best) {
        c->way = *best;
        *best = (struct convolution_way){.plan = NULL};
    }
    end_search(&f);
    s->search_seconds += seconds_now() - begin;
    return best ? RH_OK
                : fail(RH_FAILED, "'%s': no engine of cuDNN %zu computes this %s", name,
                       cudnnGetVersion(), op_name(c->request.op.kind));
}

static void convolution_drop(struct convolution *c)
{
    convolution_way_drop(&c->way);
    for (int i = 0; i < MOST_FORMS; i++)
        convolution_graph_drop(&c->graphs[i]);
    free(c);
}

enum rh_status convolution_find(struct session *s, const struct convolution_request *request,
                                const char *name, const struct convolution **convolution)
{
    struct convolution *c = find_known(s, request);
    *convolution = c;
    if (c)
        return RH_OK;
    c = memory_new(sizeof *c);
    c->request = *request;
    enum rh_status status = search(s, name, c);
    if (status != RH_OK) {
        convolution_drop(c);
        return status;
    }
    c->next = s->convolutions;
    *convolution = s->convolutions = c;
    return RH_OK;
}

size_t convolution_workspace(const struct convolution *c)
{
    return way_bytes(&c->way);
}

const char *convolution_engine(const struct convolution *c)
{
    return c->way.engine;
}

enum rh_status convolution_run(struct session *s, const struct convolution *c, cudaStream_t stream,
                               const void *a, const void *b, const void *bias, void *out,
                               void *workspace)
{
    RETURN_IF_FAILED(convolution_way_run(s, &c->request, &c->way, stream, a, b, out, workspace));
    convolution_bias_relu(&c->request, stream, bias, out);
    return RH_OK;
}

void convolutions_drop(struct session *s)
{
    while (s->convolutions) {
        struct convolution *next = s->convolutions->next;
        convolution_drop(s->convolutions);
        s->convolutions = next;
    }
}
