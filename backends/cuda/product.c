/* The session's products: found by a timed search, kept by request. */
#include "backends/cuda/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/search.h"
#include "base/memory.h"
#include "op/convert.h"

enum { MOST_WAYS = 17 };

/* A search under way. */
struct search {
    struct session *session;
    const struct product_request *request;
    struct product_way ways[MOST_WAYS];
    int count;
    const struct product_way *timed;
    char *scratch; /* device memory that holds all others */
    struct product_memory at;
    void *workspace, *pattern; /* what out and vector start with: host memory */
    size_t out_bytes, vector_bytes;
};

enum { KEY_LENGTH = 15 };
static void fill_key(const struct product_request *r, int64_t key[KEY_LENGTH])
{
    int64_t values[KEY_LENGTH] = {r->kind,
                                  r->type,
                                  r->out,
                                  r->compute,
                                  r->rows,
                                  r->inputs,
                                  r->outputs,
                                  r->accumulate,
                                  r->vector,
                                  r->relu,
                                  r->first_alignment,
                                  r->second_alignment,
                                  r->out_alignment,
                                  r->vector_alignment,
                                  (int64_t)r->workspace_bytes};
    memcpy(key, values, sizeof values);
}

static struct product *find_known(const struct session *s, const struct product_request *r)
{
    int64_t asked[KEY_LENGTH];
    fill_key(r, asked);
    for (struct product *p = s->products; p; p = p->next) {
        int64_t key[KEY_LENGTH];
        fill_key(&p->request, key);
        if (!memcmp(asked, key, sizeof key))
            return p;
    }
    return NULL;
}

static size_t lines(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static int64_t out_elements(const struct product_request *r)
{
    return r->kind == OP_linear              ? r->rows * r->outputs
           : r->kind == OP_linear_input_grad ? r->rows * r->inputs
                                             : r->outputs * r->inputs;
}

static enum rh_status fill_operands(struct search *f, size_t first_bytes, size_t second_bytes)
{
    enum dtype type = f->request->type;
    size_t bytes = SEARCH_PATTERN * dtype_bytes(type);
    void *pattern = search_pattern(type);
    enum rh_status status =
        search_fill(f->session, (void *)f->at.first, first_bytes, pattern, bytes);
    if (status == RH_OK)
        status = search_fill(f->session, (void *)f->at.second, second_bytes, pattern, bytes);
    if (status == RH_OK && f->at.mask)
        status = search_fill(f->session, (void *)f->at.mask, f->out_bytes, pattern, bytes);
    free(pattern);
    f->pattern = search_pattern(f->request->out);
    return status;
}

/* False: the device has no room for the operands. The ways' workspace comes later. */
static bool make_scratch(struct search *f)
{
    const struct product_request *r = f->request;
    bool weights = r->kind == OP_linear_weight_grad;
    size_t size = dtype_bytes(r->type);
    size_t first = (size_t)(r->rows * (r->kind == OP_linear ? r->inputs : r->outputs)) * size;
    size_t second = (size_t)((weights ? r->rows : r->outputs) * r->inputs) * size;
    f->out_bytes = (size_t)out_elements(r) * dtype_bytes(r->out);
    f->vector_bytes = (size_t)r->outputs * dtype_bytes(r->out);
    size_t all =
        lines(first) + lines(second) + 2 * lines(f->out_bytes) + lines(f->vector_bytes) + 256;
    if (cudaMalloc((void **)&f->scratch, all) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    char *at = f->scratch;
    f->at.first = at, at += lines(first);
    f->at.second = at, at += lines(second);
    f->at.out = at, at += lines(f->out_bytes);
    if (r->relu && r->kind == OP_linear_input_grad)
        f->at.mask = at;
    at += lines(f->out_bytes);
    /* aligned as the instruction's, since the heuristic looks at it */
    if (r->vector)
        f->at.vector = at + (r->vector_alignment < 256 ? r->vector_alignment : 0);
    return fill_operands(f, first, second) == RH_OK;
}

static bool make_workspace(struct search *f)
{
    size_t bytes = 0;
    for (int i = 0; i < f->count; i++)
        if (product_workspace(f->request, &f->ways[i]) > bytes)
            bytes = product_workspace(f->request, &f->ways[i]);
    bool made = bytes == 0 || cudaMalloc(&f->workspace, bytes) == cudaSuccess;
    cudaGetLastError();
    return made;
}

static enum rh_status run_way(const struct search *f, const struct product_way *w)
{
    return product_run(f->session, f->request, w->form, &w->matmul, f->session->origin, &f->at,
                       f->workspace);
}

static enum rh_status launch_timed(void *context)
{
    const struct search *f = context;
    return run_way(f, f->timed);
}

static enum rh_status fill_result(struct search *f)
{
    size_t bytes = SEARCH_PATTERN * dtype_bytes(f->request->out);
    RETURN_IF_FAILED(search_fill(f->session, f->at.out, f->out_bytes, f->pattern, bytes));
    if (f->at.vector)
        RETURN_IF_FAILED(search_fill(f->session, f->at.vector, f->vector_bytes, f->pattern, bytes));
    return RH_OK;
}

/* The first values that a way gives, and the sums of a bias's gradient. */
struct outcome {
    int64_t count, sums;
    float *values;
};

static bool get(struct search *f, const void *from, int64_t count, float *values)
{
    enum dtype out = f->request->out;
    size_t bytes = (size_t)count * dtype_bytes(out);
    void *found = memory_new(bytes + 1);
    bool done = cudaMemcpyAsync(found, from, bytes, cudaMemcpyDeviceToHost, f->session->origin) ==
                    cudaSuccess &&
                cudaStreamSynchronize(f->session->origin) == cudaSuccess;
    if (done)
        convert_to_f32(out, found, values, count);
    free(found);
    return done;
}

static bool find_outcome(struct search *f, const struct product_way *w, struct outcome *o)
{
    const struct product_request *r = f->request;
    int64_t all = out_elements(r);
    o->count = all < SEARCH_PATTERN ? all : SEARCH_PATTERN;
    o->sums = r->kind == OP_linear_weight_grad && r->vector ? r->outputs : 0;
    o->values = memory_new_array((size_t)(o->count + o->sums) + 1, sizeof *o->values);
    return fill_result(f) == RH_OK && run_way(f, w) == RH_OK && cudaGetLastError() == cudaSuccess &&
           get(f, f->at.out, o->count, o->values) &&
           (o->sums == 0 || get(f, f->at.vector, o->sums, o->values + o->count));
}

/* Relative to the largest value. */
static float distance(const float *a, const float *b, int64_t count)
{
    float most = 0, difference = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i]))
            return INFINITY;
        most = fmaxf(most, fabsf(b[i]));
        difference = fmaxf(difference, fabsf(a[i] - b[i]));
    }
    return most > 0 ? difference / most : difference;
}

