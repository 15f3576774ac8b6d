/* Tables of schedules: read, checked, printed, timed. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "strategy/schedule.h"

static const char letters[] = "FBIW";
enum { MOST_NUMBER = 1 << 20, MOST_ROW = 1 << 24 };

static char letter(const struct action *a)
{
    return letters[a->kind];
}

/* ---- reading ---- */
static enum rh_status parse_action(const char *field, const char *where, int line,
                                   struct action *action)
{
    char *end = NULL;
    char *last = NULL;
    long stage = strtol(field, &end, 10);
    const char *kind = *end ? strchr(letters, *end) : NULL;
    long microbatch = kind ? strtol(end + 1, &last, 10) : -1;
    if (!isdigit((unsigned char)field[0]) || !kind || !isdigit((unsigned char)end[1]) || *last ||
        stage >= MOST_NUMBER || microbatch >= MOST_NUMBER)
        return fail(RH_INVALID,
                    "%s, line %d: '%.32s' is no action such as 2F0 (stage, F, B, I or "
                    "W, microbatch)",
                    where, line, field);
    *action = (struct action){(int)stage, (enum action_kind)(kind - letters), (int)microbatch};
    return RH_OK;
}

static enum rh_status parse_row(char *text, const char *where, int line, struct action **actions,
                                int *count)
{
    int capacity = 0;
    struct action action;
    for (char *field = text; field;) {
        char *comma = strchr(field, ',');
        if (comma)
            *comma = '\0';
        while (isspace((unsigned char)*field))
            field++;
        size_t length = strlen(field);
        while (length > 0 && isspace((unsigned char)field[length - 1]))
            field[--length] = '\0';
        if (length > 0) {
            RETURN_IF_FAILED(parse_action(field, where, line, &action));
            *ARRAY_ADD(*actions, *count, capacity) = action;
        }
        field = comma ? comma + 1 : NULL;
    }
    return *count > 0
               ? RH_OK
               : fail(RH_INVALID, "%s, line %d: rank %d has no actions", where, line, line - 1);
}

static void take_shape(struct schedule_table *t)
{
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->counts[r]; i++) {
            const struct action *a = &t->actions[r][i];
            t->stages = a->stage >= t->stages ? a->stage + 1 : t->stages;
            t->microbatches =
                a->microbatch >= t->microbatches ? a->microbatch + 1 : t->microbatches;
        }
}

/* The rank that a stage's first action is found on. */
static enum rh_status take_ranks(struct schedule_table *t, const char *where)
{
    t->rank_of_stage = memory_new_array((size_t)t->stages, sizeof(int));
    for (int s = 0; s < t->stages; s++)
        t->rank_of_stage[s] = -1;
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->counts[r]; i++) {
            int *rank = &t->rank_of_stage[t->actions[r][i].stage];
            *rank = *rank < 0 ? r : *rank;
        }
    for (int s = 0; s < t->stages; s++)
        if (t->rank_of_stage[s] < 0)
            return fail(RH_INVALID, "%s: stage %d of %d is on no rank", where, s, t->stages);
    return RH_OK;
}

static enum rh_status read_rows(FILE *in, const char *where, struct schedule_table *t)
{
    char *line = NULL;
    size_t room = 0;
    int row_capacity = 0;
    int count_capacity = 0;
    int counts = 0;
    enum rh_status status = RH_OK;
    for (int number = 1; status == RH_OK && getline(&line, &room, in) >= 0; number++) {
        *ARRAY_ADD(t->actions, t->ranks, row_capacity) = NULL;
        *ARRAY_ADD(t->counts, counts, count_capacity) = 0;
        status =
            parse_row(line, where, number, &t->actions[t->ranks - 1], &t->counts[t->ranks - 1]);
    }
    free(line);
    if (status == RH_OK && t->ranks == 0)
        status = fail(RH_INVALID, "%s: no rank, the file is empty", where);
    return status;
}

enum rh_status schedule_read(const char *path, const char *where, struct schedule_table *table)
{
    *table = (struct schedule_table){0};
    FILE *in = fopen(path, "r");
    if (!in)
        return fail(RH_INVALID, "%s: cannot read '%s': %s", where, path, strerror(errno));
    char *place = text_format("%s: '%s'", where, path);
    enum rh_status status = read_rows(in, place, table);
    fclose(in);
    if (status == RH_OK) {
        take_shape(table);
        status = take_ranks(table, place);
    }
    if (status == RH_OK)
        status = schedule_check(table, place);
    if (status != RH_OK)
        schedule_free(table);
    free(place);
    return status;
}

/* ---- checking ---- */
/* Per (stage, microbatch): which kinds were met. */
static unsigned *new_marks(const struct schedule_table *t)
{
    return memory_new_array((size_t)t->stages * (size_t)t->microbatches, sizeof(unsigned));
}

static unsigned *mark(const struct schedule_table *t, unsigned *marks, int stage, int microbatch)
{
    return &marks[(size_t)stage * (size_t)t->microbatches + (size_t)microbatch];
}

static unsigned bit(enum action_kind kind)
{
    return 1u << kind;
}

