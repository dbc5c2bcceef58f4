/**
 * @file agent/decide/text.h  Build short texts in a buffer of fixed size.
 *
 * Model:     append; what does not fit marks the text as cut and is not written, so a
 *            caller can go back to a length it noted (text_rewind).
 * Ownership: borrows the buffer.
 * Threads:   no shared state.
 * Errors:    is_cut.
 */
#ifndef AGENT_DECIDE_TEXT_H
#define AGENT_DECIDE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    char *buf;
    size_t cap;
    size_t len;
    bool is_cut;
};

static inline struct text text_in(char *buf, size_t cap)
{
    return (struct text){.buf = buf, .cap = cap};
}

static inline void text_add_bytes(struct text *text, const char *bytes, size_t len)
{
    if (text->is_cut || len > text->cap - text->len) {
        text->is_cut = true;
        return;
    }
    memcpy(text->buf + text->len, bytes, len);
    text->len += len;
}

/** Append a NUL-terminated string, without its NUL. */
static inline void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_add_int64(struct text *text, int64_t value);

/** Back to a length noted before, as if what followed had never been appended. */
void text_rewind(struct text *text, size_t len);

#endif
