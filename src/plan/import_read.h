/* Pieces of a plan's JSON that import.c and import_lists.c read. Private to these. */
#ifndef REHEARSE_PLAN_IMPORT_READ_H
#define REHEARSE_PLAN_IMPORT_READ_H

#include "base/json.h"
#include "plan/plan.h"

/* `name` of each value up to `count`, and the one that the key's word is. */
#define READ_NAME(object, where, key, name, type, count, value)                                    \
    do {                                                                                           \
        const char *names_[count];                                                                 \
        const char *word_ = NULL;                                                                  \
        int index_ = 0;                                                                            \
        for (int i_ = 0; i_ < (int)(count); i_++)                                                  \
            names_[i_] = name((type)i_);                                                           \
        RETURN_IF_FAILED(json_string_required(object, where, key, &word_));                        \
        enum rh_status status_ = json_choice(key, word_, names_, (int)(count), &index_);           \
        if (status_ != RH_OK)                                                                      \
            return fail_within(status_, "%s", where);                                              \
        (value) = (type)index_;                                                                    \
    } while (0)

enum rh_status import_index(const cJSON *object, const char *where, const char *key, int count,
                            int *index); /* below count */
enum rh_status import_array(const cJSON *object, const char *where, const char *key,
                            const cJSON **array);
enum rh_status import_type(const cJSON *object, const char *where, struct tensor_type *type);
enum rh_status import_view(const cJSON *object, const char *where, const struct role *role,
                           struct view *view);
/* All lists' instructions; the role's streams, events, buffers and list names are there. */
enum rh_status import_lists(struct plan *plan, int role, const cJSON *lists, const char *where);

#endif
