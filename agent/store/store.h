/**
 * @file agent/store/store.h  The contract of a store: where counts live.
 *
 * Model:     `take` gets the charges of one request and completes exactly once, at once
 *            or later, with an answer for each charge. All or nothing: when one charge is
 *            refused, nothing is charged. A lenient charge (in shadow, or one that only
 *            warns or degrades) refuses nobody: it is charged when all others are allowed
 *            and it is within its limit; where lenient charges are tied, as those of a rule
 *            in shadow are, when all that are tied are.
 *
 *            A take may be a peek: it answers what the same take would answer at this
 *            moment, beside it what the counters hold, and changes nothing: no counter is
 *            charged, made, pushed out or kept for its sake.
 *
 *            `settle` puts right what a take charged, once its true cost is known: giving
 *            back is settling to 0. Best effort: nobody waits for it, and what comes too
 *            late changes nothing. What nothing settles stays charged.
 * Ownership: a take and its charges belong to the caller and stay in place until `done`.
 *            Keys are views that may go when store_take returns: a store that completes
 *            later points them at bytes of its own, the same for the same key.
 * Threads:   a take is begun, completed and its `done` called on one thread. Whether
 *            threads may share a store is said by each store.
 * Errors:    none reaches the caller: what a store cannot answer is answered by policy.
 * Limits:    STORE_CHARGES_MAX charges, each of another counter.
 */
#ifndef AGENT_STORE_STORE_H
#define AGENT_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/clock.h"
#include "agent/limit/limit.h"
#include "agent/observe/counters.h"

enum {
    STORE_CHARGES_MAX = 16,
    STORE_LIMIT_ID_BYTES = 16,
};

struct store_charge {
    const struct limit *limit;
    const uint8_t
        *limit_id;      /* STORE_LIMIT_ID_BYTES: names the limit in every process */
    const uint8_t *key; /* injective bytes; the counter is (limit_id, key) */
    size_t key_bytes;
    int64_t cost;
    bool is_lenient;
    uint8_t tie;                /* of lenient ones: those of one number; 0: none */
    bool is_charged;            /* out */
    int64_t place;              /* out, where charged: limit_place of the charge */
    struct limit_answer answer; /* out: after the charge where charged */
};

struct store_take;
typedef void store_done_fn(struct store_take *take);

struct store_take {
    struct instant now;
    struct instant deadline; /* when it is over, what is there by then decides; where that
                              * is not after `now`, take completes before it returns */
    unsigned n_charges;
    bool is_peek;
    bool is_allowed;           /* out: no charge was refused but lenient ones */
    struct counters *counters; /* of the calling thread */
    store_done_fn *done;
    struct store_charge charges[STORE_CHARGES_MAX];
    /* Out, of a peek: the answers with remaining and reset as they are without it. */
    struct limit_answer held[STORE_CHARGES_MAX];
};

/** One charge of a take that came to pass, and what it should have been. */
struct store_settlement {
    const struct limit *limit;
    const uint8_t *limit_id; /* limit_id and key as the charge had them */
    const uint8_t *key;
    size_t key_bytes;
    struct limit_correction correction;
    struct instant now;
    struct counters *counters; /* of the calling thread */
};

struct store;

struct store_ops {
    const char *name;
    char letter; /* a to z: the same in every process, told apart in receipts */
    void (*take)(struct store *store, struct store_take *take);
    void (*settle)(struct store *store, const struct store_settlement *settlement);
    void (*free)(struct store *store);
};

/** First member of every store. */
struct store {
    const struct store_ops *ops;
};

static inline void store_take(struct store *store, struct store_take *take)
{
    store->ops->take(store, take);
}

/** Settle one charge; begun before this returns, so that nothing of it needs to stay. */
static inline void store_settle(struct store *store,
                                const struct store_settlement *settlement)
{
    store->ops->settle(store, settlement);
}

/** Free a store that no thread uses any more. NULL is fine. */
static inline void store_free(struct store *store)
{
    if (store != NULL) {
        store->ops->free(store);
    }
}

#endif
