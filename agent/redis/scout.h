/**
 * @file agent/redis/scout.h  Find out where the nodes of a Redis are.
 *
 * Model:     a plain sequence on a thread that may wait: resolve, ask one after the other,
 *            take what the first says that is well-formed. What was learnt is a draft of
 *            the map, which the caller publishes.
 * Ownership: scout_init / scout_fini.
 * Threads:   one; `interrupt` is for others.
 * Errors:    false, and a text why for people.
 * Limits:    SCOUT_ANSWER_US for each that is asked.
 */
#ifndef AGENT_REDIS_SCOUT_H
#define AGENT_REDIS_SCOUT_H

#include <stdatomic.h>
#include <stdbool.h>

#include <ev.h>

#include "agent/redis/redis.h"

enum {
    SCOUT_WHY_BYTES_MAX = 512
};

#define SCOUT_ANSWER_US (600 * US_PER_MS) /* greeting and answer */
#define SCOUT_HEARD_US  (60 * US_PER_S)   /* how long a node counts that was heard of */

struct scout {
    const struct redis_options *options;
    struct link_options link_options;
    struct ev_loop *loop;
    struct ev_async wake;   /* from any thread: scout_wait ends */
    struct ev_timer waking; /* a wait that is over */
    _Atomic bool is_stopping;
    /* Around what waits for the resolver, which nothing interrupts. Options may be gone
       when it ends and is_stopping is set. */
    void (*resolving)(struct scout *scout, bool begins);
    /* where to begin */
    unsigned n_seed_addresses[REDIS_ENDPOINTS_MAX];
    struct endpoint_address seeds[REDIS_ENDPOINTS_MAX][ENDPOINT_ADDRESSES_MAX];
    struct instant resolved_at; /* names; us = 0: they are to be */
    unsigned n_asked;           /* moves on whom to ask first */
    /* what is known */
    struct redis_map draft; /* as learnt last */
    struct redis_map trial; /* of the look that goes on */
    bool is_meagre_seen;    /* one node has said that it knows few slots */
    struct instant heard_at[SEAM_NODES_MAX];
    char why[SCOUT_WHY_BYTES_MAX];
    /* the question that is under way */
    struct link *link;
    struct endpoint asked; /* whom the link leads to */
    bool is_link_down;
    struct seam_request request;
    bool is_answered;
    bool is_good;
};

MUST_USE bool scout_init(struct scout *scout, const struct redis_options *options);
void scout_fini(struct scout *scout);

/**
 * Look once.
 *
 * @return whether `draft` is as things are now; else `why` says what is wrong
 */
MUST_USE bool scout_look(struct scout *scout, struct instant now);

/** Take in a node that was heard of. @return whether it may be asked */
MUST_USE bool scout_hear(struct scout *scout, const struct endpoint *endpoint,
                         struct instant now);

/** Wait so long, or until woken. @param us  negative: without end */
void scout_wait(struct scout *scout, int64_t us);

#endif
