/**
 * @file agent/control/peek.h  What explain and show counter look at counters with.
 *
 * Model:     a store that may answer later; and, of counters that hosts share, what this host
 *            has of them beside what Redis says: tokens on lease, or what the last exchange
 *            brought.
 * Ownership: borrows all of it.
 * Threads:   the main thread.
 * Errors:    none.
 */
#ifndef AGENT_CONTROL_PEEK_H
#define AGENT_CONTROL_PEEK_H

#include "rules/clients.h"

#include "agent/control/stores.h"
#include "agent/decide/decide.h"

struct peek_source {
    const struct decide_set *set;
    const struct rules_clients *clients; /* NULL: none */
    struct instant now;
    struct store *store;
    const struct decide_options *options;
    const struct stores *stores; /* NULL: Redis is not asked, its counters are taken as
                                  * untouched */
};

/** What this host has of a counter. */
struct peek_held {
    struct lease_held lease; /* of kind lease */
    struct sync_held sync;   /* of kind sync */
};

/** @param charge  with a home, and a name */
struct peek_held peek_look(const struct stores *stores,
                           const struct store_charge *charge, struct instant now);

/** Why Redis has not answered a charge; NULL: it has, or need not, since another refuses. */
const char *peek_cause(const struct store_take *take,
                       const struct store_charge *charge);

/** The policy that answered in its place: `local`, `open`, `closed`; NULL: none. */
const char *peek_policy(const struct store_charge *charge);

#endif
