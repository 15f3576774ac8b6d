/* cuDNN's engines for an operation graph, in the order of its heuristics. */
#include "backends/cuda/convolution_way.h"

#include <stdio.h>

enum { MOST_CONFIGS = 24 };

#define OK(call) ((call) == CUDNN_STATUS_SUCCESS)

static bool may_use(const struct convolution_request *r, cudnnBackendNumericalNote_t note)
{
    bool strict = r->op.compute == DTYPE_F32;
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return !strict;
    default: return true;
    }
}

/* Whether the engine of a configuration computes as the request wants; its number. */
static bool engine_fits(const struct convolution_request *r, cudnnBackendDescriptor_t config,
                        int64_t *number)
{
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    if (!OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)))
        return false;
    bool fits = OK(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine)) &&
                OK(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                            CUDNN_TYPE_INT64, 1, &count, number)) &&
                OK(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                            CUDNN_TYPE_NUMERICAL_NOTE,
                                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
    for (int64_t i = 0; fits && i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
        fits = may_use(r, notes[i]);
    cudnnBackendDestroyDescriptor(engine);
    return fits;
}

static bool make_plan(struct session *s, cudnnBackendDescriptor_t config, size_t most,
                      cudnnBackendDescriptor_t *plan, size_t *bytes)
{
    int64_t workspace = 0;
    int64_t count = 0;
    bool made = OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan)) &&
                OK(cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                            CUDNN_TYPE_HANDLE, 1, &s->dnn)) &&
                OK(cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config)) &&
                OK(cudnnBackendFinalize(*plan)) &&
                OK(cudnnBackendGetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                            CUDNN_TYPE_INT64, 1, &count, &workspace)) &&
                convolution_lines((size_t)workspace) <= most;
    *bytes = convolution_lines((size_t)workspace);
    if (!made && *plan) {
        cudnnBackendDestroyDescriptor(*plan);
        *plan = NULL;
    }
    return made;
}

static bool make_heuristics(cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                            cudnnBackendDescriptor_t *heuristics)
{
    return OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, heuristics)) &&
           OK(cudnnBackendSetAttribute(*heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph)) &&
           OK(cudnnBackendSetAttribute(*heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                       CUDNN_TYPE_HEUR_MODE, 1, &mode)) &&
           OK(cudnnBackendFinalize(*heuristics));
}

/* The configurations that a heuristic proposes; the caller destroys all that are not NULL. */
static int64_t list_configs(cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                            cudnnBackendDescriptor_t configs[MOST_CONFIGS])
{
    cudnnBackendDescriptor_t heuristics = NULL;
    int64_t count = 0;
    bool listed = make_heuristics(graph, mode, &heuristics);
    for (int i = 0; listed && i < MOST_CONFIGS; i++)
        listed = OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[i]));
    listed = listed && OK(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS,
                                                   &count, configs));
    if (heuristics)
        cudnnBackendDestroyDescriptor(heuristics);
    return !listed ? 0 : count < MOST_CONFIGS ? count : MOST_CONFIGS;
}

static const char *form_text(const struct convolution_form *form, bool accumulate)
{
    if (!form->aside)
        return "";
    return accumulate ? ", added aside" : ", widened";
}

static void add_mode(struct session *s, const struct convolution_request *r,
                     const struct convolution_graph *g, cudnnBackendHeurMode_t mode,
                     const struct convolution_form *form, struct convolution_way *ways, int *count,
                     int most)
{
    cudnnBackendDescriptor_t configs[MOST_CONFIGS] = {NULL};
    size_t room = 0;
    if (!convolution_room(r, form, &room))
        return;
    int64_t listed = list_configs(g->graph, mode, configs);
    for (int64_t i = 0; i < listed && *count < most; i++) {
        struct convolution_way way = {.form = *form, .config = configs[i]};
        int64_t number = 0;
        if (!engine_fits(r, configs[i], &number) ||
            !make_plan(s, configs[i], room, &way.plan, &way.engine_bytes))
            continue;
        snprintf(way.engine, sizeof way.engine, "cudnn %lld%s%s", (long long)number,
                 form->adds ? ", beta 1" : "", form_text(form, r->op.accumulate));
        configs[i] = NULL;
        ways[(*count)++] = way;
    }
    for (int i = 0; i < MOST_CONFIGS; i++)
        if (configs[i])
            cudnnBackendDestroyDescriptor(configs[i]);
}

void convolution_engines(struct session *s, const struct convolution_request *r,
                         const struct convolution_graph *g, const struct convolution_form *form,
                         struct convolution_way *ways, int *count, int most)
{
    int before = *count;
    add_mode(s, r, g, CUDNN_HEUR_MODE_A, form, ways, count, most);
    if (*count == before)
        add_mode(s, r, g, CUDNN_HEUR_MODE_FALLBACK, form, ways, count, most);
}
