/**
 * @file agent/store/seam.h  The seam between the stores and what is behind them.
 *
 * Model:     a call runs one script on one Redis node: its keys all belong to one slot
 *            (slot: how a key is filed; where there is no cluster all keys are one slot).
 *            It completes exactly once, at once or later, by `done`. A call that ended by
 *            SEAM_TIMEOUT is still under way: its end is told by `late`, exactly once, with
 *            the reply that came or that none will come. Beside calls the seam has what
 *            else a store needs of the world: now, timers, random numbers. In tests a
 *            simulated Redis is behind it, and nothing above can tell.
 *
 *            Breakers are kept by node: `slot` and `node` say where a key would be asked
 *            for, a call says where it was. Node numbers are the same on all workers of the
 *            process; a number may change its meaning when the nodes do.
 * Ownership: a call is the caller's memory, zeroed before its first run. It is the seam's
 *            from run until done (until late, where done said SEAM_TIMEOUT); its keys and
 *            arguments until done. A reply is a view that ends with the callback.
 *            Callbacks may begin calls, the one that ended included.
 * Threads:   a seam, its calls and timers belong to one thread.
 * Errors:    outcomes; none is retried that may have had an effect.
 * Limits:    SEAM_VALUES_MAX values of a reply. A call is with the seam for at most a second
 *            and what its loop is late by.
 */
#ifndef AGENT_STORE_SEAM_H
#define AGENT_STORE_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base.h"
#include "agent/clock.h"

enum {
    SEAM_VALUES_MAX = 8192, /* of a reply */
    SEAM_NODES_MAX = 256,
    SEAM_SLOTS_MAX = 16384,
    SEAM_NO_NODE = 0xffff,
};

struct seam_bytes {
    const void *ptr;
    size_t len;
};

enum seam_type {
    SEAM_NIL = 0,
    SEAM_INTEGER,
    SEAM_STRING,
    SEAM_STATUS,
    SEAM_ERROR_TEXT,
    SEAM_ARRAY,
};

/** One value of a reply. Those in an array stand behind it, each before its own parts. */
struct seam_value {
    enum seam_type type;
    int64_t
        integer; /* INTEGER; ARRAY: how many values it has, parts of parts left out */
    const char *text; /* STRING, STATUS, ERROR_TEXT: no NUL behind it */
    size_t text_bytes;
};

struct seam_reply {
    const struct seam_value *values; /* at least one */
    unsigned n_values;
};

enum seam_outcome {
    SEAM_OK = 0,
    SEAM_TIMEOUT, /* no reply in time: it may come to pass; `late` follows */
    SEAM_DOWN,    /* not sent: no connection to the node, or no node known */
    SEAM_FULL,    /* not sent: too much is under way already */
    SEAM_LOST, /* sent, and the connection ended before the reply: it may have passed */
    SEAM_ERROR, /* Redis refused: `error` says why */
};

/** Why Redis refused. Those marked had no effect for sure. */
enum seam_error {
    SEAM_ERROR_NONE = 0,
    SEAM_ERROR_MOVED,    /* no effect: the slot is elsewhere, and asking there failed */
    SEAM_ERROR_TRYAGAIN, /* no effect: the slot is being moved */
    SEAM_ERROR_CLUSTER_DOWN, /* no effect */
    SEAM_ERROR_LOADING,   /* no effect: reads its data from disk, or has no primary */
    SEAM_ERROR_READ_ONLY, /* a replica; within a script part of it may have passed */
    SEAM_ERROR_BUSY,      /* no effect: a script runs for seconds */
    SEAM_ERROR_NO_SCRIPT, /* no effect: also after it was loaded */
    SEAM_ERROR_DENIED,    /* no effect: password, user or command is not allowed */
    SEAM_ERROR_OUT_OF_MEMORY, /* maxmemory is reached */
    SEAM_ERROR_NO_WRITES,     /* no effect: its disk or its replicas are missing */
    SEAM_ERROR_WRONG_TYPE,    /* the key holds something foreign */
    SEAM_ERROR_OTHER,
};

/** One command under way on a connection; what is behind the seam queues these. */
struct seam_request {
    struct seam_request *next;
    /* `reply` is NULL when none will come. */
    void (*done)(struct seam_request *request, const struct seam_reply *reply);
    unsigned n_asides;      /* replies before its own that nobody waits for */
    struct instant sent_at; /* set by who sends it */
};

