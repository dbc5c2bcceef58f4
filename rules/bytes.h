/**
 * @file rules/bytes.h  Order and equality of byte ranges.
 */
#ifndef RULES_BYTES_H
#define RULES_BYTES_H

#include <string.h>

#include "rules/rules.h"

/** @return less than, equal to or more than 0; shorter ranges come first */
static inline int rules_bytes_compare(struct rules_bytes a, struct rules_bytes b)
{
    if (a.len != b.len) {
        return a.len < b.len ? -1 : 1;
    }
    return a.len == 0 ? 0 : memcmp(a.ptr, b.ptr, a.len);
}

/** 0 to 8 bytes as a number, by overlapping loads; one to one among equal lengths. */
static inline uint64_t rules_bytes_word(const uint8_t *p, size_t len)
{
    uint32_t head = 0;
    uint32_t tail = 0;

    if (len >= 4) {
        memcpy(&head, p, 4);
        memcpy(&tail, p + len - 4, 4);
        return (uint64_t)head << 32 | tail;
    }
    if (len == 0) {
        return 0;
    }
    return (uint64_t)p[0] << 16 | (uint64_t)p[len / 2] << 8 | p[len - 1];
}

/** Whether two ranges are the same. Names and segments are short: without a call. */
static inline bool rules_bytes_equal(struct rules_bytes a, struct rules_bytes b)
{
    if (a.len != b.len) {
        return false;
    }
    if (a.len <= 8) {
        return rules_bytes_word(a.ptr, a.len) == rules_bytes_word(b.ptr, b.len);
    }
    return memcmp(a.ptr, b.ptr, a.len) == 0;
}

#endif
