/**
 * @file agent/control/show.h  What the runtime socket shows of a running agent.
 *
 * Model:     the commands of runtime.h, and what they read.
 * Ownership: borrows all of it.
 * Threads:   the main thread; counters go on meanwhile. Who waits for Redis holds the rules.
 * Errors:    those of the stream.
 */
#ifndef AGENT_CONTROL_SHOW_H
#define AGENT_CONTROL_SHOW_H

#include "agent/clock.h"
#include "agent/control/rulebook.h"
#include "agent/control/runtime.h"
#include "agent/control/state.h"
#include "agent/control/stores.h"
#include "agent/net/server.h"
#include "agent/observe/metrics.h"
#include "agent/store/store.h"

struct show_source {
    const struct rulebook *rulebook;
    struct store *store; /* of this host */
    const struct stores *stores;
    const struct decide_options *options;
    struct server *server;
    struct state *state; /* NULL without state_dir */
    unsigned n_workers;
    struct instant started_at;
};

/** For runtime_start, with a struct show_source as context. */
extern const struct runtime_command show_commands[];

#endif
