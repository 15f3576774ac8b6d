/* Initial values: a counter-based generator, so that a value depends on (seed, name, element) alone
 * and any split of a model over devices starts from the same numbers. */
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"
#include "model/model.h"

void parameter_init(const struct parameter *parameter, uint64_t seed, float *values)
{
    uint64_t stream = random_mix(seed, text_hash(parameter->name, strlen(parameter->name)));
    int64_t elements = shape_elements(&parameter->shape);
    for (int64_t i = 0; i < elements; i++) {
        switch (parameter->init) {
        case INIT_ZERO: values[i] = 0; break;
        case INIT_ONE: values[i] = 1; break;
        case INIT_UNIFORM:
            values[i] =
                (float)((2 * random_uniform(stream, (uint64_t)i) - 1) * parameter->init_scale);
            break;
        case INIT_NORMAL:
            values[i] = (float)(random_normal(stream, (uint64_t)i) * parameter->init_scale);
            break;
        }
    }
}

void state_init(const struct state *state, void *values)
{
    int64_t elements = shape_elements(&state->type.shape);
    for (int64_t i = 0; i < elements; i++) {
        if (state->type.dtype == DTYPE_I64)
            ((int64_t *)values)[i] = state->init == INIT_ONE;
        else
            ((float *)values)[i] = state->init == INIT_ONE;
    }
}
