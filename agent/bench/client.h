/**
 * @file agent/bench/client.h  One connection to an agent, and the NOTIFYs under way on it.
 *
 * Model:     down -> connecting -> greeting -> open -> ending -> down. A client that is
 *            lost is down until its back-off is over, 10 ms at first, doubled up to 1 s;
 *            an ACK ends the back-off.
 * Ownership: client_init / client_release; the descriptor is in the loader's epoll.
 * Threads:   its loader's.
 * Errors:    counted in the tally; the first one as a text. Where no connection of the
 *            run has ever been open, an error ends the run: is_given_up is set.
 * Limits:    buffers of fixed size: a NOTIFY without room is not sent.
 */
#ifndef AGENT_BENCH_CLIENT_H
#define AGENT_BENCH_CLIENT_H

#include "spop/engine.h"

#include "agent/bench/bench.h"
#include "agent/bench/keys.h"

enum {
    CLIENT_BACKOFF_MIN_US = 10000,
    CLIENT_BACKOFF_MAX_US = 1000000,
};

/** What all threads of a run share. */
struct bench_run {
    const struct bench_plan *plan;
    struct instant start;
    struct instant measure_from;
    _Atomic int64_t measure_to_us; /* brought forward by an interrupt */
    _Atomic bool has_opened;       /* a connection has been open */
    _Atomic bool is_given_up;      /* before any has */
    _Atomic unsigned n_loading;    /* threads that may still send something new */
};

/** What the clients of one loader share. */
struct client_env {
    struct bench_run *run;
    struct tally tally;
    struct keys keys;
    uint64_t n_left; /* requests to send */
    int epoll_fd;
    uint8_t payload[SHAPE_BYTES_MAX * 2];
};

enum client_state {
    CLIENT_DOWN = 0,
    CLIENT_CONNECTING,
    CLIENT_GREETING, /* HELLO sent */
    CLIENT_OPEN,
    CLIENT_ENDING, /* DISCONNECT sent */
};

/** A NOTIFY under way. */
struct client_slot {
    uint64_t stream_id; /* its own number and depth times how often it was used */
    struct instant due;
    bool is_used;
};

struct client {
    struct client_env *env;
    enum client_state state;
    int fd;
    struct spop_engine engine;
    struct instant heard_at; /* the agent's last bytes, or what it may be silent from */
    struct instant retry_at; /* DOWN */
    int64_t backoff_us;
    bool was_open;
    bool wants_writable; /* in epoll */
    unsigned depth;      /* 1 where the agent does not pipeline */
    unsigned n_under_way;
    unsigned next_slot; /* where to look for a free one */
    struct client_slot *slots;
    size_t in_len;
    size_t out_len;
    size_t in_cap;
    size_t out_cap;
    uint8_t *in;
    uint8_t *out;
};

/** @return false without memory; release is right then too */
MUST_USE bool client_init(struct client *c, struct client_env *env);

/** Close the connection, if it is open; NOTIFYs under way are unanswered. */
void client_release(struct client *c);

/** Connect when it is time to; lose the connection when the agent is silent for too long. */
void client_check(struct client *c, struct instant now);

/** Do what epoll has called for. */
void client_event(struct client *c, uint32_t events, struct instant now);

static inline bool client_has_room(const struct client *c)
{
    return c->state == CLIENT_OPEN && c->n_under_way < c->depth && c->env->n_left > 0;
}

/**
 * Write a NOTIFY that was due at `due` to the output; the client has room (asserted).
 *
 * @return false when the output has none now
 */
MUST_USE bool client_notify(struct client *c, struct instant due, struct instant now);

/** Send the output. */
void client_flush(struct client *c, struct instant now);

/** Close an open connection as if HAProxy died, with or without a reset. */
void client_kill(struct client *c, bool with_reset, struct instant now);

/** Say DISCONNECT and wait for the agent's. */
void client_end(struct client *c, struct instant now);

#endif
