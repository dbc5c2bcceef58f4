/**
 * @file agent/store/sync_calls.h  A worker's side of sync: it charges, and exchanges.
 *
 * Model:     takes are charged to the pools (syncs.h) that all workers share; nothing waits
 *            for Redis, but what there is no room for, and what is tied to that. Each
 *            interval the worker exchanges those pools that it watches and that were used: at
 *            most SYNC_CALLS_ROUND of them; where there are more, first the busiest and those
 *            that have waited longest. A round goes in steps of SYNC_CALLS_STEP, as far as
 *            there is room for calls.
 * Ownership: sync_calls_new / sync_calls_free. Borrows all of its options. The seam goes
 *            first: what is under way then ends, which is heard here.
 * Threads:   one for each worker, on whose thread its seam lives.
 * Errors:    none is told: an exchange that fails is made again.
 * Limits:    NOTEBOOK_NOTES pools watched. No allocation after sync_calls_new.
 */
#ifndef AGENT_STORE_SYNC_CALLS_H
#define AGENT_STORE_SYNC_CALLS_H

#include "agent/store/health.h"
#include "agent/store/seam.h"
#include "agent/store/syncs.h"

enum {
    SYNC_CALLS_ROUND = 2000,
    SYNC_CALLS_STEP = 64,
    SYNC_CALLS_WEIGHED = 512, /* in a step */
};

#define SYNC_CALLS_STEP_US  US_PER_MS
#define SYNC_CALLS_LIMIT_US (50 * US_PER_MS) /* of an exchange, to its answer */

struct sync_calls;

struct sync_calls_options {
    struct syncs *syncs;
    struct seam *seam;
    struct health *health;
    const uint8_t *host; /* SCRIPT_HOST_BYTES: names this process among all */
    uint32_t worker;     /* its number */
};

/** @return NULL when memory is short */
MUST_USE struct sync_calls *sync_calls_new(const struct sync_calls_options *options);

/** NULL is fine. */
void sync_calls_free(struct sync_calls *calls);

/**
 * Charge those charges of a take that are synced.
 *
 * @param take      no peek; these are answered
 * @param charged   bit i: charge i was charged
 * @param unknown   bit i: policies are to decide about charge i
 * @param unheld    bit i: Redis is to be asked about charge i: there is no room for it here,
 *                  or not for one that it is tied to
 * @return whether none is refused but lenient ones
 */
MUST_USE bool sync_calls_charge(struct sync_calls *calls, struct store_take *take,
                                uint32_t *charged, uint32_t *unknown, uint32_t *unheld);

/** Take back what was charged to charges of a take. */
void sync_calls_give_back(struct sync_calls *calls, struct store_take *take,
                          uint32_t charged);

/** Exchange what is left to exchange, now and until all of it is, and watch none of these
 *  pools any longer than that. The limits of its charges so far may go. */
void sync_calls_leave(struct sync_calls *calls);

/** Pools that are watched. */
unsigned sync_calls_n_held(const struct sync_calls *calls);

/** Calls under way: 0 before it may be freed. */
unsigned sync_calls_n_under_way(const struct sync_calls *calls);

#endif
