#include "cases/cases.h"

#include <ctype.h>

#include "cases/training.h"

enum { DEVICE_COUNT = 8, MOST_TENSORS = 512 };

/* All numbers of the specification. */
static const struct {
    char letter;
    int count;
    const char *title;
} sections[] = {
    {'T', 13, "Moves"},
    {'C', 86, "Collectives"},
    {'P', 32, "DataParallel"},
    {'D', 66, "DistributedDataParallel"},
    {'M', 12, "Model parallel by hand"},
    {'Q', 37, "Pipelining"},
    {'O', 19, "Losses and optimizers"},
};
enum { SECTION_COUNT = sizeof sections / sizeof *sections };

static struct {
    struct case_entry *entries;
    struct case_difference *differences;
    struct rh_cluster *cluster;
    struct rh_tensor *tensors[MOST_TENSORS];
    int tensor_count;
    jmp_buf end_of_case;
    int failures; /* of the running case */
    const char *skipped;
    bool quiet;
} state;

void case_add(struct case_entry *entry)
{
    entry->next = state.entries;
    state.entries = entry;
}

void case_add_difference(struct case_difference *difference)
{
    difference->next = state.differences;
    state.differences = difference;
}

void case_check(bool passed, const char *what, const char *file, int line)
{
    if (passed)
        return;
    state.failures++;
    fprintf(stderr, "    %s:%d: %s (last error: %s)\n", file, line, what, rh_error());
}

void case_require(bool passed, const char *what, const char *file, int line)
{
    case_check(passed, what, file, line);
    if (!passed)
        longjmp(state.end_of_case, 1);
}

void case_check_refused(enum rh_status status, const char *part, const char *what, const char *file,
                        int line)
{
    bool found = strstr(rh_error(), part) != NULL;
    case_check(status == RH_INVALID, what, file, line);
    if (status == RH_INVALID && !found)
        fprintf(stderr, "    '%s' is not in the error\n", part);
    case_check(status != RH_INVALID || found, what, file, line);
}

void case_check_near(double got, double expected, double relative, const char *what,
                     const char *file, int line)
{
    bool near = fabs(got - expected) <= relative * fabs(expected) + 1e-12;
    if (!near)
        fprintf(stderr, "    %.9g, expected %.9g\n", got, expected);
    case_check(near, what, file, line);
}

void case_skip(const char *why)
{
    state.skipped = why;
    longjmp(state.end_of_case, 1);
}

const char *case_backend(void)
{
    const char *given = getenv("REHEARSE_CASES_BACKEND");
    const char *simgrid = getenv("have_simgrid");
    if (given && *given)
        return given;
    return simgrid && strcmp(simgrid, "no") == 0 ? "reference" : "simgrid";
}

bool case_has_times(void)
{
    return strcmp(case_backend(), "simgrid") == 0;
}

struct rh_cluster *case_cluster(void)
{
    if (!state.cluster)
        CHECK_OK(rh_cluster_open("dgx-1v-32gb", DEVICE_COUNT, case_backend(), &state.cluster));
    return state.cluster;
}

struct rh_tensor *case_keep(struct rh_tensor *tensor)
{
    case_require(state.tensor_count < MOST_TENSORS, "room for tensors", __FILE__, __LINE__);
    state.tensors[state.tensor_count++] = tensor;
    return tensor;
}

void case_keep_all(struct rh_tensor *const *tensors, int count)
{
    for (int i = 0; i < count; i++)
        case_keep(tensors[i]);
}

static struct rh_tensor *tensor_of(int device, enum rh_dtype dtype, int rank, const int64_t *dims,
                                   const void *values)
{
    struct rh_tensor *tensor = NULL;
    CHECK_OK(rh_tensor_new(case_cluster(), device, dtype, rank, dims, &tensor));
    case_keep(tensor);
    if (values)
        CHECK_OK(rh_tensor_write(tensor, values, rh_tensor_bytes(tensor)));
    return tensor;
}

struct rh_tensor *case_tensor(int device, int rank, const int64_t *dims, const float *values)
{
    return tensor_of(device, RH_FLOAT32, rank, dims, values);
}

