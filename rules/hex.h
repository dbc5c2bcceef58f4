/**
 * @file rules/hex.h  Hexadecimal digits, without a locale.
 */
#ifndef RULES_HEX_H
#define RULES_HEX_H

#include <stdint.h>

/** @return 0 to 15, or -1 when `c` is no hexadecimal digit */
static inline int rules_hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
