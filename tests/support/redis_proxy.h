/**
 * @file tests/support/redis_proxy.h  What may happen between an agent and a Redis server: a
 *       thread that carries bytes between them, and does it badly when told to.
 *
 * Model:     listens on a port of 127.0.0.1; for each connection it opens one to the server,
 *            and copies both ways in the manner of the moment. Connections that took part
 *            in a bad manner end when it changes back to a good one.
 * Ownership: start / stop.
 * Threads:   one of its own; the functions are for the thread that started it.
 * Errors:    start answers false. A server that is not there ends the connection.
 * Limits:    REDIS_PROXY_PAIRS_MAX connections at once; more are closed.
 */
#ifndef TESTS_SUPPORT_REDIS_PROXY_H
#define TESTS_SUPPORT_REDIS_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    REDIS_PROXY_PAIRS_MAX = 64
};

enum redis_proxy_manner {
    REDIS_PROXY_CARRIES = 0,
    REDIS_PROXY_REFUSES,     /* ends all connections, and does not listen */
    REDIS_PROXY_SILENT,      /* accepts, reads, says nothing */
    REDIS_PROXY_DELAYS,      /* each reply by 4 ms */
    REDIS_PROXY_CUTS,        /* part of a reply, then the end */
    REDIS_PROXY_ADDS,        /* a reply that nobody asked for, behind the right one */
    REDIS_PROXY_WRONG_SHAPE, /* in place of the right one: an array of two */
    REDIS_PROXY_WRONG_TYPE,  /* likewise: as many values as there should be, of texts */
    REDIS_PROXY_HUGE,        /* likewise: a text of 1 MiB */
};

struct redis_proxy_chunk;

struct redis_proxy_pair {
    int agent_fd; /* -1: none */
    int server_fd;
    bool is_spoilt;                  /* has taken part in a bad manner */
    struct redis_proxy_chunk *first; /* to the agent, when due */
    struct redis_proxy_chunk **last;
};

struct redis_proxy {
    unsigned port;
    unsigned server_port;
    _Atomic int manner;
    _Atomic int shown; /* the manner that the thread has taken on */
    _Atomic bool is_over;
    pthread_t thread;
    int listen_fd;
    struct redis_proxy_pair pairs[REDIS_PROXY_PAIRS_MAX];
};

/** Carry to the server on `server_port` of 127.0.0.1. */
bool redis_proxy_start(struct redis_proxy *proxy, unsigned server_port);
void redis_proxy_stop(struct redis_proxy *proxy);

/** Change manners; it has when this returns. */
void redis_proxy_set_manner(struct redis_proxy *proxy, enum redis_proxy_manner manner);

#endif
