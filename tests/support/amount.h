/**
 * @file tests/support/amount.h  Costs to try a limit with.
 */
#ifndef TESTS_SUPPORT_AMOUNT_H
#define TESTS_SUPPORT_AMOUNT_H

#include "agent/limit/limit.h"

#include "tests/support/prng.h"

/** A cost around what matters to a limit: mostly some of its size. */
static inline int64_t amount_draw(struct prng *prng, const struct limit *limit)
{
    uint64_t size = (uint64_t)(limit->size < LIMIT_AMOUNT_MAX ? limit->size
                                                              : LIMIT_AMOUNT_MAX);
    switch (prng_below(prng, 8)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)prng_below(prng, size + 1);
    case 2:
        return (int64_t)(size < LIMIT_AMOUNT_MAX ? size + 1 : size);
    case 3:
        return (int64_t)size;
    default:
        return 1 + (int64_t)prng_below(prng, size / 8 + 1);
    }
}

#endif
