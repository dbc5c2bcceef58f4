/**
 * @file agent/redis/router.h  A worker's way to Redis: what is behind the seam.
 *
 * Model:     a link to each node of the map that is in use, connected before anybody asks.
 *            A call goes to the node that its slot has. What Redis says in place of an
 *            answer is followed once for each reason, while there is time: MOVED and ASK
 *            to a node that is connected, NOSCRIPT by loading the script before the call
 *            on the same link. All else ends the call.
 *
 *            A deadline is looked at 1 ms before it is due, as timers of the loop are up
 *            to 1 ms late. Deadlines and timers are lists in order of time: one is put in
 *            from the end, where most belong.
 * Ownership: router_new / router_free, on the thread of the loop. router_free completes
 *            what is under way by SEAM_LOST, and forgets timers.
 * Threads:   its loop's.
 * Errors:    outcomes of calls (seam.h).
 * Limits:    those of links: LINK_REQUESTS_MAX calls under way on each node.
 */
#ifndef AGENT_REDIS_ROUTER_H
#define AGENT_REDIS_ROUTER_H

#include "agent/base.h"
#include "agent/redis/redis.h"
#include "agent/store/seam.h"

struct router;

/** @param seed  of random numbers @return NULL when memory is short */
MUST_USE struct router *router_new(struct redis *redis, struct ev_loop *loop,
                                   uint64_t seed);
void router_free(struct router *router);

/** The seam, which is the router's own. */
struct seam *router_seam(struct router *router);

#endif