struct rh_tensor *case_integers(int device, int64_t count, const int64_t *values)
{
    return tensor_of(device, RH_INT64, 1, &count, values);
}

struct rh_tensor *case_counting(int device, int rank, const int64_t *dims)
{
    struct rh_tensor *tensor = case_tensor(device, rank, dims, NULL);
    size_t count = rh_tensor_bytes(tensor) / sizeof(float);
    float *values = malloc(count * sizeof *values + 1);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i + 1);
    enum rh_status status = rh_tensor_write(tensor, values, rh_tensor_bytes(tensor));
    free(values);
    CHECK_OK(status);
    return tensor;
}

struct rh_traffic case_traffic(void)
{
    struct rh_traffic traffic;
    rh_cluster_traffic(case_cluster(), &traffic);
    return traffic;
}

void case_check_values(const struct rh_tensor *tensor, const float *expected, int count,
                       const char *file, int line)
{
    size_t size = rh_tensor_dtype(tensor) == RH_INT64 ? 8 : 4;
    union {
        float floats[256];
        int64_t integers[256];
    } values;
    case_require(count <= 256 && rh_tensor_bytes(tensor) == (size_t)count * size,
                 "as many elements as expected", file, line);
    CHECK_OK(rh_tensor_read(tensor, &values, rh_tensor_bytes(tensor)));
    for (int i = 0; i < count; i++) {
        double got = size == 8 ? (double)values.integers[i] : values.floats[i];
        if (got != expected[i])
            fprintf(stderr, "    element %d is %.9g, expected %.9g\n", i, got, expected[i]);
        case_check(got == expected[i], "values", file, line);
    }
}

void case_check_shape(const struct rh_tensor *tensor, int rank, const int64_t *dims,
                      const char *file, int line)
{
    case_check(rh_tensor_rank(tensor) == rank, "rank", file, line);
    for (int d = 0; d < rank; d++) {
        if (rh_tensor_dim(tensor, d) != dims[d])
            fprintf(stderr, "    dimension %d is %lld, expected %lld\n", d,
                    (long long)rh_tensor_dim(tensor, d), (long long)dims[d]);
        case_check(rh_tensor_dim(tensor, d) == dims[d], "shape", file, line);
    }
}

bool case_is_dense(const struct rh_tensor *tensor)
{
    int64_t step = 1;
    for (int d = rh_tensor_rank(tensor) - 1; d >= 0; d--) {
        if (rh_tensor_dim(tensor, d) > 1 && rh_tensor_stride(tensor, d) != step)
            return false;
        step *= rh_tensor_dim(tensor, d);
    }
    return true;
}

/* ---- running ----------------------------------------------------------------------------------
 */

struct counts {
    int passed, failed, skipped, waiting, without;
};

static void run_case(const struct case_entry *entry, struct counts *counts)
{
    state.failures = 0;
    state.skipped = NULL;
    if (setjmp(state.end_of_case) == 0)
        entry->run();
    for (int i = 0; i < state.tensor_count; i++)
        rh_tensor_free(state.tensors[i]);
    state.tensor_count = 0;
    live_close_all();
    training_free_all();
    counts->failed += state.failures > 0;
    counts->skipped += state.failures == 0 && state.skipped;
    counts->passed += state.failures == 0 && !state.skipped;
    if (state.failures)
        fprintf(state.quiet ? stderr : stdout, "FAILED case %s: %s\n", entry->id, entry->words);
    else if (!state.quiet && state.skipped)
        printf("skipped case %s: %s\n", entry->id, state.skipped);
    else if (!state.quiet)
        printf("case %s ok\n", entry->id);
    fflush(stdout);
}

static const struct case_entry *find(char letter, int number, int *found)
{
    char id[16];
    const struct case_entry *entry = NULL;
    snprintf(id, sizeof id, "%c%d", letter, number);
    *found = 0;
    for (const struct case_entry *e = state.entries; e; e = e->next)
        if (strcmp(e->id, id) == 0) {
            entry = e;
            ++*found;
        }
    return entry;
}

