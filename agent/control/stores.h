/**
 * @file agent/control/stores.h  The stores of a daemon: counters here, and in Redis.
 *
 * Model:     without `redis` in agent.yaml all workers share the local store. With it each
 *            worker has a store of its own, which asks Redis by a router on the worker's
 *            loop and counts locally in the shared one. The first worker says in Redis that
 *            the agent lives. Its name there is the successor's, too: in an upgrade the two
 *            are one. Every other start has a name of its own, and says that the last run
 *            has ended, where its name was kept (agents.h).
 * Ownership: stores_open / stores_close, after the workers. Borrows what is in the options.
 * Threads:   the main thread; stores_attach before its worker's thread is started,
 *            stores_detach after it has ended.
 * Errors:    log lines.
 */
#ifndef AGENT_CONTROL_STORES_H
#define AGENT_CONTROL_STORES_H

#include <ev.h>

#include "agent/config.h"
#include "agent/redis/link.h"
#include "agent/redis/router.h"
#include "agent/redis/script.h"
#include "agent/redis/tls.h"
#include "agent/store/beat.h"
#include "agent/store/health.h"
#include "agent/store/leases.h"
#include "agent/store/redis.h"
#include "agent/store/syncs.h"

enum {
    STORES_NAME_BYTES = 16, /* of an agent, in binary */
};

struct stores {
    const struct config_redis *config; /* NULL: there is no Redis */
    struct store *local;
    struct health *health;
    struct leases *leases;
    struct syncs *syncs;
    struct hot *hot;
    uint8_t host[SCRIPT_HOST_BYTES]; /* names this process */
    struct redis *redis;
    struct tls *tls;
    char *password;
    char *sentinel_password;
    struct link_script scripts[REDIS_SCRIPTS_N];
    struct redis_options options;
    struct beat beat; /* the first worker's */
    char name[2 * STORES_NAME_BYTES + 1];
    const char *ended; /* the name of the last run, if that is another; or NULL */
    bool is_leaving;
    struct {
        struct router *router;
        struct store *store;
    } workers[SERVER_WORKERS_MAX];
};

#define STORES_AWAIT_US (500 * US_PER_MS)

struct stores_options {
    const struct config *config;
    struct store *local;
    unsigned n_agents; /* to go by until Redis says more; 0: nobody knows */
    const char *ended; /* the name of the last run; empty: not known */
    const uint8_t
        *secret; /* RETRY_SECRET_BYTES: which a successor has, and nobody else */
};

/**
 * Read what connections are made with: passwords, certificates, scripts. stores_open does.
 *
 * @param stores  zeroed; `options` is filled
 * @return false, with a log line, when it cannot be
 */
MUST_USE bool stores_prepare(struct stores *stores, const struct config_redis *config);

/** @param stores  zeroed. @return false, with a log line, when it cannot be */
MUST_USE bool stores_open(struct stores *stores, const struct stores_options *options);
void stores_close(struct stores *stores);

/** @return the store of a worker, whose loop this is; or NULL, with a log line */
MUST_USE struct store *stores_attach(struct stores *stores, unsigned worker,
                                     struct ev_loop *loop);

/** Wait, for STORES_AWAIT_US at most, until Redis can be asked; at once where there is none. */
void stores_await(const struct stores *stores);

/** The agent ends, and no successor goes on: Redis is told when the first worker goes. */
void stores_leave(struct stores *stores);

/** The loop is about to go. */
void stores_detach(struct stores *stores, unsigned worker);

#endif
