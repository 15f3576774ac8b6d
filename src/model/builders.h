/* The builders that model_from_json knows by name: one file a family, one line a name in the table.
 */
#ifndef REHEARSE_MODEL_BUILDERS_H
#define REHEARSE_MODEL_BUILDERS_H

#include "model/model.h"

/* Options of a builder, read from an experiment's `model` object. */
struct builder_options {
    const char *name, *where;
    int64_t image;      /* height and width of the input picture; 224 */
    int64_t classes;    /* outputs; 1000 */
    const cJSON *sizes; /* mlp: layer widths, input first; NULL: the default */
};

enum rh_status build_toy(const struct builder_options *options, struct model **model);
enum rh_status build_mlp(const struct builder_options *options, struct model **model);
enum rh_status build_embedding_linear(const struct builder_options *options, struct model **model);
enum rh_status build_resnet(const struct builder_options *options, struct model **model);
/* torchvision's VGG and AlexNet without their dropout: it changes neither shapes nor parameters. */
enum rh_status build_vgg(const struct builder_options *options, struct model **model);
enum rh_status build_alexnet(const struct builder_options *options, struct model **model);

/* {"name", "input", "layers"} (model_json.c). */
enum rh_status build_from_layers(const cJSON *json, const char *where, struct model **model);

#endif
