/* Headers come with tabs, blanks, escape codes, a split "CPU     Affinity", with or without NICs. A
 * header is a line of names that begins with GPUn; a row is a line that begins with one of them. */
#include "platform/import_matrix.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { MOST_COLUMNS = 256, MOST_WORDS = MOST_COLUMNS + 16 };

void matrix_free(struct matrix *m)
{
    for (int i = 0; i < m->count; i++) {
        free(m->names[i]);
        free(m->affinity[i]);
    }
    free(m->names);
    free(m->is_gpu);
    free(m->affinity);
    free(m->entries);
    *m = (struct matrix){0};
}

/* Takes terminal escape codes and carriage returns out. */
static char *plain_text(const char *text)
{
    char *plain = text_copy(text);
    char *out = plain;
    for (const char *c = text; *c; c++) {
        if (*c == '\033' && c[1] == '[') {
            c += 2;
            while (*c && !(*c >= '@' && *c <= '~'))
                c++;
            if (!*c)
                break;
        } else if (*c != '\r') {
            *out++ = *c;
        }
    }
    *out = '\0';
    return plain;
}

/* Cuts a line into words in place. */
static int cut_words(char *line, char **words)
{
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t\v\f", &rest); word && count < MOST_WORDS;
         word = strtok_r(NULL, " \t\v\f", &rest))
        words[count++] = word;
    return count;
}

static bool is_gpu_name(const char *word)
{
    if (strncmp(word, "GPU", 3) != 0 || !word[3])
        return false;
    return word[3 + strspn(word + 3, "0123456789")] == '\0';
}

/* Returns false for a word that is no entry of either kind of matrix. */
static bool parse_entry(const char *word, struct matrix_entry *entry)
{
    static const struct {
        const char *word;
        enum tie tie;
    } ties[] = {{"X", TIE_SELF},      {"PIX", TIE_PIX},     {"PXB", TIE_PXB},
                {"PHB", TIE_PHB},     {"NODE", TIE_NODE},   {"SYS", TIE_SYS},
                {"SOC", TIE_SYS},     {"OK", TIE_PEER},     {"CNS", TIE_NO_PEER},
                {"GNS", TIE_NO_PEER}, {"TNS", TIE_NO_PEER}, {"NS", TIE_NO_PEER},
                {"DR", TIE_NO_PEER},  {"U", TIE_NO_PEER}};
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
        if (strcmp(word, ties[i].word) == 0) {
            *entry = (struct matrix_entry){ties[i].tie, 0};
            return true;
        }
    }
    size_t digits = strncmp(word, "NV", 2) == 0 ? strspn(word + 2, "0123456789") : 0;
    if (!digits || digits > 3 || word[2 + digits])
        return false;
    *entry = (struct matrix_entry){TIE_NVLINK, atoi(word + 2)};
    return entry->nvlinks > 0;
}

static const char *entry_text(const struct matrix_entry *entry, char out[16])
{
    static const char *const words[] = {"?",   "X",    "NV",  "PIX", "PXB",
                                        "PHB", "NODE", "SYS", "OK",  "not OK"};
    if (entry->tie == TIE_NVLINK)
        snprintf(out, 16, "NV%d", entry->nvlinks);
    else
        snprintf(out, 16, "%s", words[entry->tie]);
    return out;
}

static bool is_header(char *const *words, int count)
{
    struct matrix_entry entry;
    return count > 0 && is_gpu_name(words[0]) && (count == 1 || !parse_entry(words[1], &entry));
}

static enum rh_status read_header(struct matrix *m, char *const *words, int count)
{
    /* "CPU Affinity", "NUMA Affinity", "GPU NUMA ID" end the columns */
    while (m->count < count && strcmp(words[m->count], "CPU") != 0 &&
           strcmp(words[m->count], "NUMA") != 0 && strcmp(words[m->count], "GPU") != 0)
        m->count++;
    int columns = m->count;
    m->count = 0;
    if (columns > MOST_COLUMNS)
        return fail(RH_INVALID, "the header has %d columns; at most %d are read", columns,
                    MOST_COLUMNS);
    m->names = memory_new_array((size_t)columns, sizeof *m->names);
    m->is_gpu = memory_new_array((size_t)columns, sizeof *m->is_gpu);
    m->affinity = memory_new_array((size_t)columns, sizeof *m->affinity);
    m->entries = memory_new_array((size_t)columns * (size_t)columns, sizeof *m->entries);
    for (int i = 0; i < columns; i++) {
        for (int j = 0; j < i; j++)
            if (strcmp(m->names[j], words[i]) == 0)
                return fail(RH_INVALID, "column '%s' is given twice", words[i]);
        m->names[m->count++] = text_copy(words[i]);
        m->is_gpu[i] = is_gpu_name(words[i]);
        m->gpu_count += m->is_gpu[i];
    }
    return RH_OK;
}

