/* What a checkpoint holds: every parameter, statistic and optimizer tensor of a model by name, and
 * where it lies in a plan. The names do not depend on the strategy or the mesh. */
#ifndef REHEARSE_EXPERIMENT_STORED_H
#define REHEARSE_EXPERIMENT_STORED_H

#include "data/safetensors.h"
#include "strategy/strategy.h"

enum stored_kind { STORED_PARAMETER, STORED_STATE, STORED_OPTIMIZER };

/* "fc.weight", "bn1.running_mean", "optimizer.momentum.fc.weight", "optimizer.variance.fc.weight",
 * "optimizer.step" (once for each device that counts), "scaler" (where the loss's scale changes; once
 * for each worker that has one). */
struct stored {
    char *name;
    enum stored_kind kind;
    int index; /* of the parameter or state; optimizer: -1 */
    struct tensor_type type;
    struct tensor_home home;
};

struct stored_list {
    struct stored *items;
    int count, capacity;
};

void stored_list_make(struct stored_list *list, const struct model *model,
                      const struct strategy_plan *plan);
void stored_list_free(struct stored_list *list);
/* The values in a file; fails, with `path` in the message, where they are missing or have another
 * type or shape. */
enum rh_status stored_find(const struct stored *stored, const struct safetensors *file,
                           const char *path, const void **data);
/* Fails for a tensor of the file that is none of the list's. */
enum rh_status stored_check_names(const struct stored_list *list, const struct safetensors *file,
                                  const char *path);

#endif
