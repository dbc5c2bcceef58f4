/**
 * @file agent/store/refusals.h  What Redis refused a moment ago.
 *
 * Model:     a refusal holds for a counter and a cost, until its `retry` is over or, since
 *            others may have given something back, REFUSALS_US_MAX. As long, a charge of that
 *            cost or more is refused at once, with the same answer less the time gone. The
 *            newest refusal of a counter is the one that is remembered.
 *
 *            For as long again the counter is in doubt: many may want to know whether it still
 *            refuses, and one of them can ask for all. Who that is is kept here, too.
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

/** Which counter it is: 128 bits of a keyed hash. */
struct refusals_counter {
    uint64_t lo;
    uint64_t hi;
};

/** @param secret  REFUSALS_SECRET_BYTES random bytes, copied */
MUST_USE struct refusals *refusals_new(const uint8_t *secret);
void refusals_free(struct refusals *refusals);

/** The counter of a charge: of its limit, and its key, which is its name in Redis. */
struct refusals_counter refusals_counter(const struct refusals *refusals,
                                         const struct store_charge *charge);

/** Whether no counter is refused or in doubt any more: costs nothing to find out. */
bool refusals_are_over(const struct refusals *refusals, struct instant now);

/**
 * Answer a charge, if it would be refused: by its limit, its key, which is its name in
 * Redis, and its cost.
 *
 * @param doubt  out, where it is not: which doubt its counter is in; REFUSALS_N: in none
 * @return whether it is refused; false: `answer` is as it was
 */
MUST_USE bool refusals_answer(const struct refusals *refusals,
                              struct store_charge *charge, struct instant now,
                              unsigned *doubt);

/** Remember the answer of a charge that was refused, as that of a moment. */
void refusals_remember(struct refusals *refusals, const struct store_charge *charge,
                       struct instant at);

/** Who asks for the counter in a doubt; NULL: nobody, or the doubt is over. */
void *refusals_asker(const struct refusals *refusals, unsigned doubt);
void refusals_set_asker(struct refusals *refusals, unsigned doubt, void *asker);

/** Forget all. */
void refusals_clear(struct refusals *refusals);

#endif
