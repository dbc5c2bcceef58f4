/**
 * @file agent/store/leases.h  Tokens leased from Redis in blocks, spent by all workers.
 *
 * Model:     a pool for each counter that is in use; a counter is its name and the limit as
 *            it stands (of a plan, with an exception). A lease is a block of tokens that
 *            Redis has charged to the counter before the first of them is spent. It is
 *            spent until LEASE_SPEND_PERCENT of its time are over, counted from before it
 *            was asked for; of a fixed window not beyond its end. Then it is reported: what
 *            was spent stays charged, the rest is given back. What Redis hears nothing of by
 *            the lease's end it takes back whole.
 *
 *            A block is what the pool was asked for in the last `horizon`, at most this
 *            host's part of `share` of the limit; a pool of half a block wants to be topped
 *            up to one. Who spends is told so, by an order that it is to send: one at a
 *            time for a pool. An order also carries the reports that are due. One of those
 *            who sent orders watches the pool while anything of it is out; from one who is
 *            about to leave the next one takes over.
 * Ownership: leases_new / leases_free.
 * Threads:   any. Pools are in a table (table.h), whose locks are held for the arithmetic and
 *            nothing else.
 * Errors:    none: a charge that no lease covers is not spent, and asked of Redis.
 * Limits:    TABLE_ENTRIES pools, of which those that hold tokens are never pushed out;
 *            LEASES_PER_POOL leases of each. No allocation later.
 */
#ifndef AGENT_STORE_LEASES_H
#define AGENT_STORE_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/store/table.h"

enum {
    LEASES_PER_POOL = 4,
    LEASES_REPORTS_MAX = LEASES_PER_POOL,
    LEASE_BLOCK_MIN = 2,      /* below, a charge is asked of Redis by itself */
    LEASE_SPEND_PERCENT = 80, /* of the time of a lease */
};

#define LEASE_PAUSE_US (50 * US_PER_MS) /* after a block or a report that failed */

struct leases;

struct leases_options {
    int share; /* of the limit that may be out on lease, in 1/FALLBACK_SHARE_WHOLE */
    int64_t horizon_us;
    int64_t ttl_us; /* from when Redis gave a lease to its end */
};

/** What is to be sent to Redis for a pool, and be told of by leases_end_order. */
struct lease_order {
    struct table_key key;
    int64_t want;     /* tokens; 0: reports only */
    int64_t cap;      /* most that may be out on lease to the whole fleet */
    unsigned divisor; /* of what the counter has left */
    uint32_t seq;     /* of the lease wanted */
    unsigned n_reports;
    struct lease_report {
        uint32_t seq;
        int64_t spent;
    } reports[LEASES_REPORTS_MAX];
};

enum lease_end {
    LEASE_ANSWERED = 0,
    LEASE_NOT_DONE, /* Redis has not done it */
    LEASE_UNHEARD,  /* nobody knows */
};

/** How an order ended. */
struct lease_answer {
    enum lease_end end;
    /* where answered: */
    struct instant sent_at; /* of the call */
    int64_t amount;         /* of the lease; 0: none */
    int64_t place;          /* limit_place of its charge */
    int64_t remaining;
    int64_t reset_us;
    int64_t window_end_us;
    unsigned accepted; /* bit i: report i; the others came too late */
};

/** All pools together, in tokens. */
struct leases_totals {
    uint64_t n_granted;
    uint64_t n_spent;    /* of leases that were reported */
    uint64_t n_stranded; /* of leases that ended unreported */
    uint64_t n_out;      /* of leases that have not ended */
};

/** What a pool has to spend. */
struct lease_held {
    int64_t left;     /* tokens */
    int64_t most;     /* that one charge can have of them */
    int64_t spend_us; /* until the last of them go back */
};

/** @return NULL when memory is short */
MUST_USE struct leases *leases_new(const struct leases_options *options);

/** NULL is fine. */
void leases_free(struct leases *leases);

/** Whether a limit is one of which blocks may be leased, on one of `n_agents` hosts. */
bool leases_cover(const struct leases *leases, const struct limit *limit,
                  unsigned n_agents);

/** The pool of a charge: of its key (the counter's name) and its limit. */
struct table_key leases_key(const struct leases *leases,
                            const struct store_charge *charge);

/**
 * Spend the cost of a charge from a lease.
 *
 * @param charge  where spent: charged, with its place and the answer
 * @param seq     where spent: of the lease, for leases_give_back
 * @param order   has the key of the pool; where its want is not 0 afterwards: to be sent,
 *                whether or not the charge was spent
 * @return whether it was
 */
MUST_USE bool leases_spend(struct leases *leases, unsigned n_agents, struct instant now,
                           struct store_charge *charge, uint32_t *seq,
                           struct lease_order *order);

/** Put back what was spent a moment ago. @return false: that lease has been reported */
MUST_USE bool leases_give_back(struct leases *leases, const struct table_key *key,
                               uint32_t seq, int64_t cost);

/**
 * Say how an order ended.
 *
 * @param limit    of the pool
 * @param watcher  a number of the caller's, other than 0, where it could look after the pool
 * @return when the caller is to call leases_retire; 0: need not, it is no watcher
 */
struct instant leases_end_order(struct leases *leases, const struct lease_order *order,
                                const struct limit *limit,
                                const struct lease_answer *answer, struct instant now,
                                uint32_t watcher);

/**
 * Spend no more from those leases of a pool whose time is over.
 *
 * @param is_all   from none of its leases, and let another watch it: the caller leaves
 * @param watcher  as above; nothing is done where that is another one by now
 * @param order    the reports due, if any, with no want; then leases_end_order says more
 * @return when to call again, where there is no report; 0: need not
 */
struct instant leases_retire(struct leases *leases, const struct table_key *key,
                             bool is_all, struct instant now, uint32_t watcher,
                             struct lease_order *order);

/** Look at a pool. Nothing of it changes. */
struct lease_held leases_look(struct leases *leases, const struct table_key *key,
                              struct instant now);

/** For how long Redis keeps what it gave, in ms. */
unsigned leases_ttl_ms(const struct leases *leases);

/** @param totals  set; each is right for itself, as others go on meanwhile */
void leases_read(const struct leases *leases, struct leases_totals *totals);

#endif
