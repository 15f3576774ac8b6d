#include "plan/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/access.h"
#include "plan/fusing.h"

struct view *fuse_operand(const struct fuse *f, int instruction, int index)
{
    return &f->role->views[f->list->instructions[instruction].compute.view_first + index];
}

struct view *fuse_result(const struct fuse *f, int instruction, int index)
{
    return fuse_operand(f, instruction,
                        f->list->instructions[instruction].compute.read_count + index);
}

static void add_user(struct fuse *f, int buffer, int instruction)
{
    struct users *u = &f->users[buffer];
    int at = u->count;
    while (at > 0 && u->at[at - 1] > instruction)
        at--;
    if (at > 0 && u->at[at - 1] == instruction)
        return;
    ARRAY_ADD(u->at, u->count, u->capacity);
    memmove(&u->at[at + 1], &u->at[at], (size_t)(u->count - 1 - at) * sizeof *u->at);
    u->at[at] = instruction;
}

static void find_users(struct fuse *f)
{
    for (int i = 0; i < f->list->count; i++) {
        const struct instruction *in = &f->list->instructions[i];
        for (int k = 0; k < access_count(in); k++) {
            struct access access = access_at(f->role, in, k);
            if (access.view >= 0)
                add_user(f, f->role->views[access.view].buffer, i);
        }
    }
}

int fuse_users(const struct fuse *f, int buffer, int *found, int most)
{
    const struct users *u = &f->users[buffer];
    int count = 0;
    for (int i = 0; i < u->count; i++) {
        if (f->gone[u->at[i]])
            continue;
        if (count < most)
            found[count] = u->at[i];
        count++;
    }
    return count;
}

bool fuse_is(const struct fuse *f, int i, enum op_kind kind)
{
    const struct instruction *in = &f->list->instructions[i];
    return !f->gone[i] && in->kind == INSTRUCTION_COMPUTE && in->compute.op.kind == kind;
}

bool fuse_passes(const struct fuse *f, const struct view *view)
{
    const struct buffer *b = &f->role->buffers[view->buffer];
    return b->lifetime == LIFETIME_TRANSIENT && b->list == f->list_index && view->offset == 0 &&
           type_bytes(&view->type) == b->bytes && view_is_dense(view);
}

bool fuse_same_view(const struct view *a, const struct view *b)
{
    return a->buffer == b->buffer && a->offset == b->offset &&
           shape_equal(&a->type.shape, &b->type.shape) && view_same_order(a, b);
}

bool fuse_together(const struct fuse *f, int first, int last)
{
    int stream = f->list->instructions[first].stream;
    if (f->list->instructions[last].stream != stream)
        return false;
    for (int i = first + 1; i < last; i++) {
        const struct instruction *in = &f->list->instructions[i];
        for (int k = 0; k < access_stream_count(in); k++)
            if (!f->gone[i] && in->kind != INSTRUCTION_COMPUTE &&
                access_stream(f->role, in, k) == stream)
                return false;
    }
    return true;
}

void fuse_replace(struct fuse *f, int at, int named, const struct op *op, const struct view *views,
                  int reads, int writes)
{
    struct role *role = f->role;
    struct instruction *in = &f->list->instructions[at];
    int first = role->view_count;
    for (int i = 0; i < reads + writes; i++) {
        struct view view = views[i];
        *ARRAY_ADD(role->views, role->view_count, role->view_capacity) = view;
    }
    in->name = f->list->instructions[named].name;
    in->compute.op = *op;
    in->compute.view_first = first;
    in->compute.read_count = reads;
    in->compute.write_count = writes;
    for (int i = 0; i < reads + writes; i++)
        add_user(f, views[i].buffer, at);
}

void fuse_remove(struct fuse *f, int i)
{
    f->gone[i] = true;
    f->removed++;
}

bool fuse_untouched(const struct fuse *f, int buffer, int first, int last)
{
    const struct users *u = &f->users[buffer];
    for (int i = 0; i < u->count; i++)
        if (!f->gone[u->at[i]] && u->at[i] > first && u->at[i] < last)
            return false;
    return true;
}

int fuse_only_reader(const struct fuse *f, int i)
{
    int users[3];
    const struct view *y = fuse_result(f, i, 0);
    if (!fuse_passes(f, y) || fuse_users(f, y->buffer, users, 3) != 2 || users[0] != i)
        return -1;
    return users[1];
}

void fuse_rename(struct fuse *f, int from, int to, int after)
{
    for (int i = after; i < f->list->count; i++) {
        const struct instruction *in = &f->list->instructions[i];
        for (int k = 0; k < access_count(in) && !f->gone[i]; k++) {
            struct access access = access_at(f->role, in, k);
            if (access.view >= 0 && f->role->views[access.view].buffer == from) {
                f->role->views[access.view].buffer = to;
                add_user(f, to, i);
            }
        }
    }
}

static bool joins_casts(const struct fuse *f, int first, int next)
{
    if (!fuse_is(f, next, OP_cast) || !fuse_together(f, first, next) ||
        f->list->instructions[next].compute.read_count != 1)
        return false;
    return fuse_operand(f, first, 0)->type.dtype == fuse_operand(f, next, 0)->type.dtype &&
           fuse_result(f, first, 0)->type.dtype == fuse_result(f, next, 0)->type.dtype &&
           view_same_order(fuse_operand(f, next, 0), fuse_result(f, next, 0));
}

/* A run of casts between the same types, as of all low copies of the parameters. */
static void fuse_casts(struct fuse *f, int first)
{
    int last = first;
    if (f->list->instructions[first].compute.read_count != 1 || !joins_casts(f, first, first))
        return;
    while (last + 1 < f->list->count && joins_casts(f, first, last + 1))
        last++;
    int count = last - first + 1;
    if (count == 1)
        return;
    struct op op = f->list->instructions[first].compute.op;
    struct view *views = memory_new_array(2 * (size_t)count, sizeof *views);
    for (int i = 0; i < count; i++) {
        views[i] = *fuse_operand(f, first + i, 0);
        views[count + i] = *fuse_result(f, first + i, 0);
    }
    for (int i = first + 1; i <= last; i++)
        fuse_remove(f, i);
    fuse_replace(f, first, first, &op, views, count, count);
    free(views);
}

static void close_gaps(struct fuse *f)
{
    int kept = 0;
    for (int i = 0; i < f->list->count; i++)
        if (!f->gone[i])
            f->list->instructions[kept++] = f->list->instructions[i];
    f->list->count = kept;
}

static int fuse_list(struct role *role, int list)
{
    struct fuse f = {.role = role, .list = &role->lists[list], .list_index = list};
    f.users = memory_new_array((size_t)role->buffer_count + 1, sizeof *f.users);
    f.gone = memory_new_array((size_t)f.list->count + 1, sizeof *f.gone);
    find_users(&f);
    fuse_norms(&f);
    fuse_linears(&f);
    for (int i = 0; i < f.list->count; i++)
        if (fuse_is(&f, i, OP_cast))
            fuse_casts(&f, i);
    close_gaps(&f);
    for (int b = 0; b < role->buffer_count; b++)
        free(f.users[b].at);
    free(f.users);
    free(f.gone);
    return f.removed;
}

int plan_fuse(struct plan *plan)
{
    int removed = 0;
    for (int r = 0; r < plan->role_count; r++)
        for (int l = 0; l < plan->roles[r].list_count; l++)
            removed += fuse_list(&plan->roles[r], l);
    return removed;
}