static float allowed(const struct product_request *r)
{
    enum dtype coarse = r->out == DTYPE_F32 && r->compute == DTYPE_TF32 ? DTYPE_TF32 : r->out;
    return coarse == DTYPE_BF16 ? 0x1p-6F : coarse == DTYPE_F32 ? 0x1p-12F : 0x1p-8F;
}

/* Whether a library's epilogue gives the same bits twice, and the values of product and our
 * kernels. */
static bool is_trusted(struct search *f, const struct product_way *w,
                       const struct product_way *reference)
{
    struct outcome a = {0}, b = {0}, wanted = {0};
    float most = allowed(f->request);
    bool fine = find_outcome(f, w, &a) && find_outcome(f, w, &b) &&
                find_outcome(f, reference, &wanted) &&
                !memcmp(a.values, b.values, (size_t)(a.count + a.sums) * sizeof *a.values) &&
                distance(a.values, wanted.values, a.count) <= most &&
                distance(a.values + a.count, wanted.values + a.count, a.sums) <= most;
    free(a.values);
    free(b.values);
    free(wanted.values);
    return fine;
}

static struct product_way *fastest(struct search *f, const bool *runs, bool without_epilogue)
{
    struct product_way *best = NULL;
    for (int i = 0; i < f->count; i++)
        if (runs[i] && (!best || f->ways[i].seconds < best->seconds) &&
            !(without_epilogue && f->ways[i].form == PRODUCT_WHOLE))
            best = &f->ways[i];
    return best;
}

static struct product_way *time_ways(struct search *f)
{
    bool runs[MOST_WAYS];
    for (int i = 0; i < f->count; i++) {
        f->timed = &f->ways[i];
        runs[i] = search_time(f->session, launch_timed, f, true, &f->ways[i].seconds) == RH_OK;
    }
    const struct product_way *reference = fastest(f, runs, true);
    for (;;) {
        struct product_way *best = fastest(f, runs, false);
        if (!best || best->form != PRODUCT_WHOLE || !reference || is_trusted(f, best, reference))
            return best;
        runs[best - f->ways] = false;
    }
}

static void end_search(struct search *f)
{
    for (int i = 0; i < f->count; i++)
        matmul_drop(&f->ways[i].matmul);
    cudaFree(f->scratch);
    cudaFree(f->workspace);
    cudaGetLastError();
    free(f->pattern);
}

/* An address that is aligned as the vector and never read. */
static void *somewhere(const struct product_request *r)
{
    return r->vector ? (void *)(uintptr_t)(256 + r->vector_alignment) : NULL;
}

static enum rh_status search(struct session *s, const char *name, struct product *p)
{
    struct search f = {.session = s, .request = &p->request};
    double begin = search_clock();
    bool late = search_is_over(s);
    bool room = !late && make_scratch(&f);
    f.count = product_ways(s, f.request, room ? f.at.vector : somewhere(f.request), f.ways,
                           MOST_WAYS, late);
    struct product_way *best = room && make_workspace(&f) ? time_ways(&f) : NULL;
    if (!best && f.count)
        best = &f.ways[0];
    for (int i = 0; i < f.count; i++) {
        float *fastest = &p->fastest[f.ways[i].form];
        if (*fastest == 0 || (f.ways[i].seconds > 0 && f.ways[i].seconds < *fastest))
            *fastest = f.ways[i].seconds;
    }
    if (best) {
        p->way = *best;
        best->matmul = (struct matmul){.product = NULL};
    }
    end_search(&f);
    s->search_seconds += search_clock() - begin;
    return best
               ? RH_OK
               : fail(RH_FAILED, "'%s': no way to compute this %s", name, op_name(p->request.kind));
}

enum rh_status product_find(struct session *s, const struct product_request *request,
                            const char *name, const struct product **product)
{
    struct product *p = find_known(s, request);
    *product = p;
    if (p)
        return RH_OK;
    p = memory_new(sizeof *p);
    p->request = *request;
    enum rh_status status = search(s, name, p);
    if (status != RH_OK) {
        free(p);
        return status;
    }
    p->next = s->products;
    *product = s->products = p;
    return RH_OK;
}

void products_drop(struct session *s)
{
    while (s->products) {
        struct product *next = s->products->next;
        matmul_drop(&s->products->way.matmul);
        free(s->products);
        s->products = next;
    }
}
