/**
 * @file agent/net/server.h  The listeners and the workers behind them.
 *
 * Model:     one acceptor on the main loop hands connections to workers in turn. At the
 *            connection limit it stops accepting: what comes waits in the backlog, since
 *            a connection accepted and closed makes HAProxy open the next at once.
 * Ownership: server_start / server_stop / server_free; borrows the main loop, the set,
 *            the store and the counters.
 * Threads:   the main thread.
 * Errors:    server_start answers NULL, with log lines.
 * Limits:    those of limits.h.
 */
#ifndef AGENT_NET_SERVER_H
#define AGENT_NET_SERVER_H

#include <ev.h>

#include "agent/decide/decide.h"
#include "agent/net/address.h"
#include "agent/net/limits.h"

enum {
    SERVER_ACCEPTS_MAX = 64, /* in one turn of the loop */
    SERVER_PAUSE_MS = 100,   /* without descriptors, before the next try */
};

struct server;

struct server_options {
    unsigned n_workers;
    unsigned connections_max;
    unsigned n_addresses;
    const struct address *addresses;
    const struct decide_set *set;
    struct store *store;
    const struct decide_options *decide_options;
    struct counters *const *counters; /* one for each worker */
};

/** Listen on all addresses and start the workers; accepting begins with `loop`. */
MUST_USE struct server *server_start(struct ev_loop *loop,
                                     const struct server_options *options);

/** Stop accepting and tell the workers to drain; they end by themselves. */
void server_stop(struct server *server);

/** Wait for the workers (server_stop first) and free all. NULL is fine. */
void server_free(struct server *server);

/**
 * Whether every worker's loop has turned since the last call; a log line names those that
 * stand still. To be asked at least two WORKER_SWEEP_MS apart.
 */
MUST_USE bool server_is_turning(struct server *server);

unsigned server_n_open(const struct server *server);

#endif
