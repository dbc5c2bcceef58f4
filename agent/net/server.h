/**
 * @file agent/net/server.h  The listeners and the workers behind them.
 *
 * Model:     one acceptor on the main loop hands connections to workers in turn. At the
 *            connection limit it stops accepting: what comes waits in the backlog, since
 *            a connection accepted and closed makes HAProxy open the next at once.
 *            On an upgrade the listeners and all connections go to another process, or
 *            come from one.
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
#include "agent/net/handover.h"
#include "agent/net/inheritance.h"
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
    struct inheritance *inheritance; /* sockets to take; NULL when there are none */
    const struct decide_set *set;
    const struct rules_clients *clients; /* NULL: the set names no file of them */
    struct store *store;                 /* NULL: as `stores` say */
    const struct worker_stores *stores;  /* NULL: all workers share `store` */
    struct store *local; /* for server_store, which needs no worker for it; or NULL */
    const struct decide_options *decide_options;
    struct counters *const *counters; /* one for each worker */
};

/** Listen on all addresses and start the workers; accepting begins with `loop`. */
MUST_USE struct server *server_start(struct ev_loop *loop,
                                     const struct server_options *options);

/** @return how many descriptors server_send_listeners sends */
unsigned server_n_listeners(const struct server *server);

/** Send the listeners through a channel; they stay open, and are accepted from. */
MUST_USE enum channel_status server_send_listeners(const struct server *server,
                                                   int channel_fd);

/** Called on the main loop once no connection is left that may ask. */
typedef void server_handed_over_fn(void *context);

/**
 * Stop accepting, and hand all connections to the successor behind `channel_fd`.
 * Connections that are ending do so here. Until server_keep or server_stop.
 *
 * @return false when there are no descriptors for it; nothing has changed then
 */
MUST_USE bool server_hand_over(struct server *server, int channel_fd,
                               server_handed_over_fn *handed_over, void *context);

/** Call it off: serve on, with the connections that are left. */
void server_keep(struct server *server);

/** Whether the files of UNIX sockets are removed when they are closed. */
void server_own_files(struct server *server, bool is_ours);

/** Leave room for `n` connections that another process will hand over; 0: no longer. */
void server_reserve(struct server *server, unsigned n);

/** Go on with a connection of another process, for which there was room left; takes
 *  `handover`. */
void server_adopt(struct server *server, struct handover *handover);

/** Called on the main loop once no worker can still touch what was there before, and nobody
 *  holds it. */
typedef void server_changed_fn(void *context);

/**
 * Have all workers decide by another set, another table of clients, or both, and count in
 * `counters`, a block for each. Not while an earlier change is under way. All are borrowed
 * until the next change is complete, or server_free.
 */
void server_change_rules(struct server *server, const struct decide_set *set,
                         const struct rules_clients *clients,
                         struct counters *const *counters, server_changed_fn *changed,
                         void *context);

/** A store for peeks of the main thread, which the stores of the workers answer, each in
 *  turn: later, and by its deadline. Whoever asks holds the rules. Until server_free. */
struct store *server_store(struct server *server);

/**
 * Hold the set, the clients and the counters that the workers were given last: a change to
 * others is not complete before they are let go of.
 *
 * @return for server_let_go
 */
MUST_USE unsigned server_hold(struct server *server);
void server_let_go(struct server *server, unsigned hold);

/** Stop accepting and tell the workers to drain; they end by themselves. */
void server_stop(struct server *server);

/** Wait for the workers (server_stop first), end what server_store was asked, and free all.
 *  NULL is fine. */
void server_free(struct server *server);

/**
 * Whether every worker's loop has turned since the last call; a log line names those that
 * stand still. To be asked at least two WORKER_SWEEP_MS apart.
 */
MUST_USE bool server_is_turning(struct server *server);

/** @return connections of all workers that are open now */
unsigned server_n_open(const struct server *server);

#endif
