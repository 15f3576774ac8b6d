/* Tables of text: cells are added row by row, widths are found when it is printed. */
#ifndef REHEARSE_REPORT_COLUMNS_H
#define REHEARSE_REPORT_COLUMNS_H

#include <stdio.h>

struct columns;

/* One letter a column: 'l' left or 'r' right aligned. */
struct columns *columns_new(const char *alignment);
void columns_free(struct columns *columns);
/* The next cell of the row; after the last column a new row begins. Text is UTF-8 on one line. */
void columns_add(struct columns *columns, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A text over all columns that are left of the row; it widens none of them. */
void columns_add_rest(struct columns *columns, const char *text);
/* Each line begins with `indent` blanks and ends without any. */
void columns_print(const struct columns *columns, int indent, FILE *out);

/* Characters of a UTF-8 text, each taken as one column wide. */
int text_width(const char *text);

#endif
