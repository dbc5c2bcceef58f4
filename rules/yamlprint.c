#include "rules/yamlprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CAP_BYTES_MIN = 4096
};

/** Make room for more bytes and a NUL. */
static bool grow(struct yamlprint *print, size_t n_more)
{
    size_t need = print->len + n_more + 1;
    size_t cap = print->cap_bytes > 0 ? print->cap_bytes : CAP_BYTES_MIN;
    char *bytes;

    while (cap < need) {
        cap *= 2;
    }
    if (cap == print->cap_bytes) {
        return true;
    }
    bytes = realloc(print->bytes, cap);
    if (bytes == NULL) {
        print->is_short = true;
        return false;
    }
    print->bytes = bytes;
    print->cap_bytes = cap;
    return true;
}

static void add(struct yamlprint *print, const void *bytes, size_t len)
{
    if (!print->is_short && grow(print, len)) {
        memcpy(print->bytes + print->len, bytes, len);
        print->len += len;
        print->bytes[print->len] = '\0';
    }
}

void yamlprint_raw(struct yamlprint *print, const char *text)
{
    add(print, text, strlen(text));
}

/** Characters that mean nothing to YAML, wherever they stand in a value. */
static bool is_plain_character(uint8_t c, bool is_first)
{
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    bool is_digit = c >= '0' && c <= '9';

    return is_letter || is_digit || c == '/' || c == '_'
           || (!is_first && c != '\0' && strchr("-.+%*", c) != NULL);
}

/** These are words of the language where they are not quoted. */
static bool is_word(struct rules_bytes text)
{
    return (text.len == 7 && memcmp(text.ptr, "present", 7) == 0)
           || (text.len == 6 && memcmp(text.ptr, "absent", 6) == 0);
}

static bool is_plain(struct rules_bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is_plain_character(text.ptr[i], i == 0)) {
            return false;
        }
    }
    return text.len > 0 && !is_word(text);
}

/** Decode one character of well-formed UTF-8. @return its length */
static size_t character_read(const uint8_t *p, uint32_t *character)
{
    size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

    *character = n == 1 ? *p : *p & (0xffU >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        *character = *character << 6 | (p[i] & 0x3fU);
    }
    return n;
}

static void character_print(struct yamlprint *print, uint32_t character)
{
    char text[16];

    if (character == '"' || character == '\\') {
        (void)snprintf(text, sizeof text, "\\%c", (int)character);
    } else if (character >= 0x20 && character < 0x7f) {
        (void)snprintf(text, sizeof text, "%c", (int)character);
    } else if (character < 0x100) {
        (void)snprintf(text, sizeof text, "\\x%02" PRIx32, character);
    } else if (character < 0x10000) {
        (void)snprintf(text, sizeof text, "\\u%04" PRIx32, character);
    } else {
        (void)snprintf(text, sizeof text, "\\U%08" PRIx32, character);
    }
    yamlprint_raw(print, text);
}

void yamlprint_text(struct yamlprint *print, struct rules_bytes text)
{
    print->n_events++;
    if (is_plain(text)) {
        add(print, text.ptr, text.len);
        return;
    }
    add(print, "\"", 1);
    for (size_t i = 0; i < text.len;) {
        uint32_t character;

        i += character_read(text.ptr + i, &character);
        character_print(print, character);
    }
    add(print, "\"", 1);
}

void yamlprint_string(struct yamlprint *print, const char *text)
{
    yamlprint_text(print, (struct rules_bytes){(const uint8_t *)text, strlen(text)});
}

void yamlprint_number(struct yamlprint *print, int64_t number)
{
    char text[24];

    print->n_events++;
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    yamlprint_raw(print, text);
}

struct yamlflow yamlflow_begin(struct yamlprint *print, bool is_list)
{
    print->n_events += 2;
    yamlprint_raw(print, is_list ? "[" : "{");
    return (struct yamlflow){.print = print, .is_list = is_list};
}

void yamlflow_item(struct yamlflow *flow)
{
    if (flow->has_any) {
        yamlprint_raw(flow->print, ", ");
    } else if (!flow->is_list) {
        yamlprint_raw(flow->print, " ");
    }
    flow->has_any = true;
}

void yamlflow_key(struct yamlflow *flow, struct rules_bytes key)
{
    yamlflow_item(flow);
    yamlprint_text(flow->print, key);
    yamlprint_raw(flow->print, ": ");
}

void yamlflow_field(struct yamlflow *flow, const char *key)
{
    yamlflow_key(flow, (struct rules_bytes){(const uint8_t *)key, strlen(key)});
}

void yamlflow_end(struct yamlflow *flow)
{
    const char *end = flow->is_list ? "]" : flow->has_any ? " }" : "}";

    yamlprint_raw(flow->print, end);
}

void yamlflow_string(struct yamlflow *flow, const char *key, const char *text)
{
    yamlflow_field(flow, key);
    yamlprint_string(flow->print, text);
}

void yamlflow_number(struct yamlflow *flow, const char *key, int64_t number)
{
    yamlflow_field(flow, key);
    yamlprint_number(flow->print, number);
}
