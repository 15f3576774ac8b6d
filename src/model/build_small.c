#include "base/json.h"
#include "base/memory.h"
#include "model/builders.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct model *vector_model(const char *name, int64_t width)
{
    struct tensor_type input = {DTYPE_F32, shape_of(1, &width)};
    return model_new(name, &input);
}

/* The seed article's two linear layers: 10 to 10, relu, 10 to 5. */
static enum rh_status fill_toy(struct model *m)
{
    int layer = MODEL_INPUT;
    RETURN_IF_FAILED(model_linear(m, "net1", layer, 10, true, &layer));
    RETURN_IF_FAILED(model_relu(m, "relu", layer, &layer));
    return model_linear(m, "net2", layer, 5, true, &layer);
}

static enum rh_status finish(enum rh_status status, struct model *m, struct model **model)
{
    if (status != RH_OK) {
        model_free(m);
        m = NULL;
    }
    *model = m;
    return status;
}

enum rh_status build_toy(const struct builder_options *options, struct model **model)
{
    struct model *m = vector_model(options->name, 10);
    return finish(fill_toy(m), m, model);
}

static enum rh_status fill_mlp(struct model *m, const int64_t *sizes, int count)
{
    char name[32];
    int layer = MODEL_INPUT;
    for (int i = 1; i < count; i++) {
        snprintf(name, sizeof name, "fc%d", i);
        RETURN_IF_FAILED(model_linear(m, name, layer, sizes[i], true, &layer));
        snprintf(name, sizeof name, "relu%d", i);
        if (i + 1 < count)
            RETURN_IF_FAILED(model_relu(m, name, layer, &layer));
    }
    return RH_OK;
}

enum rh_status build_mlp(const struct builder_options *options, struct model **model)
{
    static const int64_t defaults[] = {784, 512, 512, 10};
    int count = options->sizes ? cJSON_GetArraySize(options->sizes) : 4;
    if (options->sizes && (!cJSON_IsArray(options->sizes) || count < 2))
        return fail(RH_INVALID, "%s: mlp 'sizes' is a list of at least 2 widths", options->where);
    int64_t *sizes = memory_new_array((size_t)count, sizeof *sizes);
    for (int i = 0; i < count; i++) {
        const cJSON *item = options->sizes ? cJSON_GetArrayItem(options->sizes, i) : NULL;
        double size = item ? item->valuedouble : (double)defaults[i];
        char given[32];
        snprintf(given, sizeof given, "%.10g", size);
        if ((item && !cJSON_IsNumber(item)) || !(size >= 1 && size <= INT32_MAX) ||
            size != floor(size)) {
            free(sizes);
            return fail(
                RH_INVALID, "%s: mlp size %d is %s; a whole number from 1 to %d is expected",
                options->where, i, item && !cJSON_IsNumber(item) ? "no number" : given, INT32_MAX);
        }
        sizes[i] = (int64_t)size;
    }
    struct model *m = vector_model(options->name, sizes[0]);
    enum rh_status status = fill_mlp(m, sizes, count);
    free(sizes);
    return finish(status, m, model);
}

static enum rh_status fill_embedding_linear(struct model *m)
{
    int layer = MODEL_INPUT;
    RETURN_IF_FAILED(model_embedding(m, "embedding", layer, 1000, 10, &layer));
    return model_linear(m, "linear", layer, 10, true, &layer);
}

enum rh_status build_embedding_linear(const struct builder_options *options, struct model **model)
{
    struct tensor_type input = {.dtype = DTYPE_I64}; /* one index a sample */
    struct model *m = model_new(options->name, &input);
    return finish(fill_embedding_linear(m), m, model);
}
