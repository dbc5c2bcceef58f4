#include "rules/diag.h"

#include <stdbool.h>
#include <string.h>

enum {
    MESSAGE_BYTES_MAX = 1024
};

void rules_diags_init(struct rules_diags *diags, const char *file)
{
    *diags = (struct rules_diags){.file = file};
}

static bool is_printable(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x7f;
}

static void text_set(char out[RULES_DIAG_TEXT_BYTES_MAX], const char *message)
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;

    for (const char *p = message; *p != '\0' && n + 5 <= RULES_DIAG_TEXT_BYTES_MAX;
         p++) {
        uint8_t byte = (uint8_t)*p;

        if (is_printable(byte)) {
            out[n++] = *p;
            continue;
        }
        out[n++] = '\\';
        out[n++] = 'x';
        out[n++] = hex[byte >> 4];
        out[n++] = hex[byte & 15];
    }
    out[n] = '\0';
}

/** The YAML line breaks, so that lines are counted as the reader counts them. */
static size_t break_len(const uint8_t *p, size_t len)
{
    if (len >= 2 && p[0] == '\r' && p[1] == '\n') {
        return 2;
    }
    if (p[0] == '\n' || p[0] == '\r') {
        return 1;
    }
    if (len >= 2 && p[0] == 0xc2 && p[1] == 0x85) {
        return 2;
    }
    if (len >= 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9)) {
        return 3;
    }
    return 0;
}

static size_t line_find(const uint8_t *source, size_t len, uint32_t line)
{
    size_t off = 0;
    uint32_t at = 1;

    while (at < line && off < len) {
        size_t n = break_len(source + off, len - off);

        off += n > 0 ? n : 1;
        at += n > 0;
    }
    return off;
}

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/** A mark that lies in the text: libyaml puts the end of a file without a last newline on
 * a line of its own, where people would look in vain. */
static struct rules_mark mark_within(struct rules_mark mark, const uint8_t *source,
                                     size_t len)
{
    struct rules_mark end = {.line = 1, .column = 1, .file = mark.file};
    size_t off = 0;

    while (off < len && end.line < mark.line) {
        size_t n = break_len(source + off, len - off);

        if (n > 0) {
            end.line++;
            end.column = 1;
        } else {
            end.column += !is_continuation(source[off]);
        }
        off += n > 0 ? n : 1;
    }
    return mark.line > end.line ? end : mark;
}

static char character_show(uint8_t byte)
{
    if (byte == '\t') {
        return ' ';
    }
    return (char)(is_printable(byte) ? byte : '?');
}

/** Show at most a window of the line that begins at `off`, so that the column is always
 * inside it. */
static void source_set(struct rules_diag *diag, const uint8_t *source, size_t len,
                       size_t off)
{
    uint32_t column = diag->mark.column > 0 ? diag->mark.column - 1 : 0;
    uint32_t skip = column >= 120 ? column - 80 : 0;
    uint32_t at = 0; /* characters of the line seen */
    size_t n = 0;

    for (; off < len && break_len(source + off, len - off) == 0; off++) {
        if (is_continuation(source[off])) {
            continue;
        }
        if (at++ < skip) {
            continue;
        }
        if (n + 1 == RULES_DIAG_LINE_BYTES_MAX) {
            break;
        }
        diag->source[n++] = character_show(source[off]);
    }
    diag->source[n] = '\0';
    diag->caret_off = column - skip <= n ? column - skip : (uint32_t)n;
}

/** Checks find things in their own order; people read from top to bottom. */
static struct rules_diag *diag_insert(struct rules_diags *diags, struct rules_mark mark)
{
    uint32_t i = diags->n_kept++;

    for (; i > 0 && rules_mark_compare(mark, diags->kept[i - 1].mark) < 0; i--) {
        diags->kept[i] = diags->kept[i - 1];
    }
    return &diags->kept[i];
}

/* The end of a long name says more than its beginning. */
static void file_set(struct rules_diag *diag, const char *name)
{
    size_t len = strlen(name);
    size_t skip = len < RULES_DIAG_NAME_BYTES_MAX ? 0
                                                  : len + 1 - RULES_DIAG_NAME_BYTES_MAX;

    (void)snprintf(diag->file, sizeof diag->file, "%s", name + skip);
}