static enum rh_status read_row(struct matrix *m, int row, char *const *words, int count)
{
    struct matrix_entry entry;
    if (matrix_entry(m, row, row)->tie != TIE_NONE)
        return fail(RH_INVALID, "row '%s' is given twice", m->names[row]);
    if (count - 1 < m->count)
        return fail(RH_INVALID, "row '%s' has %d entries; there are %d columns", m->names[row],
                    count - 1, m->count);
    for (int i = 0; i < m->count; i++) {
        if (!parse_entry(words[1 + i], &entry))
            return fail(RH_INVALID,
                        "row '%s', column '%s': '%s' is not an entry like NV2, PHB or OK",
                        m->names[row], m->names[i], words[1 + i]);
        if ((entry.tie == TIE_SELF) != (i == row))
            return fail(RH_INVALID,
                        "row '%s', column '%s': '%s' is there; X must be on the diagonal",
                        m->names[row], m->names[i], words[1 + i]);
        *matrix_entry(m, row, i) = entry;
    }
    if (count > m->count + 1 && parse_entry(words[m->count + 1], &entry))
        return fail(RH_INVALID, "row '%s' has more entries than the %d columns", m->names[row],
                    m->count);
    /* the NUMA node is a number; the CPU list is all that old drivers print */
    const char *cpus = count > m->count + 1 ? words[m->count + 1] : NULL;
    const char *numa = count > m->count + 2 ? words[m->count + 2] : NULL;
    if (numa && isdigit((unsigned char)*numa))
        m->affinity[row] = text_format("NUMA %s", numa);
    else if (cpus && isdigit((unsigned char)*cpus))
        m->affinity[row] = text_copy(cpus);
    return RH_OK;
}

/* "  NIC0: mlx5_0" below the matrix. */
static void read_legend(struct matrix *m, char *const *words, int count)
{
    size_t length = count == 2 ? strlen(words[0]) : 0;
    if (!length || words[0][length - 1] != ':')
        return;
    for (int i = 0; i < m->count; i++) {
        if (!m->is_gpu[i] && strlen(m->names[i]) == length - 1 &&
            strncmp(m->names[i], words[0], length - 1) == 0) {
            free(m->names[i]);
            m->names[i] = text_copy(words[1]);
            return;
        }
    }
}

static enum rh_status read_lines(struct matrix *m, char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *words[MOST_WORDS];
        int count = cut_words(line, words);
        if (!count)
            continue;
        if (!m->count) {
            if (is_header(words, count))
                RETURN_IF_FAILED(read_header(m, words, count));
            continue;
        }
        int row = 0;
        while (row < m->count && strcmp(m->names[row], words[0]) != 0)
            row++;
        if (row < m->count)
            RETURN_IF_FAILED(read_row(m, row, words, count));
        else
            read_legend(m, words, count);
    }
    return RH_OK;
}

static bool same(const struct matrix_entry *a, const struct matrix_entry *b)
{
    return a->tie == b->tie && a->nvlinks == b->nvlinks;
}

static enum rh_status check_pair(const struct matrix *m, int a, int b)
{
    const struct matrix_entry *above = matrix_entry(m, a, b);
    const struct matrix_entry *below = matrix_entry(m, b, a);
    bool peer = above->tie >= TIE_PEER;
    char words[2][16];
    if (peer != m->peers || (below->tie >= TIE_PEER) != m->peers)
        return fail(
            RH_INVALID, "row '%s', column '%s': '%s' in a matrix of the other kind (-m, -p2p)",
            m->names[a], m->names[b], entry_text(peer != m->peers ? above : below, words[0]));
    if (same(above, below))
        return RH_OK;
    return fail(RH_INVALID,
                "the matrix is not symmetric: row '%s', column '%s' is '%s', but row '%s', column "
                "'%s' is '%s'",
                m->names[a], m->names[b], entry_text(above, words[0]), m->names[b], m->names[a],
                entry_text(below, words[1]));
}

static enum rh_status check(struct matrix *m)
{
    if (!m->count)
        return fail(RH_INVALID,
                    "neither XML nor an nvidia-smi matrix: no header line begins with GPU0");
    for (int i = 0; i < m->count; i++)
        if (matrix_entry(m, i, i)->tie == TIE_NONE)
            return fail(RH_INVALID, "the matrix is not square: row '%s' is missing", m->names[i]);
    m->peers = m->count > 1 && matrix_entry(m, 0, 1)->tie >= TIE_PEER;
    for (int i = 0; i < m->count; i++)
        for (int j = i + 1; j < m->count; j++)
            RETURN_IF_FAILED(check_pair(m, i, j));
    return RH_OK;
}

enum rh_status matrix_read(const char *text, struct matrix *matrix)
{
    *matrix = (struct matrix){0};
    char *plain = plain_text(text);
    enum rh_status status = read_lines(matrix, plain);
    free(plain);
    if (status == RH_OK)
        status = check(matrix);
    if (status != RH_OK)
        matrix_free(matrix);
    return status;
}
