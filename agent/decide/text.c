#include "agent/decide/text.h"

#include "agent/base.h"

void text_add_int64(struct text *text, int64_t value)
{
    UNCLEARED char digits[20]; /* of INT64_MIN, with its sign */
    size_t at = sizeof(digits);
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    text_add_bytes(text, digits + at, sizeof(digits) - at);
}

void text_rewind(struct text *text, size_t len)
{
    text->len = len;
    text->is_cut = false;
}