/* What must stand before an action on its own rank. */
static enum rh_status check_order(const struct action *a, unsigned done, const char *where)
{
    const unsigned forward = bit(ACTION_FORWARD), whole = bit(ACTION_BACKWARD);
    const unsigned split = bit(ACTION_INPUT) | bit(ACTION_WEIGHT);
    const char *missing = NULL;
    if (done & bit(a->kind))
        return fail(RH_INVALID, "%s: %d%c%d is there twice", where, a->stage, letter(a),
                    a->microbatch);
    if (a->kind != ACTION_FORWARD && !(done & forward))
        missing = "F";
    if (a->kind == ACTION_WEIGHT && !(done & bit(ACTION_INPUT)))
        missing = "I";
    if (missing)
        return fail(RH_INVALID, "%s: %d%c%d comes before %d%s%d", where, a->stage, letter(a),
                    a->microbatch, a->stage, missing, a->microbatch);
    if ((a->kind == ACTION_BACKWARD && (done & split)) ||
        (a->kind != ACTION_FORWARD && a->kind != ACTION_BACKWARD && (done & whole)))
        return fail(RH_INVALID, "%s: stage %d has both B%d and %c%d", where, a->stage,
                    a->microbatch, a->kind == ACTION_BACKWARD ? 'I' : letter(a), a->microbatch);
    return RH_OK;
}

static enum rh_status check_rows(const struct schedule_table *t, unsigned *marks, const char *where)
{
    for (int r = 0; r < t->ranks; r++) {
        if (t->counts[r] == 0)
            return fail(RH_INVALID, "%s: rank %d of %d has no actions", where, r, t->ranks);
        for (int i = 0; i < t->counts[r]; i++) {
            const struct action *a = &t->actions[r][i];
            unsigned *done = mark(t, marks, a->stage, a->microbatch);
            if (t->rank_of_stage[a->stage] != r)
                return fail(RH_INVALID, "%s: stage %d is on rank %d and on rank %d", where,
                            a->stage, t->rank_of_stage[a->stage], r);
            RETURN_IF_FAILED(check_order(a, *done, where));
            *done |= bit(a->kind);
        }
    }
    return RH_OK;
}

static enum rh_status check_complete(const struct schedule_table *t, unsigned *marks,
                                     const char *where)
{
    for (int s = 0; s < t->stages; s++) {
        int forwards = 0;
        int backwards = 0;
        for (int m = 0; m < t->microbatches; m++) {
            unsigned done = *mark(t, marks, s, m);
            forwards += (done & bit(ACTION_FORWARD)) != 0;
            backwards += (done & (bit(ACTION_BACKWARD) | bit(ACTION_WEIGHT))) != 0;
        }
        if (forwards != t->microbatches || backwards != t->microbatches)
            return fail(RH_INVALID,
                        "%s: stage %d has %d forwards and %d backwards of %d "
                        "microbatches",
                        where, s, forwards, backwards, t->microbatches);
    }
    return RH_OK;
}

static bool is_backward(enum action_kind kind)
{
    return kind == ACTION_BACKWARD || kind == ACTION_INPUT;
}

/* What an action waits for beyond its own rank's order; the marks are of actions that ended. */
static bool may_start(const struct schedule_table *t, unsigned *marks, const struct action *a)
{
    if (a->kind == ACTION_FORWARD && a->stage > 0)
        return *mark(t, marks, a->stage - 1, a->microbatch) & bit(ACTION_FORWARD);
    if (is_backward(a->kind) && a->stage + 1 < t->stages)
        return *mark(t, marks, a->stage + 1, a->microbatch) &
               (bit(ACTION_BACKWARD) | bit(ACTION_INPUT));
    return true;
}

static enum rh_status check_progress(const struct schedule_table *t, unsigned *marks,
                                     const char *where)
{
    int *at = memory_new_array((size_t)t->ranks, sizeof *at);
    enum rh_status status = RH_OK;
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < t->ranks; r++)
            for (; at[r] < t->counts[r] && may_start(t, marks, &t->actions[r][at[r]]); at[r]++) {
                const struct action *a = &t->actions[r][at[r]];
                *mark(t, marks, a->stage, a->microbatch) |= bit(a->kind);
                moved = true;
            }
    }
    for (int r = 0; r < t->ranks && status == RH_OK; r++)
        if (at[r] < t->counts[r]) {
            const struct action *a = &t->actions[r][at[r]];
            status = fail(RH_INVALID, "%s: no progress: rank %d waits at %d%c%d, action %d of %d",
                          where, r, a->stage, letter(a), a->microbatch, at[r] + 1, t->counts[r]);
        }
    free(at);
    return status;
}

enum rh_status schedule_check(const struct schedule_table *t, const char *where)
{
    unsigned *marks = new_marks(t);
    unsigned *ended = new_marks(t);
    enum rh_status status = check_rows(t, marks, where);
    if (status == RH_OK)
        status = check_complete(t, marks, where);
    if (status == RH_OK)
        status = check_progress(t, ended, where);
    free(marks);
    free(ended);
    return status;
}

/* ---- printing ---- */
void schedule_write_csv(const struct schedule_table *t, FILE *out)
{
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->counts[r]; i++) {
            const struct action *a = &t->actions[r][i];
            fprintf(out, "%d%c%d%c", a->stage, letter(a), a->microbatch,
                    i + 1 < t->counts[r] ? ',' : '\n');
        }
}

void schedule_print(const struct schedule_table *t, FILE *out)
{
    for (int r = 0; r < t->ranks; r++) {
        fprintf(out, "%d ", r);
        for (int i = 0; i < t->counts[r]; i++) {
            const struct action *a = &t->actions[r][i];
            fprintf(out, " %d%c%d", a->stage, letter(a), a->microbatch);
        }
        fputc('\n', out);
    }
}
