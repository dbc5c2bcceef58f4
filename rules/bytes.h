/**
 * @file rules/bytes.h  Order of byte ranges.
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

#endif
