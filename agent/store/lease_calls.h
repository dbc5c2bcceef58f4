/**
 * @file agent/store/lease_calls.h  A worker's side of leases: it spends, orders and reports.
 *
 * Model:     takes spend from the pools (leases.h) that all workers share; what these want is
 *            ordered from Redis (courier.h). A pool that this worker watches is looked after
 *            in time: what is over is reported.
 * Ownership: lease_calls_new / lease_calls_free. Borrows all of its options. The seam goes
 *            first: what is under way then ends, which is heard here.
 * Threads:   one for each worker, on whose thread its seam lives.
 * Errors:    none is told: an order that comes to nothing is a pool that stays as it is.
 * Limits:    NOTEBOOK_NOTES pools with orders, or watched. No allocation after
 *            lease_calls_new.
 */
#ifndef AGENT_STORE_LEASE_CALLS_H
#define AGENT_STORE_LEASE_CALLS_H

#include "agent/store/health.h"
#include "agent/store/leases.h"
#include "agent/store/seam.h"

enum {
    LEASE_CALLS_STEP = 128, /* pools looked after in a step, where more are due */
};

#define LEASE_CALLS_STEP_US  US_PER_MS
#define LEASE_CALLS_SWEEP_US (50 * US_PER_MS) /* how often pools are looked after */

/* A lease that comes late still saves calls of a node that is too slow for them. */
#define LEASE_CALLS_LIMIT_US (250 * US_PER_MS)

struct lease_calls;

struct lease_calls_options {
    struct leases *leases;
    struct seam *seam;
    struct health *health;
    const uint8_t *host; /* SCRIPT_HOST_BYTES: names this process among all */
    uint32_t worker;     /* its number */
};

/** What a take has spent. */
struct lease_spending {
    uint32_t mask; /* bit i: of charge i */
    struct table_key keys[STORE_CHARGES_MAX];
    uint32_t seqs[STORE_CHARGES_MAX];
};

/** @return NULL when memory is short */
MUST_USE struct lease_calls *lease_calls_new(const struct lease_calls_options *options);

/** NULL is fine. */
void lease_calls_free(struct lease_calls *calls);

/**
 * Spend what charges of a take can be had from leases, and order more where it runs low. Of
 * lenient charges that are tied all are spent, or none.
 *
 * @param take      no peek; charges that are spent are answered
 * @param spending  filled
 */
void lease_calls_spend(struct lease_calls *calls, struct store_take *take,
                       struct lease_spending *spending);

/** @param take  a peek. @return bit i: charge i would be spent from a lease now */
uint32_t lease_calls_look(const struct lease_calls *calls,
                          const struct store_take *take);

/**
 * Put back what a take has spent.
 *
 * @param mask  of which charges: those of them that were spent
 * @return those whose leases have been reported meanwhile: to be given back in Redis
 */
MUST_USE uint32_t lease_calls_give_back(struct lease_calls *calls,
                                        const struct store_take *take,
                                        const struct lease_spending *spending,
                                        uint32_t mask);

/** Report all leases that this worker watches, now, and those that it gets for orders that
 *  are under way when they are there. The limits of its charges so far may go. */
void lease_calls_return(struct lease_calls *calls);

/** Pools with orders, or watched. */
unsigned lease_calls_n_held(const struct lease_calls *calls);

/** Calls under way: 0 before it may be freed. */
unsigned lease_calls_n_under_way(const struct lease_calls *calls);

#endif
