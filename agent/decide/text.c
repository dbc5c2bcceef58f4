#include "agent/decide/text.h"

enum {
    TEXT_DIGITS_MAX = 20
}; /* of UINT64_MAX */

/* Two digits at a time: a division takes longer than all else here. */
static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

static unsigned count_digits(uint64_t number)
{
    unsigned n = 1;
    for (uint64_t power = 10; n < TEXT_DIGITS_MAX && number >= power; power *= 10) {
        n++;
    }
    return n;
}

void text_add_int64(struct text *text, int64_t value)
{
    bool is_negative = value < 0;
    uint64_t left = is_negative ? 0 - (uint64_t)value : (uint64_t)value;
    size_t n_digits = count_digits(left);
    size_t len = n_digits + is_negative;
    if (text->is_cut || len > text->cap - text->len) {
        text->is_cut = true;
        return;
    }
    text->len += len;
    char *at = text->buf + text->len;
    for (; left >= 10; left /= 100) {
        at -= 2;
        memcpy(at, pairs + left % 100 * 2, 2);
    }
    if (n_digits % 2 == 1) {
        *--at = (char)('0' + left);
    }
    if (is_negative) {
        *--at = '-';
    }
}

void text_rewind(struct text *text, size_t len)
{
    text->len = len;
    text->is_cut = false;
}
