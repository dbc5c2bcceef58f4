/**
 * @file rules/unique.h  Find what a file says twice.
 *
 * Model:     sort, then compare neighbours: n log n for any file.
 * Ownership: nothing is kept; the items are reordered.
 * Threads:   no shared state.
 * Errors:    none; duplicates are handed to a function.
 */
#ifndef RULES_UNIQUE_H
#define RULES_UNIQUE_H

#include "rules/rules.h"

struct rules_unique_item {
    struct rules_bytes text;
    struct rules_mark mark;
};

typedef void rules_unique_fn(void *context, const struct rules_unique_item *first,
                             const struct rules_unique_item *again);

/** Call `found` for each item whose text another one, further up, has too. */
void rules_unique_check(struct rules_unique_item *items, size_t n,
                        rules_unique_fn *found, void *context);

#endif
