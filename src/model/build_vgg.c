/* VGG and AlexNet with torchvision's names ("features.0", "classifier.6") and shapes. The dropout
 * of their classifiers is left out, so the numbers in the names skip its places as torchvision's
 * do. */
#include <stdio.h>
#include <string.h>

#include "model/builders.h"

enum { POOL = -1, END = 0 };

struct vgg {
    const char *name;
    bool norm;
    int plan[24]; /* channels, POOL, END */
};

#define VGG11                                                                                      \
    {                                                                                              \
        64, POOL, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL, END                   \
    }
#define VGG13                                                                                      \
    {                                                                                              \
        64, 64, POOL, 128, 128, POOL, 256, 256, POOL, 512, 512, POOL, 512, 512, POOL, END          \
    }
#define VGG16                                                                                      \
    {                                                                                              \
        64, 64, POOL, 128, 128, POOL, 256, 256, 256, POOL, 512, 512, 512, POOL, 512, 512, 512,     \
            POOL, END                                                                              \
    }
#define VGG19                                                                                      \
    {                                                                                              \
        64, 64, POOL, 128, 128, POOL, 256, 256, 256, 256, POOL, 512, 512, 512, 512, POOL, 512,     \
            512, 512, 512, POOL, END                                                               \
    }

static const struct vgg variants[] = {
    {"vgg11", false, VGG11},   {"vgg11_bn", true, VGG11}, {"vgg13", false, VGG13},
    {"vgg13_bn", true, VGG13}, {"vgg16", false, VGG16},   {"vgg16_bn", true, VGG16},
    {"vgg19", false, VGG19},   {"vgg19_bn", true, VGG19},
};

/* Members of a torch Sequential are numbered. */
static const char *numbered(char out[32], const char *family, int number)
{
    snprintf(out, 32, "%s.%d", family, number);
    return out;
}

static enum rh_status classifier(struct model *m, int layer, const int *places, int64_t hidden,
                                 int64_t classes)
{
    char name[32];
    for (int i = 0; i < 3; i++) {
        RETURN_IF_FAILED(model_linear(m, numbered(name, "classifier", places[i]), layer,
                                      i < 2 ? hidden : classes, true, &layer));
        if (i < 2)
            RETURN_IF_FAILED(
                model_relu(m, numbered(name, "classifier", places[i] + 1), layer, &layer));
    }
    return RH_OK;
}

static enum rh_status fill_vgg(struct model *m, const struct vgg *v, int64_t classes)
{
    static const int places[3] = {0, 3, 6};
    char name[32];
    int layer = MODEL_INPUT;
    int number = 0;
    struct conv_options options = {3, 1, 1, 1, true};
    for (const int *step = v->plan; *step != END; step++) {
        if (*step == POOL) {
            RETURN_IF_FAILED(
                model_max_pool2d(m, numbered(name, "features", number++), layer, 2, 2, 0, &layer));
            continue;
        }
        RETURN_IF_FAILED(
            model_conv2d(m, numbered(name, "features", number++), layer, *step, options, &layer));
        if (v->norm)
            RETURN_IF_FAILED(
                model_batch_norm2d(m, numbered(name, "features", number++), layer, &layer));
        RETURN_IF_FAILED(model_relu(m, numbered(name, "features", number++), layer, &layer));
    }
    RETURN_IF_FAILED(model_avg_pool2d(m, "avgpool", layer, 0, 0, 0, 7, &layer));
    RETURN_IF_FAILED(model_flatten(m, "flatten", layer, &layer));
    return classifier(m, layer, places, 4096, classes);
}

static struct model *picture_model(const struct builder_options *options)
{
    int64_t dims[3] = {3, options->image, options->image};
    struct tensor_type input = {DTYPE_F32, shape_of(3, dims)};
    return model_new(options->name, &input);
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

enum rh_status build_vgg(const struct builder_options *options, struct model **model)
{
    const struct vgg *variant = NULL;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(variants[i].name, options->name) == 0)
            variant = &variants[i];
    struct model *m = picture_model(options);
    return finish(fill_vgg(m, variant, options->classes), m, model);
}

static enum rh_status fill_alexnet(struct model *m, int64_t classes)
{
    static const struct {
        int out, kernel, stride, padding;
        bool pool;
    } steps[] = {{64, 11, 4, 2, true},
                 {192, 5, 1, 2, true},
                 {384, 3, 1, 1, false},
                 {256, 3, 1, 1, false},
                 {256, 3, 1, 1, true}};
    static const int places[3] = {1, 4, 6};
    char name[32];
    int layer = MODEL_INPUT;
    int number = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct conv_options options = {steps[i].kernel, steps[i].stride, steps[i].padding, 1, true};
        RETURN_IF_FAILED(model_conv2d(m, numbered(name, "features", number++), layer, steps[i].out,
                                      options, &layer));
        RETURN_IF_FAILED(model_relu(m, numbered(name, "features", number++), layer, &layer));
        if (steps[i].pool)
            RETURN_IF_FAILED(
                model_max_pool2d(m, numbered(name, "features", number++), layer, 3, 2, 0, &layer));
    }
    RETURN_IF_FAILED(model_avg_pool2d(m, "avgpool", layer, 0, 0, 0, 6, &layer));
    RETURN_IF_FAILED(model_flatten(m, "flatten", layer, &layer));
    return classifier(m, layer, places, 4096, classes);
}

enum rh_status build_alexnet(const struct builder_options *options, struct model **model)
{
    struct model *m = picture_model(options);
    return finish(fill_alexnet(m, options->classes), m, model);
}