/** Count a diagnostic, and keep it. @return where; NULL: there are too many */
static struct rules_diag *diag_add(struct rules_diags *diags,
                                   enum rules_severity severity, struct rules_mark mark,
                                   const struct rules_text *text, const char *code,
                                   const char *format, va_list args)
    __attribute__((format(printf, 6, 0)));

/* NOLINTNEXTLINE(readability-function-size): a diagnostic has this many parts */
static struct rules_diag *diag_add(struct rules_diags *diags,
                                   enum rules_severity severity, struct rules_mark mark,
                                   const struct rules_text *text, const char *code,
                                   const char *format, va_list args)
{
    char message[MESSAGE_BYTES_MAX];
    struct rules_diag *diag;

    if (severity == RULES_ERROR) {
        diags->n_errors++;
    } else {
        diags->n_warnings++;
    }
    if (diags->n_kept == RULES_DIAGS_MAX) {
        return NULL;
    }
    diag = diag_insert(diags, mark);
    *diag = (struct rules_diag){.severity = severity, .mark = mark, .code = code};
    if (text != NULL && text->name != NULL) {
        file_set(diag, text->name);
    }
    if (vsnprintf(message, sizeof message, format, args) < 0) {
        message[0] = '\0';
    }
    text_set(diag->text, message);
    return diag;
}

/* NOLINTNEXTLINE(readability-function-size): a diagnostic has this many parts */
void rules_diags_vadd(struct rules_diags *diags, enum rules_severity severity,
                      struct rules_mark mark, const struct rules_text *text,
                      const char *code, const char *format, va_list args)
{
    const uint8_t *source = text != NULL ? (const uint8_t *)text->bytes : NULL;
    struct rules_diag *diag;

    if (source != NULL && diags->n_kept < RULES_DIAGS_MAX) {
        mark = mark_within(mark, source, text->len);
    }
    diag = diag_add(diags, severity, mark, text, code, format, args);
    if (diag != NULL && source != NULL && mark.line > 0) {
        source_set(diag, source, text->len, line_find(source, text->len, mark.line));
    }
}

/* NOLINTNEXTLINE(readability-function-size): a diagnostic has this many parts */
void rules_diags_add(struct rules_diags *diags, enum rules_severity severity,
                     struct rules_mark mark, const struct rules_text *text,
                     const char *code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rules_diags_vadd(diags, severity, mark, text, code, format, args);
    va_end(args);
}

/* NOLINTNEXTLINE(readability-function-size): a diagnostic has this many parts */
void rules_diags_add_line(struct rules_diags *diags, enum rules_severity severity,
                          struct rules_mark mark, const struct rules_text *line,
                          const char *code, const char *format, ...)
{
    struct rules_diag *diag;
    va_list args;

    va_start(args, format);
    diag = diag_add(diags, severity, mark, line, code, format, args);
    va_end(args);
    if (diag != NULL) {
        source_set(diag, (const uint8_t *)line->bytes, line->len, 0);
    }
}

const char *rules_diag_file(const struct rules_diags *diags,
                            const struct rules_diag *diag)
{
    return diag->file[0] != '\0' ? diag->file : diags->file;
}

/* A stream that cannot be written keeps its own error flag; nothing to add here. */
static void diag_print(const char *file, const struct rules_diag *diag, FILE *out)
{
    const char *severity = diag->severity == RULES_ERROR ? "error" : "warning";

    if (diag->mark.line == 0) {
        (void)fprintf(out, "%s: %s: %s [%s]\n", file, severity, diag->text, diag->code);
        return;
    }
    (void)fprintf(out, "%s:%u:%u: %s: %s [%s]\n", file, diag->mark.line,
                  diag->mark.column, severity, diag->text, diag->code);
    if (diag->source[0] != '\0') {
        (void)fprintf(out, "    %s\n    %*s^\n", diag->source, (int)diag->caret_off,
                      "");
    }
}

void rules_diags_print(const struct rules_diags *diags, FILE *out)
{
    uint32_t n_more = diags->n_errors + diags->n_warnings - diags->n_kept;

    for (uint32_t i = 0; i < diags->n_kept; i++) {
        diag_print(rules_diag_file(diags, &diags->kept[i]), &diags->kept[i], out);
    }
    if (n_more > 0) {
        (void)fprintf(out, "%s: %u more not shown\n", diags->file, n_more);
    }
}
