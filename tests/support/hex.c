#include "tests/support/hex.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static unsigned digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, c) : NULL;
    if (!found) {
        abort();
    }
    return (unsigned)(found - digits);
}

static void byte_append(uint8_t *buf, size_t cap, size_t *len, unsigned byte)
{
    if (*len == cap) {
        abort();
    }
    buf[(*len)++] = (uint8_t)byte;
}

size_t hex_decode(const char *text, uint8_t *buf, size_t cap)
{
    size_t len = 0;
    bool is_quoted = false;
    for (const char *c = text; *c; c++) {
        if (*c == '"') {
            is_quoted = !is_quoted;
        } else if (is_quoted) {
            byte_append(buf, cap, &len, (unsigned char)*c);
        } else if (!strchr(" \t\r\n", *c)) {
            unsigned high = digit_of(c[0]);
            byte_append(buf, cap, &len, high << 4 | digit_of(c[1]));
            c++;
        }
    }
    return len;
}
