#include "cli/grid.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

void grid_add(struct grid *grid, const char *key, const char *values)
{
    struct dimension *dimension =
        ARRAY_ADD(grid->dimensions, grid->dimension_count, grid->dimension_capacity);
    dimension->key = text_copy(key);
    list_split(&dimension->values, values);
}

enum rh_status grid_add_setting(struct grid *grid, const char *setting)
{
    const char *equals = strchr(setting, '=');
    if (!equals || equals == setting)
        return fail(RH_INVALID, "--set %s: expected key=value or key=value1,value2", setting);
    char *key = text_copy(setting);
    key[equals - setting] = '\0';
    enum rh_status status = RH_OK;
    for (int i = 0; i < grid->dimension_count; i++)
        if (strcmp(grid->dimensions[i].key, key) == 0)
            status = fail(RH_INVALID, "'%s' is varied twice", key);
    if (status == RH_OK)
        grid_add(grid, key, equals + 1);
    free(key);
    return status;
}

int grid_cases(const struct grid *grid)
{
    int cases = grid->files.count;
    for (int i = 0; i < grid->dimension_count; i++)
        cases *= grid->dimensions[i].values.count;
    return cases;
}

static const char *file_word(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void add_label(struct text *label, const struct dimension *dimension, const char *value)
{
    const char *separator = label->length ? " " : "";
    const char *dot = strrchr(dimension->key, '.');
    bool plain = strcmp(dimension->key, "strategy.type") == 0 ||
                 strcmp(dimension->key, "cluster") == 0 || strcmp(dimension->key, "model") == 0;
    if (plain)
        text_add(label, "%s%s", separator, value);
    else
        text_add(label, "%s%s=%s", separator, dot ? dot + 1 : dimension->key, value);
}

void grid_case(const struct grid *grid, int index, struct string_list *settings, const char **file,
               char **label)
{
    struct text words = {0};
    int rest = index;
    int *choice = memory_new_array((size_t)grid->dimension_count + 1, sizeof *choice);
    for (int i = grid->dimension_count - 1; i >= 0; i--) {
        choice[i] = rest % grid->dimensions[i].values.count;
        rest /= grid->dimensions[i].values.count;
    }
    *file = grid->files.items[rest];
    if (grid->files.count > 1)
        text_add(&words, "%.*s", (int)strcspn(file_word(*file), "."), file_word(*file));
    for (int i = 0; i < grid->dimension_count; i++) {
        const struct dimension *dimension = &grid->dimensions[i];
        const char *value = dimension->values.items[choice[i]];
        *ARRAY_ADD(settings->items, settings->count, settings->capacity) =
            text_format("%s=%s", dimension->key, value);
        if (dimension->values.count > 1)
            add_label(&words, dimension, value);
    }
    if (!words.data)
        text_add(&words, "%.*s", (int)strcspn(file_word(*file), "."), file_word(*file));
    *label = words.data;
    free(choice);
}

void grid_free(struct grid *grid)
{
    for (int i = 0; i < grid->dimension_count; i++) {
        free(grid->dimensions[i].key);
        list_free(&grid->dimensions[i].values, true);
    }
    free(grid->dimensions);
    list_free(&grid->files, false);
}
