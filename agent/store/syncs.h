/**
 * @file agent/store/syncs.h  Counters that are counted here and exchanged with Redis.
 *
 * Model:     a pool for each counter in use; a counter is its name and the limit as it
 *            stands. A pool holds what Redis had at the last exchange and what was charged
 *            here since; it decides on both together, on Redis' clock. Between exchanges
 *            this host spends at most what is left by what Redis had then, divided by the
 *            live hosts: at least one request, nothing while nothing is left. Where that part
 *            is spent and others' are not, who watches the pool is to exchange it early: of
 *            what is left then there is a part again.
 *
 *            An exchange brings to Redis what was charged since the one before, under a
 *            number, and takes home the whole. One that nobody heard of is sent again as it
 *            was: under its number Redis charges it once. A worker watches a pool while it is
 *            in use, and sends its exchanges; from one that is about to leave the next one
 *            takes over.
 *
 *            Until the first exchange of a pool Redis is asked itself: a host that starts, or
 *            a pool that was pushed out, lets no part of the limit pass again.
 *
 *            A pool that has wanted an exchange for SYNC_LOST_US in vain is cut off: the
 *            policies of its rules decide, and nothing is counted in it. So it is with one
 *            that no worker can watch.
 * Ownership: syncs_new / syncs_free.
 * Threads:   any. Pools are in a table (table.h), whose locks are held for the arithmetic.
 * Errors:    none: a charge that no pool can take is one for the policies.
 * Limits:    TABLE_ENTRIES pools, of which those watched are never pushed out. No allocation
 *            later.
 */
#ifndef AGENT_STORE_SYNCS_H
#define AGENT_STORE_SYNCS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store/table.h"

#define SYNC_LOST_US (1 * US_PER_S) /* without an exchange; at least ten intervals */
#define SYNC_IDLE_US (1 * US_PER_S) /* without a charge: watched no more */

enum {
    SYNC_EARLY_MAX = 10, /* exchanges in an interval, while its part is too small */
};

struct syncs;

enum sync_verdict {
    SYNC_ALLOWED = 0,
    SYNC_REFUSED,
    SYNC_UNKNOWN, /* cut off: policies decide */
    SYNC_UNHELD, /* not heard of, no pool, or nobody to watch it: Redis is to be asked */
};

/** Who charges, and when. */
struct sync_caller {
    struct instant now;
    unsigned n_agents; /* hosts that live */
    bool can_watch;    /* it could watch the pool */
};

/** What a charge leaves to do. */
struct sync_errand {
    bool is_alone; /* the caller is to watch the pool, which nobody does for long */
    uint32_t exchanger; /* this watcher is to exchange the pool early; 0: need not */
};

/** One exchange. */
struct sync_order {
    struct table_key key;
    uint32_t seq;
    int64_t delta;
};

/** What is known here of a counter. */
struct sync_held {
    bool is_there;   /* false: nothing, it was not used lately, or not heard of yet */
    bool is_cut_off; /* policies decide */
    int64_t remaining;
    int64_t unsent; /* charged here, and not known to be in Redis */
    int64_t age_us; /* of the last exchange */
};

struct sync_totals {
    uint64_t n_exchanges; /* of one pool each */
    uint64_t drift;       /* tokens that pools were off by, summed over exchanges */
    int64_t age_us;       /* of the oldest last exchange among pools in use */
};

/** @param interval_us  between exchanges of a pool. @return NULL when memory is short */
MUST_USE struct syncs *syncs_new(int64_t interval_us);

/** NULL is fine. */
void syncs_free(struct syncs *syncs);

int64_t syncs_interval_us(const struct syncs *syncs);

/** The pool of a charge: of its key (the counter's name) and its limit. */
struct table_key syncs_key(const struct syncs *syncs,
                           const struct store_charge *charge);

/**
 * Decide about a charge.
 *
 * @param charge  its answer is filled, where allowed or refused; charged where allowed
 */
MUST_USE enum sync_verdict syncs_charge(struct syncs *syncs,
                                        const struct table_key *key,
                                        const struct sync_caller *caller,
                                        struct store_charge *charge,
                                        struct sync_errand *errand);

/** Take back what was charged a moment ago. */
void syncs_give_back(struct syncs *syncs, const struct table_key *key,
                     const struct store_charge *charge, struct instant now);

/** Watch a pool from now on. @param watcher  a number of the caller's, other than 0
 *  @return false: another watches it, or it is gone */
MUST_USE bool syncs_watch(struct syncs *syncs, const struct table_key *key,
                          uint32_t watcher, struct instant now);

/**
 * How much a pool needs an exchange.
 *
 * @param age_us  set: of its last exchange
 * @return 0: not at all; else more than others the busier it was, and the older that is;
 *         more than all others where syncs_begin will tell that it is not to be watched
 */
uint64_t syncs_need(struct syncs *syncs, const struct table_key *key, uint32_t watcher,
                    struct instant now, int64_t *age_us);

/**
 * Begin an exchange of a pool, of which the watcher has none under way; one that nobody
 * heard of is begun again.
 *
 * @param is_leaving  watch it no longer than there is something to exchange, and let
 *                    another take over
 * @return false: it is not watched any more: it is idle, or left, or another took over
 */
MUST_USE bool syncs_begin(struct syncs *syncs, const struct table_key *key,
                          uint32_t watcher, bool is_leaving, struct instant now,
                          struct sync_order *order);

/** What Redis answered. */
struct sync_news {
    struct limit_state state; /* with all that was exchanged */
    struct instant server;    /* its clock then */
};

/** End an exchange that was answered. @param limit  of the pool */
void syncs_end(struct syncs *syncs, const struct sync_order *order,
               const struct limit *limit, const struct sync_news *news,
               struct instant now);

/** Look at a pool. Nothing of it changes. @param limit  of the pool */
struct sync_held syncs_look(struct syncs *syncs, const struct table_key *key,
                            const struct limit *limit, struct instant now);

/** Say how old the oldest last exchange is, of the pools that a worker watches. */
void syncs_set_age(struct syncs *syncs, unsigned worker, int64_t age_us);

/** @param totals  set; each is right for itself, as others go on meanwhile */
void syncs_read(const struct syncs *syncs, struct sync_totals *totals);

#endif
