#include "report/columns.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct cell {
    char *text;
    bool rest;
};

struct columns {
    char *alignment;
    int column_count;
    int next; /* column of the next cell */
    struct cell *cells;
    int cell_count, cell_capacity;
};

struct columns *columns_new(const char *alignment)
{
    struct columns *columns = memory_new(sizeof *columns);
    columns->alignment = text_copy(alignment);
    columns->column_count = (int)strlen(alignment);
    return columns;
}

void columns_free(struct columns *columns)
{
    for (int i = 0; i < columns->cell_count; i++)
        free(columns->cells[i].text);
    free(columns->cells);
    free(columns->alignment);
    free(columns);
}

void columns_add(struct columns *columns, const char *format, ...)
{
    va_list arguments;
    struct cell *cell = ARRAY_ADD(columns->cells, columns->cell_count, columns->cell_capacity);
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    cell->text = memory_new((size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(cell->text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    columns->next = (columns->next + 1) % columns->column_count;
}

void columns_add_rest(struct columns *columns, const char *text)
{
    struct cell *cell = ARRAY_ADD(columns->cells, columns->cell_count, columns->cell_capacity);
    *cell = (struct cell){text_copy(text), true};
    columns->next = 0;
}

int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void find_widths(const struct columns *columns, int *widths)
{
    int column = 0;
    for (int i = 0; i < columns->cell_count; i++) {
        const struct cell *cell = &columns->cells[i];
        int width = text_width(cell->text);
        if (!cell->rest && width > widths[column])
            widths[column] = width;
        column = cell->rest ? 0 : (column + 1) % columns->column_count;
    }
}

void columns_print(const struct columns *columns, int indent, FILE *out)
{
    int *widths = memory_new_array((size_t)columns->column_count, sizeof *widths);
    find_widths(columns, widths);
    int column = 0;
    int owed = indent; /* blanks to write before the next visible text */
    for (int i = 0; i < columns->cell_count; i++) {
        const struct cell *cell = &columns->cells[i];
        int padding = cell->rest ? 0 : widths[column] - text_width(cell->text);
        bool right = columns->alignment[column] == 'r';
        if (*cell->text) {
            fprintf(out, "%*s%s", owed + (right ? padding : 0), "", cell->text);
            owed = right ? 0 : padding;
        } else {
            owed += padding;
        }
        owed += !cell->rest && widths[column] > 0 ? 2 : 0;
        column = cell->rest ? 0 : (column + 1) % columns->column_count;
        if (column == 0) {
            fputc('\n', out);
            owed = indent;
        }
    }
    if (column != 0)
        fputc('\n', out);
    free(widths);
}
