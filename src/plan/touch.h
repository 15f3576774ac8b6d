/* Every access of a list to bytes of a buffer, buffer by buffer: what the race check goes through.
 */
#ifndef REHEARSE_PLAN_TOUCH_H
#define REHEARSE_PLAN_TOUCH_H

#include "plan/order.h"

struct touch {
    int instruction, stream;
    const struct view *view;
    int64_t start, end; /* bytes of the buffer that it may touch, at least one */
    bool write;
    bool needs_content; /* reads what must have been written before */
};

struct touches {
    const struct plan *plan;
    const struct role *role;
    const struct list *list;
    int list_index;
    struct order *order;
    struct touch *all; /* by buffer, then in list order */
    int *first;        /* [buffer_count + 1]: where a buffer's begin */
};

enum rh_status touches_new(const struct plan *plan, int role, int list, struct touches *touches);
void touches_clear(struct touches *touches);

/* Neither of the two has certainly ended before the other starts. `a` is not later in the list. */
bool touches_unordered(const struct touches *touches, const struct touch *a, const struct touch *b);

/* The error of two such accesses, of the same buffer or of two that share bytes. */
enum rh_status touches_race(const struct touches *touches, const struct touch *a,
                            const struct touch *b);

/* No two transient buffers share bytes unless all uses of one end before those of the other
 * (sharing.c). */
enum rh_status touches_check_sharing(const struct touches *touches);

#endif
