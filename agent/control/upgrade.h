/**
 * @file agent/control/upgrade.h  An upgrade, as the agent sees it that is replaced.
 *
 * Model:     SIGUSR2 -> start the program once more, with a channel to it -> it says that
 *            it is ready -> stop accepting, hand over the connections, then the counters
 *            -> it says that it has all -> end. Whatever goes wrong before that: end the
 *            successor, and serve on with what there is; the next SIGUSR2 tries again.
 *            takeover.h is the other side, channel.h the conversation.
 * Ownership: upgrade_init / upgrade_fini; borrows what is in its parts.
 * Threads:   the main thread. Sending the counters holds it, and no worker.
 * Errors:    one log line each, with what to do.
 * Limits:    UPGRADE_WAIT_S for each step.
 */
#ifndef AGENT_CONTROL_UPGRADE_H
#define AGENT_CONTROL_UPGRADE_H

#include <ev.h>

#include "agent/control/program.h"
#include "agent/control/runtime.h"
#include "agent/decide/retry.h"
#include "agent/net/server.h"
#include "agent/store/local.h"

enum {
    UPGRADE_VERSION = 1, /* of the conversation */
    UPGRADE_WAIT_S = 10,
};

/** CHANNEL_HELLO */
struct upgrade_hello {
    uint32_t version;
    uint32_t n_listeners;
    uint8_t jitter_secret[RETRY_SECRET_BYTES];
    uint8_t store_secret[LOCAL_SECRET_BYTES];
    int64_t clock_offset_us;
};

/** CHANNEL_DONE */
struct upgrade_taken {
    uint32_t n_connections;
    uint32_t zero;
    uint64_t n_counters;
};

/** The agent may end now: replaced, or asked to stop meanwhile. */
typedef void upgrade_over_fn(void *context);

/** Called for each packet of counters: the loop does not turn while they are sent. */
typedef void upgrade_sending_fn(void *context);

struct upgrade_parts {
    struct ev_loop *loop; /* the default one: it hears of children */
    struct server *server;
    struct runtime *const *runtimes;
    unsigned n_runtimes;
    struct store *store;
    const uint8_t *jitter_secret;
    upgrade_sending_fn *sending;
    upgrade_over_fn *over;
    void *context;
};

enum upgrade_state {
    UPGRADE_IDLE = 0,
    UPGRADE_STARTING,   /* until the successor is ready */
    UPGRADE_HANDING,    /* connections, then counters */
    UPGRADE_CONFIRMING, /* until the successor has all */
    UPGRADE_DONE,       /* it has */
};

struct upgrade {
    struct upgrade_parts parts;
    struct program program; /* no path: not to be had */
    enum upgrade_state state;
    bool is_stop_wanted;
    int channel_fd;
    pid_t pid;
    struct ev_io io;
    struct ev_child child;
    struct ev_timer deadline;
};

/** @return false, with a log line, when memory is short */
MUST_USE bool upgrade_init(struct upgrade *upgrade, const struct upgrade_parts *parts);
void upgrade_fini(struct upgrade *upgrade);

/** SIGUSR2. */
void upgrade_begin(struct upgrade *upgrade);

/**
 * Asked to stop. A successor that is not ready yet is ended at once; what has begun to move
 * moves to its end, and the successor is then told to stop.
 *
 * @return whether to stop now; else `over` says when
 */
MUST_USE bool upgrade_may_stop(struct upgrade *upgrade);

/** Whether a successor has all there was. */
bool upgrade_is_done(const struct upgrade *upgrade);

#endif
