/**
 * @file agent/redis/transport.h  Bytes to and from a server, plain or through TLS.
 *
 * Model:     a non-blocking socket and, with TLS, a session on it. Both behave the same:
 *            what cannot go on says what it waits for.
 * Ownership: transport_open / transport_close.
 * Threads:   its connection's.
 * Errors:    TRANSPORT_END with a text why, never to be freed.
 */
#ifndef AGENT_REDIS_TRANSPORT_H
#define AGENT_REDIS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base.h"
#include "agent/redis/endpoint.h"

struct ssl_st;
struct tls;

enum transport_status {
    TRANSPORT_OK = 0,
    TRANSPORT_READABLE, /* go on when the socket is readable */
    TRANSPORT_WRITABLE, /* likewise writable */
    TRANSPORT_END,      /* the connection is over */
};

struct transport {
    int fd; /* -1: closed */
    struct ssl_st *session;
    const char *why; /* after TRANSPORT_END */
};

/** Begin to connect. @return OK when it is, WRITABLE, or END */
MUST_USE enum transport_status transport_open(struct transport *transport,
                                              const struct endpoint_address *address);

/** After WRITABLE: whether it is connected. @return OK or END */
MUST_USE enum transport_status transport_connected(struct transport *transport);

/** Greet by TLS, until it says OK; again and again as it wishes. */
MUST_USE enum transport_status transport_secure(struct transport *transport,
                                                struct tls *tls,
                                                const char *server_name);

/** Read. @param n  what was read, for OK: at least one byte */
MUST_USE enum transport_status transport_read(struct transport *transport, char *buf,
                                              size_t cap, size_t *n);

/** Whether bytes were read of the socket that transport_read has not handed out. */
bool transport_has_more(const struct transport *transport);

/** Write. @param n  what was written, for OK: at least one byte */
MUST_USE enum transport_status transport_write(struct transport *transport,
                                               const char *bytes, size_t len,
                                               size_t *n);

/** One that is closed is fine. */
void transport_close(struct transport *transport);

#endif
