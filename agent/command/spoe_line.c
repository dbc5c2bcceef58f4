#include "agent/command/spoe_line.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES_MAX = 128 /* of an environment variable */
};

struct splitter {
    struct spoe_line *line;
    const char *text;
    size_t len;
    size_t off;
    size_t n_bytes; /* of line->bytes in use */
    char quote;     /* the one that is open; 0: none */
    size_t quote_off;
    bool is_in_word;
};

/* In characters, from 1. */
static uint32_t column_of(const struct splitter *s, size_t off)
{
    uint32_t column = 1;
    for (size_t i = 0; i < off; i++) {
        column += ((unsigned char)s->text[i] & 0xc0) != 0x80;
    }
    return column;
}

static void fail(struct splitter *s, size_t off, const char *fault)
{
    if (s->line->fault == NULL) {
        s->line->fault = fault;
        s->line->fault_column = column_of(s, off);
    }
}

static char peek(const struct splitter *s, size_t ahead)
{
    return (char)(s->off + ahead < s->len ? s->text[s->off + ahead] : '\0');
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

static void put(struct splitter *s, char c)
{
    if (s->n_bytes == sizeof(s->line->bytes)) {
        fail(s, s->off, "the line is too long");
        return;
    }
    s->line->bytes[s->n_bytes++] = c;
}

static void begin_word(struct splitter *s)
{
    struct spoe_line *line = s->line;
    if (s->is_in_word) {
        return;
    }
    if (line->n_words == SPOE_WORDS_MAX) {
        fail(s, s->off, "the line has more than 64 words");
        return;
    }
    line->words[line->n_words++] = (struct spoe_word){line->bytes + s->n_bytes,
                                                      column_of(s, s->off)};
    s->is_in_word = true;
}

static void end_word(struct splitter *s)
{
    if (s->is_in_word) {
        put(s, '\0');
    }
    s->is_in_word = false;
}

static int hex_value(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void take_hex(struct splitter *s)
{
    int high = hex_value(peek(s, 2));
    int low = hex_value(peek(s, 3));
    if (high < 0 || low < 0) {
        fail(s, s->off, "\\x needs two hexadecimal digits");
        return;
    }
    put(s, (char)(high << 4 | low));
    s->off += 4;
}

/* What is no escape sequence stays as it is, backslash and all. */
static void take_backslash(struct splitter *s)
{
    static const char plain[] = " \\#'\"";
    static const char named[] = "tnr";
    static const char named_values[] = "\t\n\r";
    char next = peek(s, 1);
    const char *name = next != '\0' ? strchr(named, next) : NULL;
    size_t n_taken = 2;
    if (next == 'x') {
        take_hex(s);
        return;
    }
    if (name != NULL) {
        put(s, named_values[name - named]);
    } else if (next != '\0'
               && (strchr(plain, next) != NULL || (next == '$' && s->quote == '"'))) {
        put(s, next);
    } else {
        put(s, '\\');
        n_taken = 1;
    }
    s->off += n_taken;
}

static void put_value(struct splitter *s, const char *value, size_t len, bool is_split)
{
    for (size_t i = 0; i < len && s->line->fault == NULL; i++) {
        if (is_split && is_space(value[i])) {
            end_word(s);
        } else {
            begin_word(s);
            put(s, value[i]);
        }
    }
}

/* The name of a variable. @return false: it is none */
static bool take_name(struct splitter *s, char name[NAME_BYTES_MAX])
{
    size_t n = 0;
    if (!is_name_start(peek(s, 0))) {
        fail(s, s->off, "a variable's name has to begin with a letter or _");
        return false;
    }
    do {
        if (n + 1 == NAME_BYTES_MAX) {
            fail(s, s->off, "the name of the variable is too long");
            return false;
        }
        name[n++] = peek(s, 0);
        s->off++;
    } while ((is_name_start(peek(s, 0)) && peek(s, 0) != '.') || is_digit(peek(s, 0)));
    name[n] = '\0';
    return true;
}

/* "$NAME", "${NAME}", "${NAME-default}", "${NAME[*]}" */
static void take_variable(struct splitter *s)
{
    char name[NAME_BYTES_MAX];
    size_t start = s->off;
    bool is_braced = peek(s, 1) == '{';
    bool is_split = false;
    s->off += is_braced ? 2 : 1;
    if (!take_name(s, name)) {
        return;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet */
    const char *value = getenv(name);
    size_t len = value != NULL ? strlen(value) : 0;
    if (!is_braced) {
        put_value(s, value, len, false);
        return;
    }
    if (s->len - s->off >= 3 && memcmp(s->text + s->off, "[*]", 3) == 0) {
        is_split = true;
        s->off += 3;
    }
    const char *rest = s->text + s->off;
    const char *brace = memchr(rest, '}', s->len - s->off);
    if (brace == NULL || (*rest != '-' && brace != rest)) {
        fail(s, start, "the brace of this variable is not closed");
        return;
    }
    if (value == NULL && *rest == '-') {
        value = rest + 1;
        len = (size_t)(brace - value);
    }
    s->off += (size_t)(brace - rest) + 1;
    put_value(s, value, len, is_split);
}

static void take_quote(struct splitter *s, char quote)
{
    begin_word(s);
    s->quote = (char)(s->quote == 0 ? quote : 0);
    s->quote_off = s->off++;
}

static void take(struct splitter *s)
{
    char c = peek(s, 0);
    if ((c == '"' || c == '\'') && (s->quote == 0 || s->quote == c)) {
        take_quote(s, c);
    } else if (s->quote == 0 && is_space(c)) {
        end_word(s);
        s->off++;
    } else if (s->quote != '\'' && c == '\\') {
        begin_word(s);
        take_backslash(s);
    } else if (s->quote == '"' && c == '$') {
        take_variable(s);
    } else {
        begin_word(s);
        put(s, c);
        s->off++;
    }
}

bool spoe_line_split(struct spoe_line *line, const char *text, size_t len)
{
    struct splitter s = {.line = line, .text = text, .len = len};
    line->n_words = 0;
    line->fault = NULL;
    while (s.off < s.len && line->fault == NULL) {
        if (peek(&s, 0) == '\r' || (peek(&s, 0) == '#' && s.quote == 0)) {
            break;
        }
        take(&s);
    }
    end_word(&s);
    if (s.quote != 0) {
        fail(&s, s.quote_off, "this quote is not closed");
    }
    return line->fault == NULL;
}
