/* ResNet and ResNeXt as torchvision builds them: names, registration order and shapes. */
#include <stdio.h>
#include <string.h>

#include "model/builders.h"

struct resnet {
    const char *name;
    bool bottleneck;
    int blocks[4];
    int groups, width_per_group;
};

static const struct resnet variants[] = {
    {"resnet18", false, {2, 2, 2, 2}, 1, 64},
    {"resnet34", false, {3, 4, 6, 3}, 1, 64},
    {"resnet50", true, {3, 4, 6, 3}, 1, 64},
    {"resnet101", true, {3, 4, 23, 3}, 1, 64},
    {"resnet152", true, {3, 8, 36, 3}, 1, 64},
    {"resnext50_32x4d", true, {3, 4, 6, 3}, 32, 4},
    {"resnext101_32x8d", true, {3, 4, 23, 3}, 32, 8},
};

/* Where the next layer of a block goes. */
struct cursor {
    struct model *model;
    const char *prefix; /* "layer1.0" */
    int layer;
};

static enum rh_status conv_norm(struct cursor *c, const char *conv, const char *norm, int64_t out,
                                int kernel, int stride, int groups)
{
    char name[64];
    struct conv_options options = {kernel, stride, kernel / 2, groups, false};
    snprintf(name, sizeof name, "%s%s", c->prefix, conv);
    RETURN_IF_FAILED(model_conv2d(c->model, name, c->layer, out, options, &c->layer));
    snprintf(name, sizeof name, "%s%s", c->prefix, norm);
    return model_batch_norm2d(c->model, name, c->layer, &c->layer);
}

static enum rh_status relu(struct cursor *c, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", c->prefix, suffix);
    return model_relu(c->model, name, c->layer, &c->layer);
}

static enum rh_status main_path(struct cursor *c, const struct resnet *v, int64_t width, int stride)
{
    if (!v->bottleneck) {
        RETURN_IF_FAILED(conv_norm(c, ".conv1", ".bn1", width, 3, stride, 1));
        RETURN_IF_FAILED(relu(c, ".relu1"));
        return conv_norm(c, ".conv2", ".bn2", width, 3, 1, 1);
    }
    int64_t inner = width * v->width_per_group / 64 * v->groups;
    RETURN_IF_FAILED(conv_norm(c, ".conv1", ".bn1", inner, 1, 1, 1));
    RETURN_IF_FAILED(relu(c, ".relu1"));
    RETURN_IF_FAILED(conv_norm(c, ".conv2", ".bn2", inner, 3, stride, v->groups));
    RETURN_IF_FAILED(relu(c, ".relu2"));
    return conv_norm(c, ".conv3", ".bn3", width * 4, 1, 1, 1);
}

/* The main path first, then the downsample: its reverse is torch's order of gradient arrival. */
static enum rh_status block(struct model *m, const struct resnet *v, const char *prefix,
                            int64_t width, int stride, int *layer)
{
    char name[64];
    int64_t out = width * (v->bottleneck ? 4 : 1);
    struct cursor c = {m, prefix, *layer};
    struct cursor side = {m, prefix, *layer};
    RETURN_IF_FAILED(main_path(&c, v, width, stride));
    if (stride != 1 || model_output_type(m, *layer).shape.dim[1] != out)
        RETURN_IF_FAILED(conv_norm(&side, ".downsample.0", ".downsample.1", out, 1, stride, 1));
    snprintf(name, sizeof name, "%s.add", prefix);
    RETURN_IF_FAILED(model_add(m, name, c.layer, side.layer, &c.layer));
    RETURN_IF_FAILED(relu(&c, v->bottleneck ? ".relu3" : ".relu2"));
    *layer = c.layer;
    return RH_OK;
}

static enum rh_status fill(struct model *m, const struct resnet *v, int64_t classes)
{
    char prefix[32];
    struct cursor c = {m, "", MODEL_INPUT};
    struct conv_options stem = {7, 2, 3, 1, false};
    RETURN_IF_FAILED(model_conv2d(m, "conv1", c.layer, 64, stem, &c.layer));
    RETURN_IF_FAILED(model_batch_norm2d(m, "bn1", c.layer, &c.layer));
    RETURN_IF_FAILED(relu(&c, "relu"));
    RETURN_IF_FAILED(model_max_pool2d(m, "maxpool", c.layer, 3, 2, 1, &c.layer));
    for (int group = 0; group < 4; group++)
        for (int i = 0; i < v->blocks[group]; i++) {
            snprintf(prefix, sizeof prefix, "layer%d.%d", group + 1, i);
            RETURN_IF_FAILED(
                block(m, v, prefix, (int64_t)64 << group, i == 0 && group > 0 ? 2 : 1, &c.layer));
        }
    RETURN_IF_FAILED(model_avg_pool2d(m, "avgpool", c.layer, 0, 0, 0, 1, &c.layer));
    RETURN_IF_FAILED(model_flatten(m, "flatten", c.layer, &c.layer));
    return model_linear(m, "fc", c.layer, classes, true, &c.layer);
}

enum rh_status build_resnet(const struct builder_options *options, struct model **model)
{
    const struct resnet *variant = NULL;
    int64_t dims[3] = {3, options->image, options->image};
    struct tensor_type input = {DTYPE_F32, shape_of(3, dims)};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (strcmp(variants[i].name, options->name) == 0)
            variant = &variants[i];
    struct model *m = model_new(options->name, &input);
    enum rh_status status = fill(m, variant, options->classes);
    if (status != RH_OK) {
        model_free(m);
        m = NULL;
    }
    *model = m;
    return status;
}
