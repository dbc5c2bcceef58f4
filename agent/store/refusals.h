/**
 * @file agent/store/refusals.h  What Redis refused a moment ago.
 *
 * Model:     a refusal holds for a counter and a cost, until `retry` is over or, since
 *            others may have given something back, REFUSALS_US_MAX: both from when it was
 *            asked for. As long, a charge of that cost or more is refused at once, with the
 *            same answer but for the time that passed since it was there. The newest
 *            refusal of a counter is the one that is remembered.
 *
 *            A counter is its name and the limit in force, by a keyed hash of both: with
 *            another limit (a plan, a change of rules) it is another one.
 * Ownership: refusals_new / refusals_free.
 * Threads:   one.
 * Errors:    refusals_new answers NULL when memory is short.
 * Limits:    REFUSALS_N in sets of REFUSALS_WAYS; in a full set the one goes that ends
 *            first. What is not remembered is asked for.
 */
#ifndef AGENT_STORE_REFUSALS_H
#define AGENT_STORE_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store/store.h"

enum {
    REFUSALS_N = 4096,
    REFUSALS_WAYS = 8,
    REFUSALS_SECRET_BYTES = 16,
};

#define REFUSALS_US_MAX (1 * US_PER_S)

struct refusals;

/** @param secret  REFUSALS_SECRET_BYTES random bytes, copied */
MUST_USE struct refusals *refusals_new(const uint8_t *secret);
void refusals_free(struct refusals *refusals);

/** Whether nothing is refused any more: costs nothing to find out. */
bool refusals_are_over(const struct refusals *refusals, struct instant now);

/**
 * Answer a charge, if it would be refused: by its name, limit and cost.
 *
 * @return whether it is refused; false: `answer` is as it was
 */
MUST_USE bool refusals_answer(const struct refusals *refusals,
                              struct store_charge *charge, struct instant now);

/**
 * Remember the answer of a charge that was refused.
 *
 * @param asked_at  not after the moment of which the answer tells
 * @param now       when it is there
 */
void refusals_remember(struct refusals *refusals, const struct store_charge *charge,
                       struct instant asked_at, struct instant now);

/** Forget all. */
void refusals_clear(struct refusals *refusals);

#endif
