/**
 * @file agent/net/pending.h  The requests of a worker that are under way.
 *
 * Model:     a fixed pool. A request is taken for each NOTIFY and goes back once its ACK is
 *            written. With a store that answers at once that is when the next NOTIFY has
 *            begun, so that the same two are used over and over. Where the pool is empty there
 *            is one more, for a request that may not wait.
 * Ownership: the pool is part of its worker; zeroed it is ready. What is taken belongs to
 *            its connection until it is put back.
 * Threads:   its worker's.
 * Errors:    none.
 * Limits:    PENDINGS_MAX a worker. Memory is touched when it is first needed.
 */
#ifndef AGENT_NET_PENDING_H
#define AGENT_NET_PENDING_H

#include "agent/decide/decide.h"

enum {
    PENDINGS_MAX = 1024 /* each answered within 5 ms: 200 000 requests a second */
};

struct connection;

enum pending_state {
    PENDING_BEGUN = 0, /* from decide_begin to decide_finish */
    PENDING_WAITING,   /* for the store */
    PENDING_DECIDED,   /* the ACK waits for room in the output */
    PENDING_ANSWERED,  /* the ACK is written, or nobody is left to get it */
};

struct pending {
    struct decide_request request;
    enum pending_state state;
    unsigned change;               /* of the rules it began with */
    struct connection *connection; /* NULL: gone */
    struct pending *prev;          /* of the connection */
    struct pending *next;          /* of the connection, or of those that are free */
};

struct pendings {
    unsigned n_used; /* of `all`, ever */
    struct pending *free;
    struct pending all[PENDINGS_MAX];
    struct pending last;
};

/** @return a request in state BEGUN */
struct pending *pendings_take(struct pendings *pendings);

/** Give one back. */
void pendings_put(struct pendings *pendings, struct pending *pending);

#endif
