/* What the tests of training graphs share: building a model and its graph, a small residual net. */
#ifndef REHEARSE_TESTS_GRAPHS_H
#define REHEARSE_TESTS_GRAPHS_H

#include "unit.h"

#include <stdio.h>

#include "base/json.h"
#include "model/graph.h"

static inline struct model *graphs_build(const char *text)
{
    cJSON *json = NULL;
    struct model *model = NULL;
    CU_ASSERT_EQUAL_FATAL(json_read_text("test", text, &json), RH_OK);
    if (model_from_json(json, "test", &model) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    cJSON_Delete(json);
    return model;
}

static inline struct graph *graphs_derive(const struct model *model, enum loss_kind loss,
                                          int64_t batch)
{
    struct graph_options options = {.batch = batch,
                                    .loss = loss,
                                    .loss_weight = 1,
                                    .precision = DTYPE_F32,
                                    .training = true,
                                    .loss_slots = 1};
    struct graph *graph = NULL;
    if (graph_new(model, &options, &graph) != RH_OK)
        fprintf(stderr, "    %s\n", fail_message());
    CU_ASSERT_PTR_NOT_NULL_FATAL(graph);
    return graph;
}

static const char graphs_residual[] =
    "{\"name\":\"residual\",\"input\":[2,6,6],\"layers\":["
    "{\"name\":\"c1\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1},"
    "{\"name\":\"n1\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"r1\",\"op\":\"relu\"},"
    "{\"name\":\"c2\",\"op\":\"conv2d\",\"out\":4,\"kernel\":3,\"padding\":1,\"groups\":2},"
    "{\"name\":\"n2\",\"op\":\"batch_norm2d\"},"
    "{\"name\":\"s\",\"op\":\"add\",\"inputs\":[\"n2\",\"r1\"]},"
    "{\"name\":\"r2\",\"op\":\"relu\"},"
    "{\"name\":\"m\",\"op\":\"max_pool2d\",\"kernel\":2},"
    "{\"name\":\"p\",\"op\":\"avg_pool2d\",\"output\":1},"
    "{\"name\":\"f\",\"op\":\"flatten\"},"
    "{\"name\":\"fc\",\"op\":\"linear\",\"out\":3}]}";

/* The value whose bytes these are. */
static inline int graphs_owner(const struct graph *g, int value)
{
    while (g->values[value].alias_of >= 0)
        value = g->values[value].alias_of;
    return value;
}

#endif
