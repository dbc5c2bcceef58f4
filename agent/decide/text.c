#include "agent/decide/text.h"

#include "agent/base.h"

enum {
    TEXT_DIGITS_MAX = 20
}; /* of UINT64_MAX */

/* Two digits at a time: a division takes longer than all else here. */
static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

void text_add_int64(struct text *text, int64_t value)
{
    UNCLEARED char buf[1 + TEXT_DIGITS_MAX];
    char *const end = buf + sizeof(buf);
    char *at = end;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (; left >= 10; left /= 100) {
        const char *pair = pairs + left % 100 * 2;
        *--at = pair[1];
        *--at = pair[0];
    }
    if (left > 0 || at == end) {
        *--at = (char)('0' + left);
    }
    if (value < 0) {
        *--at = '-';
    }
    text_add_bytes(text, at, (size_t)(end - at));
}

void text_rewind(struct text *text, size_t len)
{
    text->len = len;
    text->is_cut = false;
}
