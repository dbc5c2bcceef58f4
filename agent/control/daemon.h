/**
 * @file agent/control/daemon.h  A running agent: its parts, its main loop, its signals.
 *
 * Model:     parse and compile, build, start, run, stop, in that order.
 * Ownership: everything it makes is gone when daemon_run returns.
 * Threads:   the main thread; starts the workers.
 * Errors:    log lines; rules files also get diagnostics on standard error.
 */
#ifndef AGENT_CONTROL_DAEMON_H
#define AGENT_CONTROL_DAEMON_H

#include <stdbool.h>

#include "agent/config.h"

enum {
    DAEMON_LOG_SHARE =
        2, /* 1/2 of `memory` is for events where rules have sliding logs */
    DAEMON_LOG_SHARE_UNUSED = 32, /* else 1/32, since a reload may bring one */
};

/**
 * Serve until SIGTERM or SIGINT, then drain. Prints one line to standard output when it
 * is ready.
 *
 * @param config  names a rules file and at least one address
 * @return false when it could not start
 */
MUST_USE bool daemon_run(const struct config *config);

#endif
