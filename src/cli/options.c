#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"

static const struct option *find(const struct option *options, int count, const char *name,
                                 size_t length)
{
    for (int i = 0; i < count; i++)
        if (strlen(options[i].name) == length && strncmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

static enum rh_status unknown(const struct command *command, const struct option *options,
                              int count, const char *argument)
{
    const char *names[32];
    for (int i = 0; i < count; i++)
        names[i] = options[i].name;
    const char *nearest = text_nearest(argument + 2, names, count);
    if (nearest)
        return fail(RH_INVALID, "%s: unknown option '%s'; did you mean '--%s'?", command->name,
                    argument, nearest);
    return fail(RH_INVALID, "%s: unknown option '%s'; see 'rehearse help %s'", command->name,
                argument, command->name);
}

static enum rh_status store(const struct command *command, const struct option *option,
                            const char *value)
{
    char *end = NULL;
    switch (option->kind) {
    case OPTION_FLAG: *(bool *)option->value = true; return RH_OK;
    case OPTION_STRING: *(const char **)option->value = value; return RH_OK;
    case OPTION_LIST: {
        struct string_list *list = option->value;
        *ARRAY_ADD(list->items, list->count, list->capacity) = value;
        return RH_OK;
    }
    case OPTION_INTEGER: {
        long number = strtol(value, &end, 10);
        if (end == value || *end || number < 1 || number > INT_MAX)
            return fail(RH_INVALID, "%s: --%s %s: a whole number from 1 is expected", command->name,
                        option->name, value);
        *(int *)option->value = (int)number;
        return RH_OK;
    }
    }
    return RH_OK;
}

enum rh_status options_read(const struct command *command, int argc, char **argv,
                            const struct option *options, int option_count,
                            struct string_list *arguments, int least, int most)
{
    bool only_arguments = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (only_arguments || strncmp(word, "--", 2) != 0) {
            if (!only_arguments && word[0] == '-' && word[1])
                return fail(RH_INVALID, "%s: unknown option '%s'; see 'rehearse help %s'",
                            command->name, word, command->name);
            *ARRAY_ADD(arguments->items, arguments->count, arguments->capacity) = word;
            continue;
        }
        if (word[2] == '\0') {
            only_arguments = true;
            continue;
        }
        const char *equals = strchr(word, '=');
        size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
        const struct option *option = find(options, option_count, word + 2, length);
        if (!option)
            return unknown(command, options, option_count, word);
        const char *value = equals ? equals + 1 : NULL;
        if (option->kind == OPTION_FLAG && value)
            return fail(RH_INVALID, "%s: --%s takes no value", command->name, option->name);
        if (option->kind != OPTION_FLAG && !value) {
            if (i + 1 == argc)
                return fail(RH_INVALID, "%s: --%s needs a value", command->name, option->name);
            value = argv[++i];
        }
        RETURN_IF_FAILED(store(command, option, value));
    }
    if (arguments->count < least || arguments->count > most)
        return fail(RH_INVALID, "%s: %d argument%s given; usage: rehearse %s %s", command->name,
                    arguments->count, arguments->count == 1 ? " is" : "s are", command->name,
                    command->usage);
    return RH_OK;
}

void list_split(struct string_list *list, const char *text)
{
    int depth = 0;
    bool quoted = false;
    const char *start = text;
    for (const char *c = text;; c++) {
        if (*c == '"')
            quoted = !quoted;
        if (!quoted && (*c == '[' || *c == '{'))
            depth++;
        if (!quoted && (*c == ']' || *c == '}'))
            depth--;
        if (*c && !(*c == ',' && depth <= 0 && !quoted))
            continue;
        char *piece = memory_new((size_t)(c - start) + 1);
        memcpy(piece, start, (size_t)(c - start));
        *ARRAY_ADD(list->items, list->count, list->capacity) = piece;
        if (!*c)
            return;
        start = c + 1;
    }
}

void list_free(struct string_list *list, bool owns_items)
{
    for (int i = 0; owns_items && i < list->count; i++)
        free((char *)list->items[i]);
    free(list->items);
}
