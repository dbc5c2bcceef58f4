/**
 * @file agent/control/stores.h  The stores of a daemon: counters here, and in Redis.
 *
 * Model:     without `redis` in agent.yaml all workers share the local store. With it each
 *            worker has a store of its own, which asks Redis by a router on the worker's
 *            loop and counts locally in the shared one.
 * Ownership: stores_open / stores_close, after the workers. Borrows config and local store.
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
#include "agent/redis/tls.h"
#include "agent/store/health.h"
#include "agent/store/redis.h"

struct stores {
    const struct config_redis *config; /* NULL: there is no Redis */
    struct store *local;
    struct health *health;
    struct redis *redis;
    struct tls *tls;
    char *password;
    char *sentinel_password;
    struct link_script scripts[REDIS_SCRIPTS_N];
    struct redis_options options;
    struct {
        struct router *router;
        struct store *store;
    } workers[SERVER_WORKERS_MAX];
};

/** @param stores  zeroed. @return false, with a log line, when it cannot be */
MUST_USE bool stores_open(struct stores *stores, const struct config *config,
                          struct store *local);
void stores_close(struct stores *stores);

/** @return the store of a worker, whose loop this is; or NULL, with a log line */
MUST_USE struct store *stores_attach(struct stores *stores, unsigned worker,
                                     struct ev_loop *loop);

/** The loop is about to go. */
void stores_detach(struct stores *stores, unsigned worker);

#endif
