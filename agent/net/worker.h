/**
 * @file agent/net/worker.h  One thread, one event loop, its connections.
 *
 * Model:     the main thread accepts and hands descriptors round; a connection lives and
 *            dies on the worker that got it. What a worker shares with other threads is
 *            this list, and it is closed:
 *
 *            | object             | written by         | read by     | how               |
 *            | ------------------ | ------------------ | ----------- | ----------------- |
 *            | decide_set         | main, before a     | all workers | immutable; freed  |
 *            |                    | letter hands it on |             | when all have     |
 *            |                    |                    |             | changed           |
 *            | its calendars      | main               | all workers | two tables each,  |
 *            |                    |                    |             | atomic            |
 *            | rules_clients      | main's loader,     | all workers | like the set      |
 *            |                    | before a letter    |             |                   |
 *            | decide_options     | main, before start | all workers | immutable         |
 *            | local store        | all workers, main  | all threads | set locks         |
 *            | leases, syncs      | all workers        | all threads | set locks         |
 *            | health, breakers,  | all workers        | all threads | relaxed atomics,  |
 *            | hot                |                    |             | a byte's lock     |
 *            | the map of Redis   | the scout          | all workers | mutex, ev_async;  |
 *            |                    |                    |             | each has a copy   |
 *            | counters           | their worker       | main        | relaxed atomics   |
 *            | asks               | main, its worker   | the other   | a letter there, a |
 *            |                    |                    |             | list of atomics   |
 *            |                    |                    |             | back              |
 *            | mailbox            | main               | its worker  | mutex, ev_async   |
 *            | handed_over        | its worker         | main        | atomic            |
 *            | n_open             | main, all workers  | main        | atomic            |
 *            | n_turns            | its worker         | main        | relaxed atomic    |
 *            | main's wake-up     | all workers        | main        | ev_async          |
 *            | reassembly buffers | all workers        | all workers | atomic bit each   |
 *            | upgrade's channel  | main, all workers  | main        | one packet a call |
 *            | standard error     | all threads        | -           | mutex (log.c)     |
 *            | clock's offset     | main, before start | all threads | immutable         |
 *
 * Ownership: worker_start / worker_join. The worker owns its connections.
 * Threads:   all functions here are for the main thread.
 * Errors:    worker_start answers NULL, with a log line.
 * Limits:    one read buffer a worker; a connection keeps what is left of a frame.
 */
#ifndef AGENT_NET_WORKER_H
#define AGENT_NET_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ev.h>

#include "spop/spop.h"

#include "agent/decide/decide.h"
#include "agent/net/mailbox.h"
#include "agent/net/pending.h"

enum {
    WORKER_READ_BYTES = SPOP_PREFIX_BYTES + SPOP_FRAME_SIZE_MAX,
    WORKER_SWEEP_MS = 500, /* how often deadlines are looked at */
    WORKER_DRAIN_MS = 10,  /* the same while draining, or handing over */
};

#define WORKER_STALL_US       (1 * US_PER_S) /* between two sweeps: the loop stood still */
#define WORKER_PATIENCE_US    (1 * US_PER_S)   /* after that */
#define WORKER_DRAIN_QUIET_US (50 * US_PER_MS) /* between a last ACK and DISCONNECT */
#define WORKER_DRAIN_READ_US  (1 * US_PER_S)   /* busy connections are read so long */
#define WORKER_LEAVE_READ_US  (50 * US_PER_MS) /* the same where somebody listens on */
#define WORKER_WARNING_US     (60 * US_PER_S)  /* between two warnings of one kind */
#define WORKER_DRAIN_US_MAX   (5 * US_PER_S)   /* then the rest is cut off */

struct connection;
struct reassembly;

/** How a worker tells the main thread that a connection is gone. */
struct worker_gone {
    _Atomic unsigned n_open; /* connections of all workers */
    struct ev_loop *main_loop;
    struct ev_async async; /* on main_loop */
};

struct worker {
    /* set before the thread starts */
    unsigned idx;
    const struct worker_stores *stores;
    struct worker_gone *gone;
    struct reassembly *reassembly;
    struct decide decide;
    pthread_t thread;
    /* shared with main */
    struct mailbox mailbox;
    struct ev_async async;
    _Atomic uint32_t n_turns;     /* one a sweep: shows that the loop turns */
    _Atomic unsigned handed_over; /* number of the last upgrade that took everything */
    _Atomic unsigned changed;     /* number of the last change of rules it made */
    /* the worker's own */
    struct ev_loop *loop;
    struct ev_timer sweep;
    struct instant swept_at;
    struct instant patient_until; /* after a stall */
    struct ev_prepare prepare;
    struct connection *connections; /* a list */
    struct connection *answered;    /* those with ACKs that came later, to be flushed */
    unsigned n_pending;             /* requests that wait, or whose ACK does; asks */
    unsigned n_pending_old; /* of these, begun under the rules before the last */
    unsigned change;        /* number of the last change of rules */
    bool is_handing_over;
    int channel_fd;   /* while handing over: to the successor; the worker's own */
    unsigned upgrade; /* likewise: its number */
    unsigned n_handed;
    int handed_fds[SERVER_CONNECTIONS_MAX]; /* what went; open until the loop ends */
    bool is_draining;
    struct instant drain_began;
    int64_t drain_read_us;    /* how long busy connections are read */
    struct instant warned_at; /* of short memory */
    struct pendings pendings;
    uint8_t read_buf[WORKER_READ_BYTES];
};

/** Where a worker's store comes from: made on its loop before its thread is started, and
 *  let go of after that has ended. */
struct worker_stores {
    struct store *(*attach)(void *context, unsigned worker, struct ev_loop *loop);
    void (*detach)(void *context, unsigned worker);
    void *context;
};

/**
 * Start a worker's thread.
 *
 * @param decide  copied
 * @param stores  NULL: the store of `decide` is shared by all; borrowed
 * @return the worker, or NULL
 */
MUST_USE struct worker *worker_start(unsigned idx, const struct decide *decide,
                                     const struct worker_stores *stores,
                                     struct worker_gone *gone,
                                     struct reassembly *reassembly);

/** Post a letter: one for each connection and each ask, one to drain, and those of an
 *  upgrade. */
void worker_post(struct worker *worker, struct letter letter);

/** A request that was pending is not any more. For its connection. */
void worker_end_pending(struct worker *worker, struct pending *pending);

/** How often the loop has turned, roughly; stands still when the worker does. */
uint32_t worker_n_turns(const struct worker *worker);

/** Whether the worker has, in upgrade number `upgrade`, no connection left that asks. */
bool worker_has_handed_over(const struct worker *worker, unsigned upgrade);

/** Whether the worker has left the rules before change number `change`, and all that came
 *  with them, for good. */
bool worker_has_changed(const struct worker *worker, unsigned change);

/** Wait for the end of a worker that was told to drain, and free it. */
void worker_join(struct worker *worker);

#endif
