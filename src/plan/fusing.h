/* The inside of fuse.c and its families: one list under way, and what its instructions touch. */
#ifndef REHEARSE_PLAN_FUSING_H
#define REHEARSE_PLAN_FUSING_H

#include "plan/plan.h"

enum { FUSING_OPERANDS = 16 };

/* Who touches each buffer of the role in this list, in list order. */
struct users {
    int *at; /* instruction indices, each once for a buffer */
    int count, capacity;
};

struct fuse {
    struct role *role;
    struct list *list;
    int list_index;
    struct users *users; /* per buffer */
    bool *gone;          /* per instruction */
    int removed;
};

/* Operands of a compute: reads, then writes; its results. */
struct view *fuse_operand(const struct fuse *f, int instruction, int index);
struct view *fuse_result(const struct fuse *f, int instruction, int index);
/* Still there, and a compute of that kind. */
bool fuse_is(const struct fuse *f, int instruction, enum op_kind kind);
/* The number of users that are still there; the first `most` of them in `found`. */
int fuse_users(const struct fuse *f, int buffer, int *found, int most);
/* A whole transient buffer of this list: nothing outside the list sees it. */
bool fuse_passes(const struct fuse *f, const struct view *view);
bool fuse_same_view(const struct view *a, const struct view *b);
/* On one stream, and whatever stands between them there is compute: no event, copy or collective
 * marks a place that the joined instruction would cross. */
bool fuse_together(const struct fuse *f, int first, int last);
/* Nothing between the two instructions touches the buffer. */
bool fuse_untouched(const struct fuse *f, int buffer, int first, int last);
/* The only other user of what the instruction writes first, if it is there alone; -1. */
int fuse_only_reader(const struct fuse *f, int instruction);
/* Instruction `at` becomes `op` with these operands; its name stays that of `named`. */
void fuse_replace(struct fuse *f, int at, int named, const struct op *op, const struct view *views,
                  int reads, int writes);
void fuse_remove(struct fuse *f, int instruction);
/* From `after` on, buffer `to` stands for `from`. */
void fuse_rename(struct fuse *f, int from, int to, int after);

/* fuse_norm.c: batch norm with its neighbours; sums of convolutions' gradients. */
void fuse_norms(struct fuse *f);
/* fuse_linear.c: linear layers with relu, both ways; a loss with its gradient. */
void fuse_linears(struct fuse *f);

#endif
