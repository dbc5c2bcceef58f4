/**
 * @file agent/control/takeover.h  An upgrade, as the successor sees it.
 *
 * Model:     the other side of upgrade.h. The environment says where the channel is; its
 *            first packets bring what is needed to start; then the agent starts as always,
 *            says so, and gets connections and counters while it serves. It says when it
 *            has all of them; the agent before then ends the channel, and this one is
 *            alone. When that one is gone too early, it serves with what it has.
 * Ownership: takeover_open / takeover_close.
 * Threads:   the main thread.
 * Errors:    log lines. Until this agent has said that it is ready, the one before serves.
 * Limits:    UPGRADE_WAIT_S for the first packets; TAKEOVER_PACKETS_MAX in one turn of the
 *            loop.
 */
#ifndef AGENT_CONTROL_TAKEOVER_H
#define AGENT_CONTROL_TAKEOVER_H

#include "agent/control/upgrade.h"

enum {
    TAKEOVER_PACKETS_MAX = 64,
};

struct takeover;

/**
 * Look whether this process is somebody's successor.
 *
 * @param takeover  NULL when it is not
 * @return false when it is, but the other one cannot be understood
 */
MUST_USE bool takeover_open(struct takeover **takeover);

/** What the other one said first; good until close. */
const struct upgrade_hello *takeover_hello(const struct takeover *takeover);

/** Its sockets. */
struct inheritance *takeover_inheritance(struct takeover *takeover);

struct takeover_parts {
    struct ev_loop *loop;
    struct server *server;
    struct runtime *const *runtimes;
    unsigned n_runtimes;
    struct store *store;
    struct counters *counters; /* of the main thread */
    upgrade_over_fn *over; /* this agent is alone now, and may end if it was asked to */
    void *context;
};

/** Say that this agent is ready, and take what comes on the loop. */
void takeover_begin(struct takeover *takeover, const struct takeover_parts *parts);

/** Whether there is more to come. NULL is fine. */
bool takeover_is_under_way(const struct takeover *takeover);

/**
 * Asked to stop: not in the middle of it, so that nothing is lost. NULL is fine.
 *
 * @return whether to stop now; else when it is over
 */
MUST_USE bool takeover_may_stop(struct takeover *takeover);

/** Whether takeover_may_stop ever answered false. */
bool takeover_is_stop_wanted(const struct takeover *takeover);

/** NULL is fine. */
void takeover_close(struct takeover *takeover);

#endif