struct seam_timer {
    struct instant at;
    void (*fire)(struct seam_timer *timer);
    struct seam_timer *prev; /* the seam's own, as is next; NULL: not set */
    struct seam_timer *next;
};

struct seam_call;
typedef void seam_call_fn(struct seam_call *call, const struct seam_reply *reply);

struct seam_call {
    /* set by the caller */
    unsigned script;               /* which: an index into the table of scripts */
    const struct seam_bytes *keys; /* at least one, all of one slot */
    unsigned n_keys;
    const struct seam_bytes *args;
    unsigned n_args;
    struct instant deadline; /* when the caller needs an answer */
    seam_call_fn *done;      /* with a reply for SEAM_OK only */
    seam_call_fn *late;      /* likewise, after done with SEAM_TIMEOUT */
    /* out, for done and late */
    enum seam_outcome outcome;
    enum seam_error error;
    unsigned node;         /* asked last, or SEAM_NO_NODE */
    int64_t round_trip_us; /* OK and ERROR: from sending to the reply */
    /* the seam's own */
    struct seam_request request;
    struct seam_timer timer;
    bool is_over;    /* done was called */
    bool is_asking;  /* of a slot that is being moved there */
    bool is_loading; /* sent with its script, which was not there */
    bool has_moved;  /* sent to another node */
    void *owner;
};

struct seam;

struct seam_ops {
    void (*run)(struct seam *seam, struct seam_call *call);
    void (*reject)(struct seam *seam, const struct seam_call *call);
    unsigned (*slot)(struct seam *seam, struct seam_bytes key);
    unsigned (*node)(struct seam *seam, unsigned slot);
    struct instant (*now)(struct seam *seam);
    void (*timer_set)(struct seam *seam, struct seam_timer *timer);
    void (*timer_stop)(struct seam *seam, struct seam_timer *timer);
    uint64_t (*random)(struct seam *seam);
};

/** First member of whatever is behind the seam. */
struct seam {
    const struct seam_ops *ops;
};

/** Begin a call; `done` may be called before this returns. */
static inline void seam_run(struct seam *seam, struct seam_call *call)
{
    seam->ops->run(seam, call);
}

/**
 * Say, within `done` or `late`, that the reply of this call is none of its script: the call
 * ended in an error, and what comes on that connection is not to be trusted. It ends, and
 * with it, as SEAM_LOST, what else is under way on it; not before the callbacks that run
 * have returned.
 */
static inline void seam_reject(struct seam *seam, struct seam_call *call)
{
    call->outcome = SEAM_ERROR;
    call->error = SEAM_ERROR_OTHER;
    seam->ops->reject(seam, call);
}

/** Read a reply that is an array of at most `max` integers. @return false: it is none */
MUST_USE static inline bool seam_read_numbers(const struct seam_reply *reply,
                                              int64_t *numbers, size_t max, size_t *n)
{
    *n = reply->n_values - 1;
    if (reply->values[0].type != SEAM_ARRAY || *n > max) {
        return false;
    }
    for (size_t i = 0; i < *n; i++) {
        if (reply->values[i + 1].type != SEAM_INTEGER) {
            return false;
        }
        numbers[i] = reply->values[i + 1].integer;
    }
    return true;
}

/** The slot of a key, below SEAM_SLOTS_MAX: keys of one call have the same. */
static inline unsigned seam_slot(struct seam *seam, struct seam_bytes key)
{
    return seam->ops->slot(seam, key);
}

/** The node that has the slot now: below SEAM_NODES_MAX, or SEAM_NO_NODE. */
static inline unsigned seam_node(struct seam *seam, unsigned slot)
{
    return seam->ops->node(seam, slot);
}

static inline struct instant seam_now(struct seam *seam)
{
    return seam->ops->now(seam);
}

/** Fire once at timer->at, or up to 1 ms later; a timer that is set is moved there. */
static inline void seam_timer_set(struct seam *seam, struct seam_timer *timer)
{
    seam->ops->timer_set(seam, timer);
}

/** Not any more; fine for one that is not set. */
static inline void seam_timer_stop(struct seam *seam, struct seam_timer *timer)
{
    seam->ops->timer_stop(seam, timer);
}

static inline uint64_t seam_random(struct seam *seam)
{
    return seam->ops->random(seam);
}

#endif
