/**
 * @file rules/diag.h  What people are told about a file: place, code, text.
 *
 * Model:     a bounded list, filled by readers and checkers, printed where the user is.
 * Ownership: the list owns copies of all texts; init / fini.
 * Threads:   one list, one thread.
 * Errors:    none; beyond RULES_DIAGS_MAX diagnostics are only counted.
 * Limits:    the named constants below; longer texts and lines are cut.
 */
#ifndef RULES_DIAG_H
#define RULES_DIAG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    RULES_DIAGS_MAX = 64,
    RULES_DIAG_TEXT_BYTES_MAX = 256,
    RULES_DIAG_LINE_BYTES_MAX = 160, /* of the source line shown */
    RULES_DIAG_NAME_BYTES_MAX = 256, /* of an included file; the end of a longer one */
};

enum rules_severity {
    RULES_ERROR = 0,
    RULES_WARNING,
};

/** Where in a file: both from 1, columns in characters. Line 0 is the file as a whole. */
struct rules_mark {
    uint32_t line;
    uint32_t column;
    uint32_t file; /* 0: the main one; then those it includes, in their order */
};

/** The text of a file that marks point into. */
struct rules_text {
    const char *name;  /* NULL: the one given to rules_diags_init */
    const char *bytes; /* NULL: the line is not shown */
    size_t len;
};

struct rules_diag {
    enum rules_severity severity;
    struct rules_mark mark;
    const char *code;                     /* stable: listed in rules/README.md */
    char file[RULES_DIAG_NAME_BYTES_MAX]; /* empty: the main one */
    char text[RULES_DIAG_TEXT_BYTES_MAX];
    /* The line, or the part of it around the column; ? for what is not printable. */
    char source[RULES_DIAG_LINE_BYTES_MAX];
    uint32_t caret_off; /* where in `source` the column is */
};

struct rules_diags {
    const char *file; /* borrowed from the caller of init */
    uint32_t n_errors;
    uint32_t n_warnings;
    uint32_t n_kept;
    struct rules_diag kept[RULES_DIAGS_MAX]; /* by file, line and column */
};

void rules_diags_init(struct rules_diags *diags, const char *file);

/**
 * Add one diagnostic.
 *
 * @param text    what `mark` points into; NULL: of the main file, no line is shown
 * @param code    kept as a pointer: a literal, or a constant of code.h
 * @param format  printf-like; bytes outside printable ASCII are shown as \xNN
 */
void rules_diags_add(struct rules_diags *diags, enum rules_severity severity,
                     struct rules_mark mark, const struct rules_text *text,
                     const char *code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/** The same for a function that itself takes a format. */
void rules_diags_vadd(struct rules_diags *diags, enum rules_severity severity,
                      struct rules_mark mark, const struct rules_text *text,
                      const char *code, const char *format, va_list args)
    __attribute__((format(printf, 6, 0)));

/** The same for a text that is no YAML: `mark` is told as it is, `line` holds that line. */
void rules_diags_add_line(struct rules_diags *diags, enum rules_severity severity,
                          struct rules_mark mark, const struct rules_text *line,
                          const char *code, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/** @return the name of the file that a diagnostic is about */
const char *rules_diag_file(const struct rules_diags *diags,
                            const struct rules_diag *diag);

/** @return less than, equal to or more than 0: files in their order, from top to bottom */
static inline int rules_mark_compare(struct rules_mark a, struct rules_mark b)
{
    if (a.file != b.file) {
        return a.file < b.file ? -1 : 1;
    }
    if (a.line != b.line) {
        return a.line < b.line ? -1 : 1;
    }
    return (a.column > b.column) - (a.column < b.column);
}

/** Print all as file:line:column: error: text [code], each with its line and a caret. */
void rules_diags_print(const struct rules_diags *diags, FILE *out);

#endif