/* Every number once, and no other. */
static int count_misnumbered(void)
{
    int wrong = 0;
    int known = 0;
    int all = 0;
    for (int s = 0; s < SECTION_COUNT; s++)
        for (int n = 1; n <= sections[s].count; n++) {
            int found = 0;
            find(sections[s].letter, n, &found);
            known += found > 0;
            wrong += found != 1;
            if (found != 1)
                fprintf(stderr, "FAILED case %c%d is there %d times\n", sections[s].letter, n,
                        found);
        }
    for (const struct case_entry *e = state.entries; e; e = e->next)
        all++;
    if (all != known && !wrong)
        fprintf(stderr, "FAILED %d cases have no number of the specification\n", all - known);
    return wrong + (all > known && !wrong ? all - known : 0);
}

/* ---- doc/torch-cases.md -----------------------------------------------------------------------
 */

static const char *file_name(const struct case_entry *entry)
{
    const char *slash = strrchr(entry->file, '/');
    return slash ? slash + 1 : entry->file;
}

static void print_section(int s, const struct counts *counts)
{
    (void)counts;
    printf("\n## %s\n\n| case | what happens | test |\n| --- | --- | --- |\n", sections[s].title);
    for (int n = 1; n <= sections[s].count; n++) {
        int found = 0;
        const struct case_entry *e = find(sections[s].letter, n, &found);
        if (!e)
            continue;
        printf("| %s | %s | ", e->id, e->words);
        if (e->run)
            printf("`%s` |\n", file_name(e));
        else
            printf("%s: %s |\n", e->applies ? "**not yet**" : "does not apply", e->reason);
    }
}

static void print_differences(void)
{
    printf("\n## Different from PyTorch on purpose\n\n"
           "| case | PyTorch | here |\n| --- | --- | --- |\n");
    for (int s = 0; s < SECTION_COUNT; s++)
        for (int n = 1; n <= sections[s].count; n++)
            for (const struct case_difference *d = state.differences; d; d = d->next)
                if (d->id[0] == sections[s].letter && atoi(d->id + 1) == n)
                    printf("| %s | %s | %s |\n", d->id, d->torch, d->ours);
}

static void print_table(const struct counts *counts)
{
    int tested = counts->passed + counts->failed + counts->skipped;
    printf(
        "<!-- Written by `tests/cases/table`, from a run; do not edit. -->\n"
        "# PyTorch's behaviour, case by case\n\n"
        "%d numbered cases of what PyTorch does with several GPUs: %d are tested, %d do not apply "
        "to a C library, %d are not written yet.\n"
        "The tests are blocks `CASE(…)` in `tests/cases/`; `make check TESTS=cases` runs them "
        "on the simulator with numbers, with `REHEARSE_CASES_BACKEND=cuda` on a GPU.\n",
        tested + counts->without + counts->waiting, tested, counts->without, counts->waiting);
    print_differences();
    for (int s = 0; s < SECTION_COUNT; s++)
        print_section(s, counts);
}

int main(int argc, char **argv)
{
    struct counts counts = {0};
    bool table = argc > 1 && strcmp(argv[1], "--table") == 0;
    const char *only = argc > 1 && !table ? argv[1] : NULL;
    state.quiet = table;
    for (int s = 0; s < SECTION_COUNT; s++)
        for (int n = 1; n <= sections[s].count; n++) {
            int found = 0;
            const struct case_entry *e = find(sections[s].letter, n, &found);
            if (!e || (only && strcmp(e->id, only) != 0))
                continue;
            if (e->run)
                run_case(e, &counts);
            counts.waiting += !e->run && e->applies;
            counts.without += !e->run && !e->applies;
        }
    counts.failed += only ? 0 : count_misnumbered();
    rh_cluster_close(state.cluster);
    if (table)
        print_table(&counts);
    else
        printf("cases: %d passed, %d failed, %d skipped\n", counts.passed, counts.failed,
               counts.skipped);
    return counts.failed != 0;
}
