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
#include "agent/store/fallback.h"

enum {
    STORE_CHARGES_MAX = 16,
    STORE_LIMIT_ID_BYTES = 16,
    STORE_KEY_BYTES_MAX = 1024, /* as those of rules */
    STORE_NAME_BYTES_MAX = 896, /* of a counter: decide/key.h */
};

/** Where an answer comes from. */
enum store_source {
    STORE_COUNTED = 0, /* the counter */
    STORE_UNASKED,     /* nowhere: it is refused elsewhere; answered as if it passed */
    STORE_FALLBACK,    /* policy local: a bucket of this host */
    STORE_OPEN,        /* policy open: passes */
    STORE_CLOSED,      /* policy closed: refused */
};

/** Why policies decided. */
enum store_failure {
    STORE_NO_FAILURE = 0,
    STORE_DOWN,     /* nobody to ask */
    STORE_SLOW,     /* too slow to be asked, or too much under way */
    STORE_DEADLINE, /* asked, and no answer in time */
};

/** What a rule says for when its store does not answer. */
enum store_policy {
    STORE_POLICY_LOCAL = 0, /* this host's share of the limit, counted here */
    STORE_POLICY_OPEN,
    STORE_POLICY_CLOSED,
};

/** How hosts share a counter; its name and its state in Redis are the same. */
enum store_kind {
    STORE_KIND_REDIS = 0, /* asked about each charge */
    STORE_KIND_LEASE,     /* asked for blocks, which are spent here */
    STORE_KIND_SYNC,      /* counted here, and exchanged */
};

/** Of a limit that is not counted on this host alone. */
struct store_home {
    enum store_kind kind;
    unsigned n_shards; /* counters that share the limit, at least 1 */
    enum store_policy policy;
    int share; /* of policy local, in 1/FALLBACK_SHARE_WHOLE */
    struct fallback fallback;
    uint8_t fallback_id[STORE_LIMIT_ID_BYTES]; /* names its bucket: no limit's id */
};

struct store_charge {
    const struct limit *limit;
    const struct store_home *home; /* NULL: counted on this host */
    const char
        *name; /* with a home: of the counter, readable, the same on every host */
    size_t name_bytes;
    const uint8_t
        *limit_id;      /* STORE_LIMIT_ID_BYTES: names the limit in every process */
    const uint8_t *key; /* injective bytes; the counter is (limit_id, key) */
    size_t key_bytes;
    int64_t cost;
    bool is_lenient;
    bool is_shadow;     /* nobody waits for its answer */
    uint32_t count_idx; /* under which its outcome is counted, where that comes later */
    uint8_t tie;        /* of lenient ones: those of one number; 0: none */
    enum store_source source;   /* 0; a store that has policies says */
    bool is_charged;            /* out */
    uint64_t hash[2];           /* the store's own, where the take is prepared */
    int64_t place;              /* out, where charged: limit_place of the charge */
    struct limit_answer answer; /* out: after the charge where charged */
};

/** What was charged has been given back: answered as if it had not been. */
static inline void store_forget_charge(struct store_charge *charge)
{
    charge->is_charged = false;
    limit_forget(charge->limit, charge->cost, &charge->answer);
}

struct store_take;
typedef void store_done_fn(struct store_take *take);

struct store_take {
    struct instant now;
    struct instant
        deadline; /* when it is over, what is there by then decides; where that
                              * is not after `now`, take completes before it returns */
    unsigned n_charges;
    bool is_peek;
    bool is_prepared;           /* by store_prepare, since the charges were set */
    enum store_failure failure; /* 0; a store that has policies says */
    bool is_allowed;            /* out: no charge was refused but lenient ones */
    struct counters *counters;  /* of the calling thread */
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
    const struct store_home *home; /* likewise, as is name */
    const char *name;
    size_t name_bytes;
    struct limit_correction correction;
    struct instant now;
    struct counters *counters; /* of the calling thread */
};

struct store;

/** In receipts: where a charge is counted. The same in every process. */
enum store_letter {
    STORE_LETTER_LOCAL = 'l',
    STORE_LETTER_REDIS = 'r',
};

struct store_ops {
    const char *name;
    /* Fetch from memory what the take will touch; NULL: nothing of it is far. */
    void (*prepare)(struct store *store, struct store_take *take);
    void (*take)(struct store *store, struct store_take *take);
    void (*settle)(struct store *store, const struct store_settlement *settlement);
    /* Count no more in the counters of the takes so far; NULL: done by itself. */
    void (*leave)(struct store *store);
    /* Give back what is held; NULL: nothing is. @return whether nothing is under way */
    bool (*finish)(struct store *store);
    void (*free)(struct store *store);
};

/** First member of every store. */
struct store {
    const struct store_ops *ops;
};

/**
 * Say that a take will come, of these charges. Where something else is done before it does, it
 * finds what it needs at hand; it need not come.
 */
static inline void store_prepare(struct store *store, struct store_take *take)
{
    if (store->ops->prepare != NULL) {
        store->ops->prepare(store, take);
        take->is_prepared = true;
    }
}

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

/** Let go of the counters of the takes so far: they will be gone. */
static inline void store_leave(struct store *store)
{
    if (store->ops->leave != NULL) {
        store->ops->leave(store);
    }
}

/** No take follows: to be called again, with time between, until it answers true. */
MUST_USE static inline bool store_finish(struct store *store)
{
    return store->ops->finish == NULL || store->ops->finish(store);
}

/** Free a store that no thread uses any more. NULL is fine. */
static inline void store_free(struct store *store)
{
    if (store != NULL) {
        store->ops->free(store);
    }
}

#endif
